"""What rendering looks at besides the service itself: settings, runtimes, storage containers and credentials."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from serveplane.api.servingruntime import ServingRuntime
from serveplane.api.storagecontainer import INIT_CONTAINER, ClusterStorageContainer
from serveplane.objects import Json
from serveplane.settings import Settings

CLUSTER_DOMAIN = "cluster.local"
CONTROL_NAMESPACE = "kserve"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The surroundings of one InferenceService, gathered before anything is decided."""
    settings: Settings
    runtimes: Sequence[ServingRuntime] = ()
    cluster_runtimes: Sequence[ServingRuntime] = ()
    storage_containers: Sequence[ClusterStorageContainer] = ()
    accounts: Mapping[str, Json] = field(default_factory=dict)
    """ServiceAccounts of the namespace that the service names, as far as they exist."""
    secrets: Mapping[str, Json] = field(default_factory=dict)
    """Secrets of the namespace that those accounts or the service name, as far as they exist."""
    cluster_domain: str = CLUSTER_DOMAIN
    control_namespace: str = CONTROL_NAMESPACE

    def storage_container(self, uri: str) -> ClusterStorageContainer | None:
        """The first that downloads such a URI into a pod, in the order of the API server's list: by name."""
        return next((container for container in self.storage_containers
                     if not container.disabled and container.spec.workload_type == INIT_CONTAINER and container.supports(uri)),
                    None)
