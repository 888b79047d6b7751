"""The stand-ins for other projects' CRDs: recorded children go in and must come out as they were recorded."""
import copy
from pathlib import Path

import pytest

from tests.conformance.recorded import GOLDEN
from tests.kit.api import Api, documents
from tests.kit.plugin import NEIGHBOURS
from tests.kit.testbed import Testbed

pytestmark = pytest.mark.testbed
DEFINITIONS = [definition for file in sorted(NEIGHBOURS.glob("*.yaml")) for definition in documents(file)]
GROUPS = {definition["spec"]["group"] for definition in DEFINITIONS}


async def test_all_are_served_in_every_version(neighbours: Testbed, api: Api) -> None:
    for definition in DEFINITIONS:
        spec = definition["spec"]
        for version in spec["versions"]:
            assert await api.list(f"{spec['group']}/{version['name']}", spec["names"]["kind"]) == []


async def test_a_route_gets_the_defaults_of_the_real_definition(neighbours: Testbed, api: Api, namespace: str) -> None:
    rule = {"backendRefs": [{"name": "b", "port": 80}]}
    route = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "r"},
             "spec": {"parentRefs": [{"name": "g"}], "rules": [rule]}}
    spec = (await api.create(route, namespace))["spec"]
    assert spec["parentRefs"] == [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "g"}]
    assert spec["rules"] == [{"matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
                              "backendRefs": [{"group": "", "kind": "Service", "name": "b", "port": 80, "weight": 1}]}]


@pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no recorded cases in {GOLDEN} (set SERVEPLANE_GOLDEN)")
async def test_recorded_children_are_stored_unchanged(neighbours: Testbed, api: Api, namespace: str) -> None:
    children = [child for file in sorted(GOLDEN.glob("*/*/children.yaml")) for child in documents(Path(file))
                if child["apiVersion"].split("/")[0] in GROUPS]
    assert children
    for number, child in enumerate(children):
        sent = copy.deepcopy(child)
        sent["metadata"] = {"name": f"n{number}"}
        stored = await api.create(sent, namespace)
        assert stored["spec"] == child["spec"], child["metadata"]
