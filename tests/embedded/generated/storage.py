"""Volumes and claims."""

from hypothesis import strategies as st

from tests.embedded.generated.values import members, one, rarely, selector_terms, some, texts

modes = rarely(
    one(["ReadWriteOnce"], ["ReadOnlyMany", "ReadWriteMany"]), one([], ["X"], ["ReadWriteOncePod"], ["ReadWriteOncePod", "ReadOnlyMany"])
)
sizes = rarely(one("1Gi", "2Gi", "1024Mi", 1_000_000), one("0", "-1", "1500m", "x"))
node_terms = one(
    {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["x"]}]}]}},
    {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Gt"}]}]}},
    {"required": {"nodeSelectorTerms": []}},
    {},
)
volume_spec = some(
    {
        "capacity": rarely(some({"storage": sizes}), one({}, {"cpu": "1"}, {"storage": "1Gi", "cpu": "1"})),
        "accessModes": modes,
    },
    hostPath=rarely(
        one({"path": "/a"}, {"path": "/b", "type": "Directory"}), one({"path": ""}, {"path": "/../x"}, {"path": "/", "type": "X"})
    ),
    nfs=one({"server": "s", "path": "/x"}, {"server": "", "path": "x"}),
    csi=one({"driver": "example.com", "volumeHandle": "h"}, {"driver": "", "volumeHandle": ""}),
    local=one({"path": "/l"}),
    nodeAffinity=node_terms,
    persistentVolumeReclaimPolicy=rarely(one("Retain", "Delete"), one("Recycle", "X")),
    storageClassName=rarely(one("", "fast", "slow"), one("Bad Name")),
    volumeMode=rarely(one("Filesystem", "Block"), one("X")),
    mountOptions=one(["ro"], ["rw", "x"]),
    claimRef=one({"namespace": "n", "name": "c"}, {"kind": "PersistentVolumeClaim", "name": "c", "namespace": "n", "uid": "u"}),
)
simple_volume = some(
    {"capacity": some({"storage": one("1Gi", "2Gi")}), "accessModes": st.just(["ReadWriteOnce"]), "hostPath": one({"path": "/a"})}
)
claim_spec = some(
    {"accessModes": modes, "resources": some({"requests": rarely(some({"storage": sizes}), one({}, {"cpu": "1"}))})},
    selector=selector_terms,
    storageClassName=rarely(one("", "fast", "slow"), one("Bad Name")),
    volumeMode=rarely(one("Filesystem", "Block"), one("X")),
    volumeName=one("v", "w"),
    dataSource=rarely(
        one({"kind": "PersistentVolumeClaim", "name": "b"}, {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}),
        one({"kind": "X", "name": "y"}, {"kind": "PersistentVolumeClaim", "name": ""}),
    ),
)
simple_claim = some(
    {"accessModes": st.just(["ReadWriteOnce"]), "resources": some({"requests": some({"storage": one("1Gi", "2Gi", "3Gi")})})},
    storageClassName=one("fast"),
)
claim_status = some(
    phase=one("Bound", "Pending", "Lost"),
    capacity=some(storage=sizes),
    accessModes=one(["ReadWriteOnce"]),
    conditions=members("type", ("Resizing", "FileSystemResizePending"), status=one("True", "False")),
    allocatedResources=some(storage=one("1Gi", "4Gi")),
)
volume_status = some(phase=one("Available", "Bound", "Released"), message=texts, reason=one("r"))
