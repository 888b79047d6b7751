"""What the controller keeps at hand: which kinds are watched, what of them is remembered, and whose business a change is."""
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from serveplane.api import keys
from serveplane.api.model import read
from serveplane.api.servingruntime import ServingRuntime
from serveplane.api.storagecontainer import ClusterStorageContainer
from serveplane.controllers.inferenceservice.downloads import INDEX as LOADING_INDEX
from serveplane.controllers.inferenceservice.downloads import loading
from serveplane.controllers.inferenceservice.world import (
    AUTOSCALER,
    COLLECTOR,
    CONFIG_MAP,
    DEPLOYMENT,
    HTTP_ROUTE,
    INFERENCE_SERVICE,
    INGRESS,
    SCALED_OBJECT,
    SERVICE,
)
from serveplane.kube.errors import NoSuchKind
from serveplane.kube.informers import Informer, Informers
from serveplane.kube.kind import Key, Kind, key_of
from serveplane.kube.store import Change, Item
from serveplane.kube.watches import Mapped, Owned, Primary, Watch, generation_changed, spec_or_metadata_changed
from serveplane.objects import Json
from serveplane.status.service import is_ready

POD = Kind("v1", "Pod")
SERVING_RUNTIME = Kind("serving.kserve.io/v1alpha1", "ServingRuntime")
CLUSTER_RUNTIME = Kind("serving.kserve.io/v1alpha1", "ClusterServingRuntime")
STORAGE_CONTAINER = Kind("serving.kserve.io/v1alpha1", "ClusterStorageContainer")
LOCAL_CACHE = Kind("serving.kserve.io/v1alpha1", "LocalModelCache")
LOCAL_NAMESPACE_CACHE = Kind("serving.kserve.io/v1alpha1", "LocalModelNamespaceCache")
TRAINED_MODEL = Kind("serving.kserve.io/v1alpha1", "TrainedModel")
OURS = keys.INFERENCE_SERVICE
"""The label that our Deployments, Services, autoscalers and pods carry."""
APP_INDEX = "app"


class Caches:
    """The informers of the InferenceService controller, by what they are for."""

    def __init__(self, informers: Informers) -> None:
        self.services = informers.informer(INFERENCE_SERVICE)
        self.runtimes = informers.informer(SERVING_RUNTIME)
        self.cluster_runtimes = informers.informer(CLUSTER_RUNTIME, optional=True, cluster_scoped=True)
        self.storage_containers = informers.informer(STORAGE_CONTAINER, optional=True, cluster_scoped=True)
        self.local_caches = informers.informer(LOCAL_CACHE, optional=True, cluster_scoped=True)
        self.local_namespace_caches = informers.informer(LOCAL_NAMESPACE_CACHE, optional=True)
        self.pods = informers.informer(POD, labels=OURS, indexes={APP_INDEX: _app, LOADING_INDEX: loading}, trim=trimmed_pod)
        self.children: dict[Kind, Informer] = {}
        self._informers = informers
        self._own_writes: dict[Key, str] = {}

    def watches(self) -> list[Watch]:
        """Everything that can change the outcome of a reconcile."""
        return [
            Primary(INFERENCE_SERVICE, predicate=self._is_news),
            Owned(DEPLOYMENT, labels=OURS, own_writes=False),
            Owned(SERVICE, labels=OURS, predicate=spec_or_metadata_changed, own_writes=False),
            Owned(AUTOSCALER, labels=OURS, predicate=spec_or_metadata_changed, own_writes=False),
            Owned(HTTP_ROUTE, optional=True, own_writes=False),
            Owned(INGRESS, predicate=spec_or_metadata_changed, own_writes=False),
            Owned(SCALED_OBJECT, optional=True, predicate=spec_or_metadata_changed, own_writes=False),
            Owned(COLLECTOR, optional=True, predicate=spec_or_metadata_changed, own_writes=False),
            Owned(CONFIG_MAP, predicate=spec_or_metadata_changed, own_writes=False),
            Mapped(POD, _service_of, labels=OURS, indexes={APP_INDEX: _app}, trim=trimmed_pod),
            Mapped(SERVING_RUNTIME, self._users, predicate=_is_edit),
            Mapped(CLUSTER_RUNTIME, self._users, predicate=_is_edit, optional=True, cluster_scoped=True),
            Mapped(STORAGE_CONTAINER, self._failing, predicate=_is_edit, optional=True, cluster_scoped=True),
            Mapped(LOCAL_CACHE, self._waiting_for, predicate=_is_later, optional=True, cluster_scoped=True),
            Mapped(LOCAL_NAMESPACE_CACHE, self._waiting_for, predicate=_is_later, optional=True),
        ]

    def remember(self, kinds: Iterable[Kind]) -> None:
        """Once the controller is attached: where the children of each kind are found."""
        found = {kind: self._informers.covering(kind) for kind in kinds}
        self.children = {kind: informer for kind, informer in found.items() if informer is not None}

    def absent_kinds(self) -> frozenset[Kind]:
        """Neighbours' kinds that the server was found not to have."""
        return frozenset(kind for kind, informer in self.children.items() if isinstance(informer.trouble, NoSuchKind))

    def runtimes_of(self, namespace: str) -> list[ServingRuntime]:
        return [_runtime(item.raw) for item in self.runtimes.items(namespace)]

    def all_cluster_runtimes(self) -> list[ServingRuntime]:
        return [_runtime(item.raw) for item in self.cluster_runtimes.items()]

    def all_storage_containers(self) -> list[ClusterStorageContainer]:
        return storage_containers_in(self.storage_containers)

    def local_cache_of(self, service: Json) -> Json | None:
        """The local copy of its model that a service was given when it was admitted."""
        labels = service["metadata"].get("labels") or {}
        name, namespace = labels.get(keys.LOCAL_MODEL, ""), labels.get(keys.LOCAL_MODEL_NAMESPACE, "")
        if not name:
            return None
        return self.local_namespace_caches.get(namespace, name) if namespace else self.local_caches.get(None, name)

    def pods_of(self, namespace: str, app: str) -> list[Json]:
        return self.pods.by_index(APP_INDEX, f"{namespace}/{app}")

    def service_of_pod(self, pod: Key) -> Key | None:
        item = self.pods.store.item(pod)
        return next(iter(_service_of(item)), None) if item is not None else None

    def note(self, service: Json) -> None:
        """Our own write, as the server answered it: known at once, and no news when the watch tells of it.

        Without that, a decision on the state before the write could find nothing to do, and the write would stand for ever.
        """
        self._own_writes[key_of(service)] = service["metadata"]["resourceVersion"]
        self.services.note(service)

    def _is_news(self, change: Change) -> bool:
        """Everything but our own writes; one whose answer got lost is news, too."""
        key = change.item.key
        if change.new is None:
            self._own_writes.pop(key, None)
        if generation_changed(change):
            return True
        assert change.new is not None
        return change.new.meta.resourceVersion != self._own_writes.get(key)

    def _users(self, runtime: Item) -> Iterator[Key]:
        """Services that use the runtime, or might now: those that choose by format and those that found none."""
        spec = runtime.object.get("spec") or {}
        formats = {entry.get("name") for entry in spec.get("supportedModelFormats") or []}
        for item in self.services.items(runtime.meta.namespace):
            if _could_use(item.object, runtime.meta.name, formats):
                yield item.key

    def _waiting_for(self, cache: Item) -> Iterator[Key]:
        """Services that were given this local model and do not serve: what it says of itself may be what they wait for."""
        wanted = cache.meta.name, cache.meta.namespace
        for item in self.services.items(cache.meta.namespace):
            labels = item.meta.labels or {}
            if (labels.get(keys.LOCAL_MODEL), labels.get(keys.LOCAL_MODEL_NAMESPACE, "")) == wanted \
                    and not is_ready(item.object.get("status") or {}):
                yield item.key

    def _failing(self, _container: Item) -> Iterator[Key]:
        for item in self.services.items():
            status = (item.object.get("status") or {}).get("modelStatus") or {}
            if status.get("transitionStatus") == "InvalidSpec":
                yield item.key


def storage_containers_in(informer: Informer) -> list[ClusterStorageContainer]:
    """By name, which is the order they are asked in."""
    found = [_storage_container(item.raw) for item in informer.items()]
    return sorted(found, key=lambda container: container.name)


def _could_use(service: Json, runtime: str, formats: set[str]) -> bool:
    spec = service.get("spec") or {}
    predictors = [spec.get("predictor") or {}, *(canary.get("predictor") or {} for canary in spec.get("canary") or [])]
    models = [predictor["model"] for predictor in predictors if predictor.get("model")]
    return any(model.get("runtime") == runtime or (not model.get("runtime") and (model.get("modelFormat") or {}).get("name") in formats)
               for model in models)


def trimmed_pod(pod: Json) -> Json:
    """What a verdict on a pod takes, and no more: there may be very many of them."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    probed = [{"name": container.get("name"), "readinessProbe": container["readinessProbe"]} if container.get("readinessProbe")
              else {"name": container.get("name")} for container in spec.get("containers") or []]
    kept = ("name", "namespace", "uid", "resourceVersion", "labels", "creationTimestamp", "deletionTimestamp")
    told = ("phase", "reason", "message", "conditions", "containerStatuses", "initContainerStatuses")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {key: metadata[key] for key in kept if key in metadata},
            "spec": {"containers": probed}, "status": {key: status[key] for key in told if key in status}}


def _app(item: Item) -> Iterable[str]:
    app = (item.meta.labels or {}).get("app")
    return [f"{item.meta.namespace}/{app}"] if app else []


def _service_of(pod: Item) -> Iterable[Key]:
    name = (pod.meta.labels or {}).get(OURS)
    return [Key(pod.meta.namespace, name)] if name else []


def _is_edit(change: Change) -> bool:
    """Not the first list: then every service is looked at anyway."""
    return not change.initial and spec_or_metadata_changed(change)


def _is_later(change: Change) -> bool:
    return not change.initial


@lru_cache(maxsize=512)
def _runtime(raw: bytes) -> ServingRuntime:
    """Parsed once per state of the runtime, not once per reconcile."""
    return read(ServingRuntime, msgspec.json.decode(raw))


@lru_cache(maxsize=64)
def _storage_container(raw: bytes) -> ClusterStorageContainer:
    return read(ClusterStorageContainer, msgspec.json.decode(raw))
