"""What the server serves: `/api`, `/apis`, resource lists, and the aggregated form newer clients ask for."""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.request import Answer, Request
from serveplane.embedded.apiserver.resources import Registry, Resource
from serveplane.objects import Json

AGGREGATED = re.compile(r"application/json;g=apidiscovery\.k8s\.io;v=(v2|v2beta1);as=APIGroupDiscoveryList")
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def version_order(version: str) -> tuple[int, int, int, str]:
    """Newest stable first, then beta, then alpha, then anything else by name."""
    match = _VERSION.fullmatch(version)
    if not match:
        return 3, 0, 0, version
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return stage, -int(match[1]), -int(match[3] or 0), version


def answer(registry: Registry, request: Request) -> Answer | None:
    """The answer to a discovery path, or nothing if it is none."""
    parts = request.path.strip("/").split("/")
    match parts:
        case ["api"]:
            return _aggregated(registry, request, core=True) or Answer(200, errors.encoded(_api_versions()))
        case ["apis"]:
            return _aggregated(registry, request, core=False) or Answer(200, errors.encoded(_group_list(registry)))
        case ["apis", group]:
            return _found(_group(registry, group))
        case ["api", version]:
            return _found(_resource_list(registry, "", version))
        case ["apis", group, version]:
            return _found(_resource_list(registry, group, version))
    return None


def _found(value: Json | None) -> Answer:
    if value is None:
        raise errors.no_such_path()
    return Answer(200, errors.encoded(value))


def _api_versions() -> Json:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups(registry: Registry) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for resource in registry:
        found.setdefault(resource.group, set()).add(resource.version)
    return {group: sorted(versions, key=version_order) for group, versions in found.items()}


def _group_list(registry: Registry) -> Json:
    listed = [_group_value(group, versions) for group, versions in groups(registry).items() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def _group_value(group: str, versions: list[str]) -> Json:
    named = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": named, "preferredVersion": named[0]}


def _group(registry: Registry, group: str) -> Json | None:
    versions = groups(registry).get(group)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group_value(group, versions)} if group and versions else None


def _resource_list(registry: Registry, group: str, version: str) -> Json | None:
    resources = [resource for resource in registry.in_group(group) if resource.version == version]
    if not resources:
        return None
    listed = [entry for resource in resources for entry in _entries(resource)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": listed,
    }


def _entries(resource: Resource) -> Iterable[Json]:
    entry: Json = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _verbs(resource),
    }
    entry |= _other_names(resource)
    if resource.stored:
        entry["storageVersionHash"] = _hash(resource)
    yield entry
    for name, sub in resource.subresources.items():
        more: Json = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
        if (sub.group, sub.version) != (resource.group, resource.version):
            more |= {"group": sub.group, "version": sub.version}
        yield {**more, "kind": sub.kind, "verbs": list(sub.verbs)}


def _hash(resource: Resource) -> str:

    digest = hashlib.sha256(f"{resource.group}/{resource.version}/{resource.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _aggregated(registry: Registry, request: Request, core: bool) -> Answer | None:
    accept = request.headers.get("accept", "").replace(" ", "")
    match = AGGREGATED.search(accept)
    if not match:
        return None
    version = match[1]
    items = [
        _aggregated_group(registry, group, versions)
        for group, versions in groups(registry).items()
        if (group == "") == core
    ]
    value = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }
    data = errors.encoded(value)
    kind = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    etag = '"' + hashlib.sha256(data).hexdigest().upper() + '"'
    if request.headers.get("if-none-match") == etag:
        return Answer(304, b"", kind, {"ETag": etag, "Vary": "Accept"})
    return Answer(200, data, kind, {"ETag": etag, "Vary": "Accept"})


def _aggregated_group(registry: Registry, group: str, versions: list[str]) -> Json:
    resources = registry.in_group(group)
    listed = [
        {
            "version": version,
            "resources": [_aggregated_resource(one) for one in resources if one.version == version],
            "freshness": "Current",
        }
        for version in versions
    ]
    return {
        "metadata": {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None},
        "versions": listed,
    }


def _other_names(resource: Resource) -> Json:
    found = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {name: listed for name, listed in found.items() if listed}


def _aggregated_resource(resource: Resource) -> Json:
    entry: Json = {
        "resource": resource.plural,
        "responseKind": _kind(resource.group, resource.version, resource.kind, resource),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": _verbs(resource),
    }
    entry |= _other_names(resource)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": _kind(sub.group, sub.version, sub.kind, resource),
                "verbs": list(sub.verbs),
            }
            for name, sub in resource.subresources.items()
        ]
    return entry


def _kind(group: str, version: str, kind: str, resource: Resource) -> Mapping[str, Any]:
    if (group, version) == (resource.group, resource.version) and resource.custom is None:
        return {"group": "", "version": "", "kind": kind}
    return {"group": group, "version": version, "kind": kind}


CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


def _verbs(resource: Resource) -> list[str]:
    return [verb for verb in CUSTOM_VERBS if verb in resource.verbs] if resource.custom else sorted(resource.verbs)
