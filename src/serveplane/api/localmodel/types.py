"""LocalModelCache, LocalModelNamespaceCache, LocalModelNodeGroup and LocalModelNode v1alpha1 as typed data."""

from typing import Annotated, Literal

import msgspec

from serveplane.api.model import Described, Model, Named, Part, Quantity, StringMap, rules
from serveplane.objects import Json

IMMUTABLE = rules(x_kubernetes_validations=[{"rule": "self == oldSelf", "message": "cannot be changed"}])
NodeState = Literal["", "NodeNotReady", "NodeDownloadPending", "NodeDownloading", "NodeDownloaded", "NodeDownloadError"]
ModelState = Literal["", "ModelDownloadPending", "ModelDownloading", "ModelDownloaded", "ModelDownloadError"]


class CacheStorage(Model):
    """Credentials for the download, by key of the storage secret."""

    key: str | None = None
    parameters: StringMap | None = None


class LocalModelCacheSpec(Model):
    source_model_uri: Annotated[str, IMMUTABLE]
    model_size: Quantity
    node_groups: Annotated[tuple[str, ...], rules(minItems=1)]
    service_account_name: str | None = None
    storage: CacheStorage | None = None


class Reference(Model):
    name: str | None = None
    namespace: str | None = None


class CacheCopies(Model):
    available: int | None = None
    total: int | None = None
    failed: int | None = None


class LocalModelCacheStatus(Model):
    node_status: dict[str, NodeState] | None = None
    copies: CacheCopies | None = None
    inference_services: tuple[Reference, ...] = ()
    llm_inference_services: tuple[Reference, ...] = msgspec.field(default=(), name="llmInferenceServices")


class LocalModelCache(Named):
    """A model kept on the nodes of some groups; a LocalModelNamespaceCache reads the same and has a namespace."""

    spec: LocalModelCacheSpec
    status: Annotated[Json, Described(LocalModelCacheStatus)] = msgspec.field(default_factory=dict)


class LocalModelNodeGroupSpec(Model):
    storage_limit: Quantity
    persistent_volume_spec: Annotated[Json, Part("core.v1.PersistentVolumeSpec")]
    persistent_volume_claim_spec: Annotated[Json, Part("core.v1.PersistentVolumeClaimSpec")]


class LocalModelNodeGroupStatus(Model):
    used: Quantity | None = None
    available: Quantity | None = None


class LocalModelNodeGroup(Named):
    spec: LocalModelNodeGroupSpec
    status: Annotated[Json, Described(LocalModelNodeGroupStatus)] = msgspec.field(default_factory=dict)


class LocalModelInfo(Model):
    """One model that a node has to hold."""

    source_model_uri: str
    model_name: str
    namespace: str | None = None
    node_group: str | None = None
    service_account_name: str | None = None
    storage: CacheStorage | None = None


class LocalModelNodeSpec(Model):
    local_models: tuple[LocalModelInfo, ...]


class LocalModelNodeStatus(Model):
    model_status: dict[str, ModelState] | None = None


class LocalModelNode(Named):
    spec: LocalModelNodeSpec
    status: Annotated[Json, Described(LocalModelNodeStatus)] = msgspec.field(default_factory=dict)
