"""`/openapi/v3`: one document per group and version, as kubectl explain, apply and diff read them.

Schemas of Kubernetes' own kinds come from what it publishes; paths are written from the resources served. A document is made when
somebody asks for it and kept until the resources change.
"""

import hashlib
import lzma
from collections.abc import Iterable
from functools import cache
from importlib import resources as package_files
from typing import Any

import msgspec

from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.request import Answer, Request
from serveplane.embedded.apiserver.resources import Registry, Resource
from serveplane.objects import Json

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
GVK = "x-kubernetes-group-version-kind"
REFERENCE = "#/components/schemas/"
INFO = {"title": "Kubernetes", "version": "v1.34.4"}
_QUERY = {
    "dryRun": "All: nothing is stored, everything else happens.",
    "fieldManager": "A name for the program that makes the change, kept in managedFields.",
    "fieldValidation": "What to do about unknown and duplicate fields: Ignore, Warn or Strict.",
}


OLDER_MEDIA = "application/com.github.proto-openapi.spec.v2"
OLDER_EMPTY = b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.34.4\x42\x00"
"""A document of the second version, as its protobuf has it: title and version, and no paths."""


def older(request: Request) -> Answer:
    """`/openapi/v2` describes nothing. Clients look there for what they did not find in v3, and an error would end them: kubectl, for one,
    whenever it applies a List.
    """
    if OLDER_MEDIA in request.headers.get("accept", ""):
        return Answer(200, OLDER_EMPTY, f"{OLDER_MEDIA}.v1.0+protobuf")  # asked for with an @, which no media type can have
    return Answer(200, errors.encoded({"swagger": "2.0", "info": INFO, "paths": {}, "definitions": {}}))


class OpenApi:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._revision = -1
        self._documents: dict[str, bytes] = {}

    def answer(self, request: Request) -> Answer:
        if self._revision != self._registry.revision:
            self._documents.clear()
            self._revision = self._registry.revision
        accept = request.headers.get("accept", "")
        if "json" not in accept and "*/*" not in accept and accept:
            raise errors.not_acceptable("application/json")
        path = request.path.removeprefix("/openapi/v3").strip("/")
        return self._index() if not path else self._document(path)

    def _paths(self) -> list[str]:
        found = {f"apis/{r.api_version}" if r.group else f"api/{r.version}" for r in self._registry}
        return sorted(found)

    def _index(self) -> Answer:
        """The hash names the state of the resources, so that clients may keep a document as long as it is good."""
        mark = hashlib.sha256(str(self._fingerprint()).encode()).hexdigest().upper()
        paths = {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={mark}"} for path in self._paths()}
        return Answer(200, errors.encoded({"paths": paths}))

    def _fingerprint(self) -> list[str]:
        custom = [r for r in self._registry if r.custom is not None]
        return [f"{r.api_version}/{r.kind}/{hash(msgspec.json.encode(r.custom.schema))}" for r in custom if r.custom]

    def _document(self, path: str) -> Answer:
        if path not in self._documents:
            if path not in self._paths():
                raise errors.no_such_path()
            self._documents[path] = errors.encoded(self._written(path))
        return Answer(200, self._documents[path])

    def _written(self, path: str) -> Json:
        version = path.partition("/")[2]
        served = [resource for resource in self._registry if resource.api_version == version]
        schemas: Json = {}
        for resource in served:
            _add_schemas(resource, schemas)
        for name in ("DeleteOptions", "Patch", "Status", "APIResourceList"):
            _collect(f"{META}.{name}", schemas)
        paths = {key: value for resource in served for key, value in _resource_paths(resource).items()}
        return {"openapi": "3.0.0", "info": INFO, "paths": paths, "components": {"schemas": schemas}}


@cache
def definitions() -> dict[str, Json]:
    data = package_files.files("serveplane.embedded.apiserver").joinpath("data/openapi.json.xz").read_bytes()
    found: dict[str, Json] = msgspec.json.decode(lzma.decompress(data))
    return found


@cache
def _names_by_kind() -> dict[tuple[str, str, str], str]:
    found = {}
    for name, schema in definitions().items():
        for entry in schema.get(GVK, ()):
            if name.endswith(f".{entry['kind']}"):
                found[entry["group"], entry["version"], entry["kind"]] = name
    return found


def schema_name(resource: Resource, kind: str = "") -> str:
    kind = kind or resource.kind
    known = _names_by_kind().get((resource.group, resource.version, kind))
    reverse = ".".join(reversed(resource.group.split(".")))
    return known or f"{reverse}.{resource.version}.{kind}"


def _collect(name: str, into: Json) -> None:
    """A published schema with everything it refers to."""
    if name in into or name not in definitions():
        return
    into[name] = definitions()[name]
    for reference in _references(into[name]):
        _collect(reference, into)


def _references(node: Any) -> Iterable[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(REFERENCE)
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _add_schemas(resource: Resource, schemas: Json) -> None:
    if resource.custom is None:
        _collect(schema_name(resource), schemas)
        _collect(schema_name(resource, resource.list_kind), schemas)
        return
    _collect(f"{META}.ObjectMeta", schemas)
    _collect(f"{META}.ListMeta", schemas)
    schemas[schema_name(resource)] = _custom_schema(resource)
    items = {"type": "array", "items": {"$ref": REFERENCE + schema_name(resource)}}
    schemas[schema_name(resource, resource.list_kind)] = {
        "type": "object",
        "required": ["items"],
        GVK: [_gvk(resource, resource.list_kind)],
        "properties": {**_TYPE, "items": items, "metadata": {"allOf": [{"$ref": f"{REFERENCE}{META}.ListMeta"}]}},
    }


_TYPE: Json = {
    "apiVersion": {"type": "string", "description": "The version of the API this object is written in."},
    "kind": {"type": "string", "description": "What kind of object this is."},
}


def _custom_schema(resource: Resource) -> Json:
    assert resource.custom is not None
    schema = dict(resource.custom.schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    metadata = {"allOf": [{"$ref": f"{REFERENCE}{META}.ObjectMeta"}], "description": "Standard object's metadata."}
    schema["properties"] = {**_TYPE, **schema.get("properties", {}), "metadata": metadata}
    return {**schema, GVK: [_gvk(resource, resource.kind)]}


def _gvk(resource: Resource, kind: str) -> Json:
    return {"group": resource.group, "version": resource.version, "kind": kind}


def _resource_paths(resource: Resource) -> Json:
    base = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    inside = f"{base}/namespaces/{{namespace}}" if resource.namespaced else base
    paths: Json = {f"{inside}/{resource.plural}": _operations(resource, ("list", "create", "deletecollection"))}
    if resource.namespaced and "list" in resource.verbs:
        paths[f"{base}/{resource.plural}"] = _operations(resource, ("list",))
    if "get" in resource.verbs:
        paths[f"{inside}/{resource.plural}/{{name}}"] = _operations(resource, ("get", "update", "patch", "delete"))
    if "status" in resource.subresources:
        paths[f"{inside}/{resource.plural}/{{name}}/status"] = _operations(resource, ("get", "update", "patch"))
    return {path: operations for path, operations in paths.items() if operations}


_METHODS = {
    "list": "get",
    "get": "get",
    "create": "post",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "delete",
}
_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


def _operations(resource: Resource, verbs: Iterable[str]) -> Json:
    return {_METHODS[verb]: _operation(resource, verb) for verb in verbs if verb in resource.verbs}


def _operation(resource: Resource, verb: str) -> Json:
    action = {"create": "post", "update": "put"}.get(verb, verb)
    schema = {"$ref": REFERENCE + schema_name(resource, resource.list_kind if verb == "list" else "")}
    operation: Json = {
        "operationId": f"{verb}{resource.group.title().replace('.', '')}{resource.version.title()}{resource.kind}",
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
        "x-kubernetes-action": action,
        GVK: _gvk(resource, resource.kind),
    }
    if verb in ("create", "update", "patch", "delete"):
        names = [name for name in _QUERY if verb != "delete" or name == "dryRun"]
        operation["parameters"] = [_parameter(name, _QUERY[name]) for name in names]
    if verb == "patch":
        operation["parameters"].append(
            {
                **_parameter("force", "Take fields from other managers (server-side apply)."),
                "schema": {"type": "boolean"},
            }
        )
        kinds = [kind for kind in _PATCHES if resource.custom is None or "strategic" not in kind]
        body = {"schema": {"$ref": f"{REFERENCE}{META}.Patch"}}
        operation["requestBody"] = {"required": True, "content": dict.fromkeys(kinds, body)}
    elif verb in ("create", "update"):
        operation["requestBody"] = {"required": True, "content": {"*/*": {"schema": schema}}}
    return operation


def _parameter(name: str, description: str) -> Json:
    return {"name": name, "in": "query", "description": description, "schema": {"type": "string", "uniqueItems": True}}
