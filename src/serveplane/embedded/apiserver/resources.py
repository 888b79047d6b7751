"""The resources the server knows: Kubernetes' own from a table, custom ones as their definitions come and go."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources as package_files
from typing import TYPE_CHECKING, Any

import msgspec

from serveplane.objects import Json, schema

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.crd.definition import Version

EVENT_BUCKET, AUTOSCALERS = "events", "horizontalpodautoscalers.autoscaling"


@dataclass(frozen=True)
class Subresource:
    kind: str
    group: str
    version: str
    verbs: tuple[str, ...]


@dataclass(eq=False)
class Resource:
    """One resource in one version. All versions of a resource share a bucket of the store."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: frozenset[str] = frozenset()
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    bucket: str = ""
    list_kind: str = ""
    custom: "Version | None" = None
    """The version of a CustomResourceDefinition behind it, if it is not one of Kubernetes' own."""
    shape: schema.Shape = schema.UNKNOWN_KIND

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def first_autoscaler(self) -> bool:
        """Whether this is the version of autoscalers that nothing is stored in."""
        return self.bucket == AUTOSCALERS and self.version == "v1"

    @property
    def converts(self) -> bool:
        """Whether what is stored may have another form than what is answered."""
        return self.custom is not None or self.bucket == EVENT_BUCKET or self.first_autoscaler

    @property
    def stored(self) -> bool:
        """Whether there are objects of it at all; reviews and bindings are only ever sent."""
        return "get" in self.verbs


class Registry:
    """Lookup by (group, version, plural). Changes bump `revision`, so that answers built from it can be cached."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self.revision = 0
        for resource in builtins():
            self._by_path[resource.group, resource.version, resource.plural] = resource

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._by_path.get((group, version, plural))

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._by_path.values()))

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        group, _, version = api_version.rpartition("/")
        for resource in self._by_path.values():
            if resource.kind == kind and resource.group == group and resource.version == version:
                return resource
        return None

    def in_group(self, group: str) -> list[Resource]:
        return [resource for resource in self._by_path.values() if resource.group == group]

    def replace_group_resource(self, group: str, plural: str, served: Iterable[Resource]) -> None:
        """Set which versions of a custom resource are served; none takes it away."""
        for path in [path for path in self._by_path if path[0] == group and path[2] == plural]:
            del self._by_path[path]
        for resource in served:
            self._by_path[resource.group, resource.version, resource.plural] = resource
        self.revision += 1


@cache
def builtins() -> tuple[Resource, ...]:
    return tuple(map(_builtin, table()))


@cache
def table() -> list[Json]:
    data = package_files.files("serveplane.embedded.apiserver").joinpath("data/resources.json").read_bytes()
    rows: list[Json] = msgspec.json.decode(data)
    return rows


def _builtin(row: Json) -> Resource:
    group, version = row["group"], row["version"]
    api_version = f"{group}/{version}" if group else version
    subresources = {name: _subresource(entry) for name, entry in row["subresources"].items()}
    bucket = EVENT_BUCKET if row["kind"] == "Event" else f"{row['plural']}.{group}" if group else row["plural"]
    return Resource(
        group,
        version,
        row["plural"],
        row["kind"],
        row["namespaced"],
        row["singular"],
        tuple(row["short"]),
        tuple(row["categories"]),
        frozenset(row["verbs"]),
        subresources,
        bucket,
        f"{row['kind']}List",
        shape=schema.builtin(api_version, row["kind"]) or schema.UNKNOWN_KIND,
    )


def _subresource(entry: Mapping[str, Any]) -> Subresource:
    return Subresource(entry["kind"], entry["group"], entry["version"], tuple(entry["verbs"]))
