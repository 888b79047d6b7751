"""What every namespace starts with: the `default` ServiceAccount and the ConfigMap that tells pods the cluster's CA."""
from collections.abc import Callable
from datetime import timedelta

from serveplane.embedded.workloads.cluster import ACCOUNT, CONFIG_MAP, NAMESPACE, Cluster, named
from serveplane.kube.controller import Controller
from serveplane.kube.errors import AlreadyExists, Forbidden, NotFound
from serveplane.kube.kind import Key, is_being_deleted
from serveplane.kube.store import Item
from serveplane.kube.watches import Mapped, Primary, Watch
from serveplane.objects import Json

ROOT_CA = "kube-root-ca.crt"


class Accounts:
    def __init__(self, cluster: Cluster, ca: bytes) -> None:
        self._cluster = cluster
        self._ca = ca.decode()

    def controller(self) -> Controller:
        watches: list[Watch] = [Primary(NAMESPACE, cluster_scoped=True),
                   Mapped(ACCOUNT, _namespace_of("default"), keep=named("default")),
                   Mapped(CONFIG_MAP, _namespace_of(ROOT_CA), keep=named(ROOT_CA))]
        return Controller("serviceaccounts", self.reconcile, watches, workers=1, clock=self._cluster.clock)

    async def reconcile(self, key: Key) -> timedelta | None:
        namespace = self._cluster.informer(NAMESPACE).get("", key.name)
        if namespace is None or is_being_deleted(namespace):
            return None
        if self._cluster.informer(ACCOUNT).get(key.name, "default") is None:
            await self._create({"apiVersion": "v1", "kind": "ServiceAccount",
                                "metadata": {"name": "default", "namespace": key.name}})
        known = self._cluster.informer(CONFIG_MAP).get(key.name, ROOT_CA)
        wanted: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": ROOT_CA, "namespace": key.name},
                        "data": {"ca.crt": self._ca}}
        if known is None:
            await self._create(wanted)
        elif known.get("data") != wanted["data"]:
            await self._cluster.update({**known, "data": wanted["data"]})
        return None

    async def _create(self, obj: Json) -> None:
        try:
            await self._cluster.create(obj)
        except (AlreadyExists, Forbidden, NotFound):   # made by someone else, or the namespace is going
            return


def _namespace_of(name: str) -> Callable[[Item], list[Key]]:
    def keys(item: Item) -> list[Key]:
        return [Key("", item.meta.namespace)] if item.meta.name == name else []
    return keys
