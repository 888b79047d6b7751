"""Looks at a cluster in the way the cases were recorded, but by watching instead of asking: all cases share one set of watches."""
import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Self

import aiohttp

from tests.conformance.normal import normal_object, normal_pod, normal_status
from tests.conformance.recorded import Observation
from tests.kit.api import Api, Refused, Resource

Json = dict[str, Any]
Key = tuple[str, str, str]                # kind, namespace, name
OURS = "serving.kserve.io"
JOBS = "kserve-localmodel-jobs"           # where copies of cluster-wide caches are downloaded
UNSEEN = {"Event", "Endpoints", "EndpointSlice", "ReplicaSet", "ControllerRevision", "Lease", "PodTemplate", "ResourceQuota", "LimitRange",
          "NetworkPolicy", "CSIStorageCapacity", "ReplicationController", "Binding", "LocalSubjectAccessReview"}
CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding", "PersistentVolume", "LocalModelNode"}
EVERYWHERE = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
SERVED_BY = "serving.kserve.io/inferenceservice"


class Mirror:
    """Every object of the cluster that a case could have brought about, kept up to date by watches."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._objects: dict[str, dict[tuple[str, Key], Json]] = defaultdict(dict)      # namespace -> (apiVersion, key) -> object
        self._changed: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self._api.discover()
        for resource in self._api.preferred:
            if resource.kind not in UNSEEN and (resource.namespaced or resource.kind in CLUSTER_WIDE or OURS in resource.api_version):
                self._tasks.append(asyncio.create_task(self._follow(resource)))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def objects(self, namespace: str) -> Iterable[Json]:
        return self._objects[namespace].values()

    def find(self, kind: str, namespace: str, name: str, group: str = OURS) -> Json | None:
        return next((obj for (version, key), obj in self._objects[namespace].items()
                     if key == (kind, namespace, name) and version.startswith(group)), None)

    async def change(self, namespace: str, seconds: float) -> bool:
        """Wait for something to happen in a namespace; False if nothing did."""
        event = self._changed[namespace]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
        happened = event.is_set()
        event.clear()
        return happened

    async def _follow(self, resource: Resource) -> None:
        path = resource.collection(None)
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, Refused):
                everything = await self._api.call("GET", path)
                for obj in everything["items"]:
                    self._take(resource, "ADDED", obj)
                async for event, obj in self._api.watch(path, everything["metadata"]["resourceVersion"]):
                    if event == "ERROR":
                        break
                    if event != "BOOKMARK":
                        self._take(resource, event, obj)
            await asyncio.sleep(0.2)

    def _take(self, resource: Resource, event: str, obj: Json) -> None:
        namespace = obj["metadata"].get("namespace", "")
        place = resource.api_version, (resource.kind, namespace, obj["metadata"]["name"])
        if event == "DELETED":
            self._objects[namespace].pop(place, None)
        else:
            self._objects[namespace][place] = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        for waiting in [namespace] if namespace else list(self._changed):
            self._changed[waiting].set()


class Eye:
    """Sees one case: what the user applied, and everything that came of it."""

    def __init__(self, mirror: Mirror, api: Api, namespace: str, is_cluster_wide: bool) -> None:
        self._mirror, self._api, self._namespace, self._is_cluster_wide = mirror, api, namespace, is_cluster_wide
        self.applied: dict[Key, Json] = {}

    async def look(self) -> Observation:
        seen: Observation = {"children": [normal_object(obj, OURS in obj["apiVersion"]) for obj in self._children()], "pods": self._pods(),
                             "object": [], "status": [], "gone": []}
        for obj in self.applied.values():
            if obj["apiVersion"].startswith(OURS):
                await self._see_applied(obj, seen)
        return {part: objects for part, objects in seen.items() if objects}

    def stale(self) -> list[str]:
        """Services whose status speaks of another generation than theirs."""
        found = (self._find(obj) for obj in self.applied.values() if obj["kind"] == "InferenceService")
        return [obj["metadata"]["name"] for obj in found if obj and _observed(obj) not in (None, obj["metadata"]["generation"])]

    def _children(self) -> list[Json]:
        everything = list(self._mirror.objects(self._namespace))
        if self._is_cluster_wide:
            everything += self._mirror.objects(JOBS)
        everything += [obj for obj in self._mirror.objects("") if obj["kind"] in CLUSTER_WIDE and self._belongs(obj)]
        return [obj for obj in everything if obj["kind"] != "Pod" and _key(obj) not in self.applied and _key(obj)[::2] not in EVERYWHERE
                and not any(owner["kind"] == "Pod" for owner in obj["metadata"].get("ownerReferences", []))]

    def _belongs(self, obj: Json) -> bool:
        if obj["kind"] in ("ClusterRole", "ClusterRoleBinding"):
            return self._namespace in repr([obj.get("subjects"), obj["metadata"].get("labels"), obj["metadata"]["name"]])
        return self._is_cluster_wide

    def _pods(self) -> list[Json]:
        pods = [normal_pod(obj) for obj in self._mirror.objects(self._namespace) if obj["kind"] == "Pod"
                and SERVED_BY in obj["metadata"].get("labels", {}) and not obj["metadata"].get("deletionTimestamp")]
        return [pod for n, pod in enumerate(pods) if pod not in pods[:n]]

    async def _see_applied(self, applied: Json, seen: Observation) -> None:
        """The object as it is stored, in the newest version and, where the user wrote an older one, in that too."""
        stub = {"kind": applied["kind"], "metadata": {"name": applied["metadata"]["name"]}}
        stored = self._find(applied)
        if stored is None:
            seen["gone"].append(stub)
            return
        seen["object"].append(normal_object(stored))
        if stored.get("status"):
            seen["status"].append({**stub, "status": normal_status(stored["status"])})
        if stored["apiVersion"] != applied["apiVersion"]:
            meta = stored["metadata"]
            older = await self._api.get(applied["apiVersion"], applied["kind"], meta["name"], meta.get("namespace"))
            seen["object"] += [normal_object(older)] if older else []

    def _find(self, applied: Json) -> Json | None:
        kind, namespace, name = next(key for key, obj in self.applied.items() if obj is applied)
        return self._mirror.find(kind, namespace, name)


def _observed(obj: Json) -> int | None:
    return (obj.get("status") or {}).get("observedGeneration")


def _key(obj: Json) -> Key:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"].get("name", "")
