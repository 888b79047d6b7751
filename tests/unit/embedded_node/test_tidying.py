"""What was deleted while the node was away goes at its start; everything else stays."""
from pathlib import Path
from types import SimpleNamespace

from serveplane.embedded.node.tidying import MADE_FOR_CLAIMS, remove_forgotten
from serveplane.embedded.testing import api_server
from serveplane.kube.client import Client


async def test_only_what_nothing_stands_for_goes(tmp_path: Path) -> None:
    async with api_server() as server:
        client = Client(server.transport())
        await client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}})
        pod = await client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
                                   "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}],
                                            "automountServiceAccountToken": False}})
        await client.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pvc-kept"},
                             "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}})
        uid = pod["metadata"]["uid"]
        kept = ["pods/" + uid, f"logs/default_p_{uid}", f"host/{MADE_FOR_CLAIMS}/pvc-kept", f"host/{MADE_FOR_CLAIMS}/other", "host/models"]
        gone = ["pods/old", "logs/default_q_old", f"host/{MADE_FOR_CLAIMS}/pvc-gone"]
        for name in [*kept, *gone]:
            (tmp_path / name).mkdir(parents=True)
        context = SimpleNamespace(client=client, name="n", folder=tmp_path, host_root=tmp_path / "host")
        assert await remove_forgotten(context) == len(gone)  # type: ignore[arg-type]
        assert all((tmp_path / name).is_dir() for name in kept)
        assert not any((tmp_path / name).exists() for name in gone)
