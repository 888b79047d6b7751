"""Nobody can grant what they do not have, unless they may `escalate` (roles) or `bind` (bindings)."""

from itertools import product
from typing import TYPE_CHECKING

from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.auth import rbac
from serveplane.embedded.apiserver.auth.rbac import Attributes, Grant
from serveplane.embedded.apiserver.request import User
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
        _check_rules(core, write, core.authorizer.role_rules(grant), "bind", plural, reference["name"])


def _grant_changed(write: "Write") -> bool:
    return not write.live or any(write.value.get(field) != write.live.get(field) for field in ("roleRef", "subjects"))


def _check_rules(core: "Core", write: "Write", rules: list[Json], verb: str, plural: str, name: str) -> None:
    user, namespace = write.request.user, write.value["metadata"].get("namespace", "")
    if core.authorizer.allows(Attributes(user, verb, rbac.GROUP, plural, "", namespace, name)):
        return
    held = list(core.authorizer.rules_for(user, namespace))
    missing = [rule for rule in rules if not _covered(rule, held, user)]
    if missing:
        groups = " ".join(f'"{group}"' for group in user.groups)
        told = "\n".join(_told(rule) for rule in missing)
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
        f"{name}:[{', '.join(chr(34) + item + chr(34) for item in rule[field])}]"
        for name, field in parts
        if rule.get(field)
    ]
    return "{" + ", ".join(listed) + "}"
