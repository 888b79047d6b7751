"""Custom resources come and go with their definitions: names are accepted, versions served, conditions set."""

from typing import TYPE_CHECKING, Any

from serveplane.clock import timestamp
from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.crd.conversion import Conversion
from serveplane.embedded.apiserver.crd.definition import Definition, Version
from serveplane.embedded.apiserver.crd.schema import Node
from serveplane.embedded.apiserver.deleting import CLEAN_UP, DEFINITIONS, Options
from serveplane.embedded.apiserver.loops import Loop
from serveplane.embedded.apiserver.request import ADMIN, Request
from serveplane.embedded.apiserver.resources import Resource, Subresource
from serveplane.embedded.store import Change, Conflict, Key
from serveplane.embedded.store.records import DELETED
from serveplane.objects import Json, schema

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

BUCKET = DEFINITIONS
VERBS = frozenset({"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})
UNKNOWN: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Registrar(Loop):
    """Runs inside the commit of a definition, so a custom resource can be used as soon as its creation is acknowledged."""

    def __init__(self, core: "Core") -> None:
        super().__init__(core)
        self.definitions: dict[str, Definition] = {}
        self._dying: set[str] = set()
        core.store.observe(BUCKET, self._changed)
        core.store.observe("", self._content_changed)

    def start(self) -> None:
        for record in self._core.store.records(BUCKET):
            self._serve(record.value())
            self._consider(record.key.name, record.data)

    def _changed(self, change: Change) -> None:
        value = change.record.value()
        if change.type == DELETED:
            self._withdraw(value)
        else:
            self._serve(value)
            self._consider(change.record.key.name, change.record.data)

    def _content_changed(self, change: Change) -> None:
        """The last object of a dying definition going is what its end waits for."""
        if change.type == DELETED and change.bucket in self._dying:
            self.wake()

    def _consider(self, name: str, data: bytes) -> None:
        if b'"deletionTimestamp"' in data and CLEAN_UP.encode() in data:
            self._dying.add(name)
            self.wake()

    async def drain(self) -> None:
        for name in list(self._dying):
            try:
                await self._end(name)
            except Conflict:
                self.wake()
            except errors.Refusal as refusal:
                self._core.log.warning("end of definition %s: %s", name, refusal.message)
                self.postpone(self.wake)
            await self._core.clock.sleep(0)

    async def _end(self, name: str) -> None:
        if not await self._clean_up(name):
            return
        record, resource = self._core.store.get(BUCKET, Key("", name)), self._core.stored_resource(BUCKET)
        if record is not None and resource is not None:
            await self._core.adjust(resource, record, _without_clean_up)
        self._dying.discard(name)

    def _withdraw(self, value: Json) -> None:
        spec = value["spec"]
        self.definitions.pop(value["metadata"]["name"], None)
        self._core.registry.replace_group_resource(spec["group"], spec["names"]["plural"], ())
        self._core.convert.forget()
        self._core.store.bucket(f"{spec['names']['plural']}.{spec['group']}").wake()

    def _serve(self, value: Json) -> None:
        if not _is_established(value):
            return
        definition = definition_of(value)
        resources = [resource_of(version) for version in definition.versions]
        by_name = {resource.version: resource for resource in resources}
        stored = next(entry["name"] for entry in value["spec"]["versions"] if entry.get("storage"))
        definition.storage_resource = by_name[stored]
        served = [by_name[entry["name"]] for entry in value["spec"]["versions"] if entry.get("served")]
        self.definitions[definition.name] = definition
        self._core.registry.replace_group_resource(definition.group, definition.plural, served)
        self._core.convert.forget()
        for resource in resources:
            self._core.remember_kind(resource.api_version, resource.kind)

    async def _clean_up(self, name: str) -> bool:
        """Delete every object of a definition that is being deleted; whether none is left."""
        record = self._core.store.get(BUCKET, Key("", name))
        if record is None:
            return True
        spec = record.value()["spec"]
        bucket = f"{spec['names']['plural']}.{spec['group']}"
        resource = self._core.stored_resource(bucket)
        request = Request("DELETE", "", {}, {}, b"", ADMIN)
        if resource is not None:
            for item in list(self._core.store.records(bucket)):
                if b'"deletionTimestamp"' not in item.data:
                    try:
                        await self._core.deleting.delete_record(
                            self._core, request, resource, item, Options(propagation="Background")
                        )
                    except Conflict:
                        return False
        return len(self._core.store.bucket(bucket)) == 0


def _without_clean_up(value: Json) -> None:
    kept = [name for name in value["metadata"].get("finalizers") or () if name != CLEAN_UP]
    if kept:
        value["metadata"]["finalizers"] = kept
    else:
        value["metadata"].pop("finalizers", None)


def _is_established(value: Json) -> bool:
    return any(
        condition["type"] == "Established" and condition["status"] == "True"
        for condition in (value.get("status") or {}).get("conditions") or ()
    )


def definition_of(value: Json) -> Definition:
    spec = value["spec"]
    definition = Definition(
        value["metadata"]["name"],
        spec["group"],
        spec["names"]["plural"],
        value,
        Conversion(spec.get("conversion") or {}),
    )
    for entry in spec["versions"]:
        document = (entry.get("schema") or {}).get("openAPIV3Schema") or {}
        program = Node(document or UNKNOWN, root=True)
        definition.versions.append(Version(definition, entry["name"], entry, document, program))
    return definition


def resource_of(version: Version) -> Resource:
    spec = version.definition.value["spec"]
    names = spec["names"]
    return Resource(
        spec["group"],
        version.name,
        names["plural"],
        names["kind"],
        spec["scope"] == "Namespaced",
        names.get("singular") or names["kind"].lower(),
        tuple(names.get("shortNames") or ()),
        tuple(names.get("categories") or ()),
        VERBS,
        _subresources(version),
        f"{names['plural']}.{spec['group']}",
        names.get("listKind") or f"{names['kind']}List",
        version,
        schema.structural(version.schema or UNKNOWN),
    )


def _subresources(version: Version) -> dict[str, Subresource]:
    spec = version.definition.value["spec"]
    kind, found = spec["names"]["kind"], dict[str, Subresource]()
    if version.has_status:
        found["status"] = Subresource(kind, spec["group"], version.name, ("get", "patch", "update"))
    if version.scale is not None:
        found["scale"] = Subresource("Scale", "autoscaling", "v1", ("get", "patch", "update"))
    return found


def accepted(core: "Core", value: Json) -> None:
    """Set the status of a definition as its controller would: names accepted, established."""
    spec, status = value["spec"], value.setdefault("status", {})
    status["acceptedNames"], reason, message = _accepted_names(core, value)
    stored = next((entry["name"] for entry in spec["versions"] if entry.get("storage")), "")
    status["storedVersions"] = list(dict.fromkeys([*(status.get("storedVersions") or []), stored]))
    now = timestamp(core.clock.now())
    _condition(status, "NamesAccepted", not reason, reason or "NoConflicts", message or "no conflicts found", now)
    if not reason:
        _condition(status, "Established", True, "InitialNamesAccepted", "the initial names have been accepted", now)
    elif not _is_established(value):
        _condition(status, "Established", False, "NotAccepted", "not all names are accepted", now)


def _accepted_names(core: "Core", value: Json) -> tuple[Json, str, str]:
    """The names a definition gets, each unless another has it; and of those it does not get, why not the last."""
    spec, found, reason, message = value["spec"], {"plural": "", "kind": ""}, "", ""
    found.update((value.get("status") or {}).get("acceptedNames") or {})
    others = [one for one in core.registry.in_group(spec["group"]) if not _is_of(one, value["metadata"].get("name"))]
    resources = {name for one in others for name in (one.plural, one.singular, *one.short_names)}
    kinds = {name for one in others for name in (one.kind, one.list_kind)}
    for field, taken in (("plural", resources), ("singular", resources), ("shortNames", resources), ("kind", kinds), ("listKind", kinds)):
        wanted = spec["names"].get(field)
        clash = [name for name in (wanted if isinstance(wanted, list) else [wanted]) if name in taken]
        if clash:
            reason, message = f"{field[0].upper()}{field[1:]}Conflict", f'"{clash[0]}" is already in use'
        elif wanted:
            found[field] = wanted
    if not reason and spec["names"].get("categories"):
        found["categories"] = spec["names"]["categories"]
    return found, reason, message


def _is_of(resource: Resource, name: str | None) -> bool:
    return resource.custom is not None and resource.custom.definition.name == name


def _condition(status: Json, kind: str, true: bool, reason: str, message: str, now: str) -> None:
    conditions: list[Json] = status.get("conditions") or []
    status["conditions"] = conditions
    wanted: Any = {
        "type": kind,
        "status": "True" if true else "False",
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    for index, known in enumerate(conditions):
        if known["type"] == kind:
            if known["status"] == wanted["status"]:
                wanted["lastTransitionTime"] = known.get("lastTransitionTime", now)
            conditions[index] = wanted
            return
    conditions.append(wanted)
