"""Shared caches of the cluster: one list and watch per kind and scope, however many controllers look.

informers = Informers(client)
pods = informers.informer(Kind("v1", "Pod"), labels="serving.kserve.io/inferenceservice")
async with asyncio.TaskGroup() as group:
    informers.start(group)
    await informers.synced()
    pods.get("default", "iris-predictor-abc")
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from serveplane.clock import Clock
from serveplane.kube.client import Client
from serveplane.kube.errors import KubeError, NoSuchKind, one_line
from serveplane.kube.kind import Key, Kind, key_of
from serveplane.kube.metrics import Registry
from serveplane.kube.reflector import Reflector, Scope
from serveplane.kube.store import Index, Item, Keep, Listener, Store, Trim, encoded
from serveplane.objects import Json

SYNC_SECONDS = 60.0


class Informer:
    """The objects of one kind within one scope, always at hand."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
        scopes: Sequence[Scope],
        clock: Clock,
        *,
        optional: bool = False,
        forbidden_is_absent: bool = False,
    ) -> None:
        self.kind = kind
        self.store = Store(kind)
        self.reflectors = [
            Reflector(client, kind, scope, self.store, clock, optional=optional, forbidden_is_absent=forbidden_is_absent)
            for scope in scopes
        ]

    def get(self, namespace: str | None, name: str) -> Json | None:
        """A fresh copy of the object, or None when it does not exist or is foreign."""
        return self.store.get(Key(namespace or "", name))

    def items(self, namespace: str = "") -> list[Item]:
        """Like `list`, undecoded: for loops that look at metadata only."""
        return list(self.store.items(namespace))

    def by_index(self, index: str, value: str) -> list[Json]:
        """Objects an index finds, by key; `owner` (an owner's uid) is always there."""
        return self.store.by_index(index, value)

    def keys_by_index(self, index: str, value: str) -> list[Key]:
        """The keys alone, where that is all one needs."""
        return self.store.index_keys(index, value)

    def list(self, namespace: str = "") -> list[Json]:
        return [item.object for item in self.store.items(namespace)]

    def foreign_uid(self, namespace: str | None, name: str) -> str:
        """The uid of an object that exists but is not kept; empty when there is none."""
        return self.store.foreign_uid(Key(namespace or "", name))

    def listen(self, listener: Listener) -> None:
        self.store.listen(listener)

    def own_write(self, namespace: str | None, name: str) -> AbstractContextManager[None]:
        """Around a write of ours and the `note` of its answer, so that the watch does not tell of it as if someone else had written."""
        return self.store.own_write(Key(namespace or "", name))

    def note(self, obj: Json) -> None:
        """Our own write, as the server answered it: known at once, instead of when the watch tells.

        Ignored when the watch is already past it; the object may have been deleted since.
        """
        version = (obj.get("metadata") or {}).get("resourceVersion") or ""
        namespace = key_of(obj).namespace
        self.store.answered(key_of(obj), version)
        for reflector in self.reflectors:
            if reflector.covers(namespace) and reflector.synced.is_set() and not reflector.passed(version):
                self.store.put(encoded(obj), own=True)

    @property
    def is_synced(self) -> bool:
        return all(reflector.synced.is_set() for reflector in self.reflectors)

    @property
    def trouble(self) -> KubeError | None:
        return next((reflector.trouble for reflector in self.reflectors if reflector.trouble), None)


class Informers:
    """All informers of a process, shared by kind and scope."""

    def __init__(self, client: Client, clock: Clock | None = None, *, namespaces: Sequence[str] = ()) -> None:
        self.client = client
        self._clock = clock or client.clock
        self._namespaces = tuple(namespaces)
        self._informers: dict[tuple[Kind, Scope], Informer] = {}
        self._group: asyncio.TaskGroup | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def informer(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        cluster_scoped: bool = False,
        indexes: Mapping[str, Index] | None = None,
        keep: Keep | None = None,
        trim: Trim | None = None,
        optional: bool = False,
    ) -> Informer:
        """The informer of a kind and scope, made on first use.

        `keep` says which objects are kept whole (of several callers, any one's wish counts; a caller without it wants
        all); the others are remembered as key and uid. `optional` kinds may be absent from the server: they count as
        empty. So do optional cluster-scoped kinds that may not be read, where only some namespaces are ours to look at.
        """
        scope = Scope(namespace or "", labels, fields)
        found = self._informers.get((kind, scope))
        if found is None:
            found = Informer(
                self.client,
                kind,
                self._scopes(scope, cluster_scoped),
                self._clock,
                optional=optional,
                forbidden_is_absent=optional and cluster_scoped and bool(self._namespaces),
            )
            found.store.trim = trim
            self._informers[kind, scope] = found
            self._wish(found, keep)
            self._begin(found)
        else:
            self._wish(found, keep)
        for name, index in (indexes or {}).items():
            found.store.add_index(name, index)
        return found

    def covering(self, kind: Kind, namespace: str = "") -> Informer | None:
        """The informer that sees most objects of a kind in a namespace; those narrowed to single names do not count."""
        found = [
            (bool(scope.labels), informer)
            for (known, scope), informer in self._informers.items()
            if known == kind and not scope.fields and scope.namespace in ("", namespace)
        ]
        return min(found, key=lambda pair: pair[0])[1] if found else None

    def start(self, group: asyncio.TaskGroup) -> None:
        """Begin to list and watch, now and for informers added later."""
        self._group = group
        for informer in self._informers.values():
            self._begin(informer)

    async def synced(self, timeout: float = SYNC_SECONDS) -> None:
        """Wait until every informer has listed once. Says which could not, and why."""
        try:
            async with asyncio.timeout(timeout):
                for informer in list(self._informers.values()):
                    for reflector in informer.reflectors:
                        await reflector.synced.wait()
        except TimeoutError:
            missing = [informer for informer in self._informers.values() if not informer.is_synced]
            told = "; ".join(f"{informer.kind.kind}: {_why(informer)}" for informer in missing)
            raise _kind_of_trouble(missing)(f"could not read the cluster within {timeout:.0f} s: {told}") from None

    @property
    def is_synced(self) -> bool:
        return all(informer.is_synced for informer in self._informers.values())

    def __iter__(self) -> Iterator[Informer]:
        return iter(list(self._informers.values()))

    def observe(self, registry: Registry) -> None:
        """Cache sizes as gauges."""
        objects = registry.gauge(
            "serveplane_cache_objects", "Objects in the cache, by kind and whether kept whole.", "kind", "kept"
        )
        size = registry.gauge("serveplane_cache_bytes", "Bytes of objects kept whole, by kind.", "kind")

        def collect() -> None:
            for informer in self._informers.values():
                kept, foreign, total = informer.store.sizes()
                objects.set(kept, str(informer.kind), "whole")
                objects.set(foreign, str(informer.kind), "key")
                size.set(total, str(informer.kind))

        registry.on_collect(collect)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def _scopes(self, scope: Scope, cluster_scoped: bool) -> list[Scope]:
        if scope.namespace or cluster_scoped or not self._namespaces:
            return [scope]
        return [Scope(namespace, scope.labels, scope.fields) for namespace in self._namespaces]

    def _wish(self, informer: Informer, keep: Keep | None) -> None:
        if self._group is not None and informer.is_synced and len(informer.store) and informer.store.keeps is not None:
            if keep in informer.store.keeps:
                return
            raise ValueError(f"{informer.kind} is already cached for others only in part; ask for it before starting")
        if keep is None:
            informer.store.keeps = None
        elif informer.store.keeps is not None:
            informer.store.keeps.append(keep)

    def _begin(self, informer: Informer) -> None:
        if self._group is not None:
            for reflector in informer.reflectors:
                self._tasks.append(self._group.create_task(reflector.run(), name=f"watch {informer.kind}"))


def _why(informer: Informer) -> str:
    return one_line(informer.trouble) if informer.trouble else "no answer yet"


def _kind_of_trouble(informers: list[Informer]) -> type[KubeError]:
    return NoSuchKind if any(isinstance(informer.trouble, NoSuchKind) for informer in informers) else KubeError
