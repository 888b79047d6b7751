"""The cluster that the cases were recorded on."""
from tests.conformance.recorded import GOLDEN
from tests.kit.api import Api, documents, install
from tests.kit.installation import NAMESPACE
from tests.kit.testbed import Testbed


async def put_baseline(testbed: Testbed) -> None:
    """The cluster as it was before any case was recorded."""
    async with Api(testbed.kubeconfig, agent="conformance") as api:
        for name in (NAMESPACE, "knative-serving"):
            await api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        everything = [obj for file in sorted((GOLDEN / "baseline").glob("*.yaml")) for obj in documents(file)]
        await api.discover()
        await install(api, [obj for obj in everything if (obj["apiVersion"], obj["kind"]) in api.resources])
