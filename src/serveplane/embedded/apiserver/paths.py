"""What a request is about, read off its path: resource, namespace, name, subresource."""

from typing import NamedTuple
from urllib.parse import unquote


class Target(NamedTuple):
    """An API path taken apart. `resource` is empty for paths that are no resource (`/version`, `/api`)."""

    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


def parse_target(path: str) -> Target | None:
    """The target of a path, or nothing where it is no resource path.

    >>> parse_target("/apis/apps/v1/namespaces/default/deployments/iris/scale")[1:6]
    ('v1', 'deployments', 'default', 'iris', 'scale')
    """
    parts = path.strip("/").split("/")
    if "%" in path:
        parts = [unquote(part) for part in parts]
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    return _resource(group, version, rest)


def _resource(group: str, version: str, parts: list[str]) -> Target | None:
    namespace = ""
    if parts[0] == "watch":  # the old way to ask for a watch is gone for good
        return None
    if (
        parts[0] == "namespaces"
        and not group
        and (len(parts) <= 2 or (parts[2] in NAMESPACE_SUBRESOURCES and len(parts) == 3))
    ):
        namespace = parts[1] if len(parts) > 1 else ""
    elif parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    resource, name, subresource, *rest = [*parts, "", "", ""][: max(len(parts), 3)]
    return Target(group, version, resource, namespace, name, subresource, tuple(rest))
