"""Nobody can grant what they do not have, unless they may `escalate` (roles) or `bind` (bindings)."""

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.auth import rbac
from serveplane.embedded.apiserver.auth.rbac import Attributes, Grant
from serveplane.embedded.apiserver.request import User
from serveplane.embedded.store import Key
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.writing import Write


def check(core: "Core", write: "Write") -> None:
    bucket, user = write.resource.bucket, write.request.user
    if rbac.MASTERS in user.groups:
        return
    if bucket in (rbac.ROLES, rbac.CLUSTER_ROLES) and write.value.get("rules") != write.live.get("rules"):
        _check_rules(
            core,
            write,
            write.value.get("rules") or [],
            "escalate",
            write.resource.plural,
            write.value["metadata"].get("name", ""),
        )
    elif bucket in (rbac.BINDINGS, rbac.CLUSTER_BINDINGS) and _grant_changed(write):
        reference = write.value["roleRef"]
        grant = Grant(write.value["metadata"].get("namespace", ""), reference["kind"], reference["name"])
        plural = "roles" if reference["kind"] == "Role" else "clusterroles"
        _check_rules(core, write, _role_rules(core, write, grant, plural), "bind", plural, reference["name"])


def _role_rules(core: "Core", write: "Write", grant: Grant, plural: str) -> list[Json]:
    """What is to be granted; a role that is not there can be bound only by who may bind any."""
    bucket, namespace = (rbac.ROLES, grant.namespace) if plural == "roles" else (rbac.CLUSTER_ROLES, "")
    user, where = write.request.user, write.value["metadata"].get("namespace", "")
    may_bind = core.authorizer.allows(Attributes(user, "bind", rbac.GROUP, plural, "", where, grant.role))
    if not may_bind and core.store.get(bucket, Key(namespace, grant.role)) is None:
        raise errors.not_found(write.resource.plural, rbac.GROUP, grant.role)
    return core.authorizer.role_rules(grant)


def _grant_changed(write: "Write") -> bool:
    return not write.live or any(write.value.get(field) != write.live.get(field) for field in ("roleRef", "subjects"))


def _check_rules(core: "Core", write: "Write", rules: list[Json], verb: str, plural: str, name: str) -> None:
    user, namespace = write.request.user, write.value["metadata"].get("namespace", "")
    if core.authorizer.allows(Attributes(user, verb, rbac.GROUP, plural, "", namespace, name)):
        return
    held = list(core.authorizer.rules_for(user, namespace))
    missing = [single for rule in rules for single in _singles(rule) if not _covered(single, held, user)]
    if missing:
        groups = " ".join(f'"{group}"' for group in user.groups)
        told = "\n".join(sorted(map(_told, _joined(missing))))
        why = f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n{told}'
        raise errors.forbidden(
            write.resource.plural, write.resource.group, write.value["metadata"].get("name", ""), why
        )


def _covered(rule: Json, held: list[Json], user: User) -> bool:
    """Each single permission of the rule must be held."""
    if rule.get("nonResourceURLs"):
        pairs = product(rule["verbs"], rule["nonResourceURLs"])
        return all(any(rbac.matches(own, Attributes(user, verb, path=path)) for own in held) for verb, path in pairs)
    names = rule.get("resourceNames") or [""]
    asked = product(rule.get("verbs") or (), rule.get("apiGroups") or (), rule.get("resources") or (), names)
    return all(
        any(_holds(own, verb, group, resource, name, user) for own in held) for verb, group, resource, name in asked
    )


def _singles(rule: Json) -> Iterator[Json]:
    """A rule as single permissions."""
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield {"verbs": [verb], "nonResourceURLs": [path]}
        for group, resource in product(rule.get("apiGroups") or (), rule.get("resources") or ()):
            for name in rule.get("resourceNames") or [""]:
                yield {"apiGroups": [group], "resources": [resource], "verbs": [verb], **({"resourceNames": [name]} if name else {})}


def _joined(rules: list[Json]) -> list[Json]:
    """Single permissions with their verbs put together again, as the real server tells them."""
    found: dict[str, Json] = {}
    for rule in rules:
        key = str({name: item for name, item in rule.items() if name != "verbs"})
        found.setdefault(key, {**rule, "verbs": []})["verbs"] += rule["verbs"]
    return list(found.values())


def _holds(own: Json, verb: str, group: str, resource: str, name: str, user: User) -> bool:
    if not name and own.get("resourceNames"):
        return False
    plain, _, subresource = resource.partition("/")
    return rbac.matches(own, Attributes(user, verb, group, plain, subresource, "", name))


def _told(rule: Json) -> str:
    parts = (
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("ResourceNames", "resourceNames"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("Verbs", "verbs"),
    )
    listed = [
        f"{name}:[{' '.join(chr(34) + item + chr(34) for item in rule[field])}]"
        for name, field in parts
        if rule.get(field)
    ]
    return "{" + ", ".join(listed) + "}"
