"""Who owns which field of an object: `managedFields` read, compared and (for adoption) rewritten.

Pure. Field sets are in the API's own form, see `objects.fieldset`.
"""

from collections.abc import Iterator
from typing import Any

from serveplane.objects import Json
from serveplane.objects.fieldset import UNTRACKED, Fields, difference, fields_of, intersection, paths, readable, union
from serveplane.objects.schema import Shape

APPLY, UPDATE = "Apply", "Update"


def planned_fields(desired: Json, shape: Shape) -> Fields:
    """What a manager will own after it applied this object."""
    body = {name: value for name, value in desired.items() if name not in ("apiVersion", "kind")}
    metadata = body.get("metadata") or {}
    body["metadata"] = {name: value for name, value in metadata.items() if name not in UNTRACKED}
    if not body["metadata"]:
        del body["metadata"]
    return fields_of(body, shape)


def entries(live: Json) -> list[Json]:
    return list((live.get("metadata") or {}).get("managedFields") or ())


def owned_fields(live: Json, manager: str) -> Fields | None:
    """What a manager owns by apply; None when it never applied anything."""
    for entry in entries(live):
        if entry.get("manager") == manager and entry.get("operation") == APPLY and not entry.get("subresource"):
            return entry.get("fieldsV1") or {}
    return None


def owners_of(live: Json, fields: Fields, but: str) -> Iterator[tuple[str, list[str]]]:
    """The other managers that own some of these fields, with the fields, readable."""
    for entry in entries(live):
        if entry.get("manager") == but or entry.get("subresource") == "status":
            continue
        both = intersection(fields, entry.get("fieldsV1") or {})
        names = [readable(path) for path in paths(both)]
        if names:
            yield str(entry.get("manager")), names


def is_written_by(live: Json, managers: frozenset[str]) -> bool:
    """Whether one of these managers wrote the object itself (not merely its status or scale)."""
    return any(entry.get("manager") in managers and not entry.get("subresource") for entry in entries(live))


def taken_over(live: Json, manager: str, legacy: frozenset[str], planned: Fields) -> list[Json] | None:
    """The managedFields in which what legacy managers own by Update is ours by Apply; None when there is nothing to take.

    Status and scale entries stay as they are: those subresources are written by Update on purpose. `planned` is what we
    will own once we have applied.
    """
    every = entries(live)
    theirs = [
        e for e in every if e.get("manager") in legacy and e.get("operation") == UPDATE and not e.get("subresource")
    ]
    if not theirs:
        return None
    ours = [
        e for e in every if e.get("manager") == manager and e.get("operation") == APPLY and not e.get("subresource")
    ]
    fields: Fields = {}
    for entry in (*ours, *theirs):
        fields = union(fields, entry.get("fieldsV1") or {})
    rest = [e for e in every if e not in theirs and e not in ours]
    return [{**theirs[-1], "manager": manager, "operation": APPLY, "fieldsV1": _without_fillings(without_status(fields), planned)}, *rest]


def _without_fillings(fields: Fields, planned: Fields) -> Fields:
    """Without what lies in maps that we will leave empty: that came from the server's defaults.

    Were it ours, applying would take it away, and the server then makes the emptied map a null, which a custom
    resource's schema refuses. Pod templates have no such defaults; there, what is no longer wanted is to go.
    """
    kept: Fields = {}
    for name, node in fields.items():
        wanted = planned.get(name)
        kept[name] = node if wanted is None or name == "f:template" else {} if not wanted else _without_fillings(node, wanted)
    return kept


def without_status(fields: Fields) -> Fields:
    """A kind without a status subresource has its status written with the rest; nobody applies that."""
    return {name: node for name, node in fields.items() if name != "f:status"}


def same_fields(one: Fields | None, other: Fields) -> bool:
    if one is None:
        return False
    return one == other or (not difference(one, other) and not difference(other, one))


def owns(fields: Fields | None, *path: str) -> bool:
    """Whether a set holds one plain field, e.g. `owns(fields, "spec", "replicas")`."""
    node: Any = fields
    for name in path:
        if not isinstance(node, dict) or f"f:{name}" not in node:
            return False
        node = node[f"f:{name}"]
    return node is not None
