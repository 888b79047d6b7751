"""What every workload controller is given: the client, the shared caches, the clock, and a few writes in one place."""
from collections.abc import Callable
from dataclasses import dataclass, field

from serveplane.clock import Clock, timestamp
from serveplane.kube.client import Client
from serveplane.kube.errors import Conflict, NotFound
from serveplane.kube.informers import Informer, Informers
from serveplane.kube.kind import Kind, key_of, kind_of, uid_of
from serveplane.kube.store import Keep
from serveplane.objects import Json

POD = Kind("v1", "Pod")
NODE = Kind("v1", "Node")
SERVICE = Kind("v1", "Service")
NAMESPACE = Kind("v1", "Namespace")
CLAIM = Kind("v1", "PersistentVolumeClaim")
VOLUME = Kind("v1", "PersistentVolume")
ACCOUNT = Kind("v1", "ServiceAccount")
CONFIG_MAP = Kind("v1", "ConfigMap")
DEPLOYMENT = Kind("apps/v1", "Deployment")
REPLICA_SET = Kind("apps/v1", "ReplicaSet")
STATEFUL_SET = Kind("apps/v1", "StatefulSet")
DAEMON_SET = Kind("apps/v1", "DaemonSet")
CONTROLLER_REVISION = Kind("apps/v1", "ControllerRevision")
JOB = Kind("batch/v1", "Job")
CRON_JOB = Kind("batch/v1", "CronJob")
AUTOSCALER = Kind("autoscaling/v2", "HorizontalPodAutoscaler")
BUDGET = Kind("policy/v1", "PodDisruptionBudget")
ENDPOINT_SLICE = Kind("discovery.k8s.io/v1", "EndpointSlice")

MANAGER = "kube-controller-manager"
WHOLE = (POD, NODE, SERVICE, NAMESPACE, CLAIM, VOLUME, DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET,
         CONTROLLER_REVISION, JOB, CRON_JOB, AUTOSCALER, BUDGET, ENDPOINT_SLICE)
PARTS = {ACCOUNT: "default", CONFIG_MAP: "kube-root-ca.crt"}   # of these kinds only objects of one name are kept
Recorder = Callable[[Json, str, str, str], None]   # object, type, reason, message


def named(name: str) -> Keep:
    return lambda item: item.meta.name == name


@dataclass(frozen=True)
class Cluster:
    client: Client
    informers: Informers
    clock: Clock
    record: Recorder
    caches: dict[Kind, Informer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Ask for every cache before any starts: a controller that needs a part must not narrow it for the others."""
        for kind in WHOLE:
            self.caches[kind] = self.informers.informer(kind)
        for kind, name in PARTS.items():
            self.caches[kind] = self.informers.informer(kind, keep=named(name))

    def informer(self, kind: Kind) -> Informer:
        return self.caches[kind]

    @property
    def now(self) -> str:
        return timestamp(self.clock.now())

    async def create(self, obj: Json) -> Json:
        """Create, and know it at once: the next reconcile must not create it again."""
        made = await self.client.create(obj, field_manager=MANAGER)
        self.informer(kind_of(obj)).note(made)
        return made

    async def delete(self, obj: Json) -> None:
        """Delete this very object; gone already is as good."""
        key = key_of(obj)
        try:
            gone = await self.client.delete(kind_of(obj), key.name, key.namespace, uid=uid_of(obj),
                                            propagation="Background")
        except (NotFound, Conflict):
            return
        if gone.get("kind") == obj["kind"]:   # graceful: still there, marked
            self.informer(kind_of(obj)).note(gone)

    async def update(self, obj: Json) -> Json:
        made = await self.client.update(obj, field_manager=MANAGER)
        self.informer(kind_of(obj)).note(made)
        return made

    async def write_status(self, obj: Json, status: Json) -> None:
        """Write the status if it differs from what is there."""
        if (obj.get("status") or {}) == status:
            return
        made = await self.client.update_status({**obj, "status": status}, field_manager=MANAGER)
        self.informer(kind_of(obj)).note(made)

    def owned(self, kind: Kind, owner: Json) -> list[Json]:
        """Children of this kind whose controller is the owner."""
        uid = uid_of(owner)
        return [child for child in self.informer(kind).by_index("owner", uid)
                if any(reference.get("controller") and reference.get("uid") == uid
                       for reference in child["metadata"].get("ownerReferences") or ())]
