"""Validation of Kubernetes' own kinds: one walk over the types, asking the rules of each struct on the way."""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from serveplane.embedded.apiserver.crd import checks
from serveplane.embedded.apiserver.deleting import DEFINITIONS
from serveplane.embedded.apiserver.errors import Cause
from serveplane.embedded.apiserver.kinds import codec, event_rules, immutable, limit_rules, pod_rules, storage_rules
from serveplane.embedded.apiserver.kinds.rules import RULES
from serveplane.embedded.apiserver.resources import EVENT_BUCKET
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.writing import Write

UNRULED_SUBRESOURCES = frozenset({"status", "scale", "finalize", "resize", "ephemeralcontainers"})

ONE_OF = {"core.v1.PersistentVolumeSpec": storage_rules.SOURCES, "core.v1.Volume": pod_rules.SOURCES}
STATEFUL_SETS = "statefulsets.apps"
ONLY_NEW = frozenset({"priorityclasses.scheduling.k8s.io"})
"""Kinds of which an update is asked only what it changed."""
_RBAC = ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
_ROLES = frozenset(f"{plural}.rbac.authorization.k8s.io" for plural in _RBAC)
TWICE = _ROLES | {"jobs.batch", "persistentvolumes", "persistentvolumeclaims", "networkpolicies.networking.k8s.io"}
"""Kinds that the real server looks at twice in an update, and says so twice."""


def problems(core: "Core", write: "Write") -> Iterator[Cause]:
    resource = write.resource
    if resource.bucket == DEFINITIONS:
        yield from checks.problems(write.value, write.live)
        return
    if write.subresource in UNRULED_SUBRESOURCES:
        yield from _status_problems(write)
        return
    struct = codec.struct_for(resource.group, resource.version, resource.kind)
    if struct is not None and not (write.live and resource.bucket in ONLY_NEW):
        value = _with_claims(write.value) if resource.bucket == STATEFUL_SETS else write.value
        found = [_as_given(cause, write) for cause in _walk(struct.name, value, "")]
        yield from found * (2 if write.live and resource.bucket in TWICE else 1)
    if resource.bucket == EVENT_BUCKET and resource.group:
        yield from event_rules.changed_modern_event(write.value, write.live) if write.live else event_rules.new_modern_event(write.value)
    elif write.live:
        yield from (_as_given(cause, write) for cause in immutable.problems(resource.bucket, write.value, write.live))


def _as_given(cause: Cause, write: "Write") -> Cause:
    """What was given empty is kept as nothing, but told as it was given."""
    empty = write.request.emptied.get(cause.field)
    return cause._replace(message=cause.message.replace(" value: null:", f" value: {empty}:")) if empty else cause


def _status_problems(write: "Write") -> Iterator[Cause]:
    """Few kinds are strict about what is said in a status."""
    if write.subresource != "status":
        return
    yield from storage_rules.status_problems(write.resource.bucket, write.value)
    if write.resource.bucket == "resourcequotas":
        yield from limit_rules.quota_status(write.value.get("status") or {})


def _with_claims(value: Json) -> Json:
    """A StatefulSet whose template has the volumes that its pods will get from the claim templates, so that they may be mounted."""
    spec: Json = value.get("spec") or {}
    template: Json = spec.get("template") or {}
    pod: Json = template.get("spec") or {}
    known = {one.get("name") for one in pod.get("volumes") or ()}
    names = [(claim.get("metadata") or {}).get("name") for claim in spec.get("volumeClaimTemplates") or ()]
    more = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names if name and name not in known]
    if not more:
        return value
    return {**value, "spec": {**spec, "template": {**template, "spec": {**pod, "volumes": [*(pod.get("volumes") or ()), *more]}}}}


def _walk(name: str, value: Json, path: str) -> Iterator[Cause]:
    for rule in RULES.get(name, ()):
        yield from rule(value, path)
    skipped = _other_sources(name, value)
    for field, how, inner in _ruled(name):
        found: Any = value.get(field)
        if found is None or field == "status" or field in skipped:
            continue
        at = f"{path}.{field}" if path else field
        if how == "[":
            for index, member in enumerate(found):
                yield from _walk(inner, member, f"{at}[{index}]")
        elif not how:
            yield from _walk(inner, found, at)


def _other_sources(name: str, value: Json) -> list[str]:
    """Of several places for the data of one volume, only the first is looked into."""
    known = ONE_OF.get(name)
    return [field for field in known if value.get(field) is not None][1:] if known else []


@cache
def _ruled(name: str) -> tuple[tuple[str, str, str], ...]:
    """The fields that lead to a struct with rules: name, '' or '[', struct."""
    found = []
    for field, described in _all_fields(name):
        _flags, _, kind = described.partition(":")
        how, inner = kind.rstrip("@").partition("@")[0], kind.partition("@")[2]
        if "@" in kind and how in ("", "[") and field != "metadata" and _has_rules(inner, frozenset({name})):
            found.append((field, how, inner))
    return tuple(found)


def _all_fields(name: str) -> Iterator[tuple[str, str]]:
    for field, described in codec.table().get(name, {}).items():
        flags, _, kind = described.partition(":")
        if "i" in flags and kind.startswith("@"):
            yield from _all_fields(kind[1:])
        else:
            yield field, described


@cache
def _has_rules(name: str, seen: frozenset[str]) -> bool:
    if name in RULES:
        return True
    inner = [described.partition("@")[2] for _, described in _all_fields(name) if "@" in described]
    return any(one not in seen and _has_rules(one, seen | {name}) for one in inner)
