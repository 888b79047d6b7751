"""From a kind to the path it is served under, asked of the server once per group and version.

What is known stays known; a kind that is missing is looked for again, but at most once per `NEGATIVE_SECONDS`, so that
reconciles asking for it do not hammer the server. Who waits for a kind with pauses of its own says `forget` before each look.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from serveplane.clock import Clock
from serveplane.kube.errors import NoSuchKind, NotFound
from serveplane.kube.kind import Kind
from serveplane.objects import Json

NEGATIVE_SECONDS = 5.0


@dataclass(frozen=True)
class Resource:
    """Where the objects of a kind live, and what can be done with them."""

    kind: Kind
    plural: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()
    subresources: frozenset[str] = frozenset()
    short_names: tuple[str, ...] = ()
    singular: str = ""

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        parts = [self.kind.path]
        if self.namespaced and namespace:
            parts += ["namespaces", segment(namespace, "namespace")]
        parts.append(self.plural)
        if name:
            parts.append(segment(name, "name"))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


def segment(text: str, what: str) -> str:
    """A name as a path segment. Names that would leave the path are refused, as an API server refuses them.

    >>> segment("iris", "name")
    'iris'
    """
    if text in (".", "..") or any(c in "/%?#\\" or c <= " " or c == "\x7f" for c in text):
        raise ValueError(f"{text!r} cannot be used as a {what}")
    return text


class Discovery:
    """The server's kinds, as far as they were asked for."""

    def __init__(self, fetch: Callable[[str], Awaitable[Json]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._known: dict[str, dict[str, Resource]] = {}  # apiVersion -> kind -> resource
        self._looked: dict[str, float] = {}  # apiVersion -> when it was last asked for
        self._locks: dict[str, asyncio.Lock] = {}

    async def resource(self, kind: Kind) -> Resource:
        found = self._known.get(kind.api_version, {}).get(kind.kind)
        return found or await self._look(kind)

    async def served(self, kind: Kind) -> bool:
        """Whether the server knows the kind at all: optional neighbours (Knative, Istio, KEDA) are told apart by this."""
        try:
            await self.resource(kind)
        except NoSuchKind:
            return False
        return True

    async def group_version(self, api_version: str) -> list[Resource]:
        """All kinds of one group and version, freshly asked for."""
        await self._refresh(Kind(api_version, ""))
        return list(self._known.get(api_version, {}).values())

    async def api_versions(self) -> list[str]:
        """Every group and version, preferred ones first within their group."""
        groups = (await self._fetch("/apis")).get("groups") or []
        versions = ["v1"]
        for group in groups:
            preferred = (group.get("preferredVersion") or {}).get("groupVersion")
            every = [version["groupVersion"] for version in group.get("versions") or ()]
            versions += sorted(every, key=lambda version: version != preferred)
        return versions

    async def by_name(self, word: str) -> Resource:
        """What a person typed (`isvc`, `pods`, `deployment.apps`, `Deployment`) as a resource."""
        name, _, group = word.partition(".")
        for api_version in await self.api_versions():
            if group and Kind(api_version, "").group != group:
                continue
            for resource in await self.group_version(api_version):
                names = (resource.plural, resource.singular, resource.kind.kind.lower(), *resource.short_names)
                if name.lower() in names:
                    return resource
        raise NoSuchKind(f'the server has no resource type "{word}"')

    def forget(self, api_version: str) -> None:
        """A path that answered 404 for the type itself: the server is asked anew next time, however soon that is."""
        self._known.pop(api_version, None)
        self._looked.pop(api_version, None)

    async def _look(self, kind: Kind) -> Resource:
        async with self._locks.setdefault(kind.api_version, asyncio.Lock()):
            found = self._known.get(kind.api_version, {}).get(kind.kind)
            if found:
                return found
            looked = self._looked.get(kind.api_version)
            if looked is None or self._clock.monotonic() - looked >= NEGATIVE_SECONDS:
                await self._refresh(kind)
        try:
            return self._known[kind.api_version][kind.kind]
        except KeyError:
            raise NoSuchKind(f"the API server does not serve {kind.kind} in {kind.api_version}") from None

    async def _refresh(self, kind: Kind) -> None:
        try:
            answer = await self._fetch(kind.path)
        except NotFound:
            answer = {}
        self._looked[kind.api_version] = self._clock.monotonic()
        self._known[kind.api_version] = parse_resources(kind.api_version, answer)


def parse_resources(api_version: str, answer: Json) -> dict[str, Resource]:
    """An `APIResourceList` by kind; subresources (`deployments/scale`) go with the resource they belong to."""
    entries = answer.get("resources") or []
    below: dict[str, set[str]] = {}
    for entry in entries:
        plural, _, subresource = entry["name"].partition("/")
        if subresource:
            below.setdefault(plural, set()).add(subresource)
    return {
        entry["kind"]: Resource(
            Kind(api_version, entry["kind"]),
            entry["name"],
            bool(entry.get("namespaced")),
            frozenset(entry.get("verbs") or ()),
            frozenset(below.get(entry["name"], ())),
            tuple(entry.get("shortNames") or ()),
            entry.get("singularName") or entry["kind"].lower(),
        )
        for entry in entries
        if "/" not in entry["name"]
    }
