"""RBAC: who may do what, from roles and bindings.

Bindings are indexed by subject and decisions remembered until any role or binding changes, so an authorized request costs a lookup.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from serveplane.embedded.apiserver.request import User
from serveplane.embedded.store import Change, Key
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = f"roles.{GROUP}", f"clusterroles.{GROUP}"
BINDINGS, CLUSTER_BINDINGS = f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"
MASTERS = "system:masters"
MOST_DECISIONS = 65_536


class Attributes(NamedTuple):
    """One question. `path` is set for paths that are no resource."""

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Grant(NamedTuple):
    """A binding as seen from a subject: where it holds, and which role it gives."""

    namespace: str
    role_kind: str
    role: str


class Authorizer:
    def __init__(self, core: "Core") -> None:
        self._core = core
        self._grants: dict[tuple[str, str], list[Grant]] | None = None
        self._rules: dict[tuple[str, str, str], list[Json]] = {}
        self._decisions: dict[tuple[Any, ...], bool] = {}
        for bucket in (ROLES, CLUSTER_ROLES, BINDINGS, CLUSTER_BINDINGS):
            core.store.observe(bucket, self._changed)

    def _changed(self, change: Change) -> None:
        self._grants = None
        self._rules.clear()
        self._decisions.clear()

    def allows(self, asked: Attributes) -> bool:
        user = asked.user
        if MASTERS in user.groups:
            return True
        question = (user.name, user.groups, *asked[1:])
        known = self._decisions.get(question)
        if known is None:
            if len(self._decisions) >= MOST_DECISIONS:
                self._decisions.clear()
            known = self._decisions[question] = any(
                matches(rule, asked) for rule in self.rules_for(user, asked.namespace)
            )
        return known

    def rules_for(self, user: User, namespace: str) -> Iterator[Json]:
        """Every rule that holds for a user in a namespace (the empty one: cluster-wide only)."""
        for grant in self._grants_of(user):
            if not grant.namespace or grant.namespace == namespace:
                yield from self.role_rules(grant)

    def _grants_of(self, user: User) -> Iterator[Grant]:
        if self._grants is None:
            self._grants = _indexed(self._core)
        for subject in (("User", user.name), *(("Group", group) for group in user.groups)):
            yield from self._grants.get(subject, ())

    def role_rules(self, grant: Grant) -> list[Json]:
        namespace = grant.namespace if grant.role_kind == "Role" else ""
        place = (grant.role_kind, namespace, grant.role)
        rules = self._rules.get(place)
        if rules is None:
            bucket = ROLES if grant.role_kind == "Role" else CLUSTER_ROLES
            record = self._core.store.get(bucket, Key(namespace, grant.role))
            rules = self._rules[place] = (record.value().get("rules") or []) if record else []
        return rules


def _indexed(core: "Core") -> dict[tuple[str, str], list[Grant]]:
    found: dict[tuple[str, str], list[Grant]] = {}
    for bucket in (CLUSTER_BINDINGS, BINDINGS):
        for record in core.store.records(bucket):
            value = record.value()
            grant = Grant(record.key.namespace, value["roleRef"]["kind"], value["roleRef"]["name"])
            for subject in value.get("subjects") or ():
                found.setdefault(_subject(subject, record.key.namespace), []).append(grant)
    return found


def _subject(subject: Json, namespace: str) -> tuple[str, str]:
    if subject["kind"] == "ServiceAccount":
        return "User", f"system:serviceaccount:{subject.get('namespace') or namespace}:{subject['name']}"
    return subject["kind"], subject["name"]


def matches(rule: Json, asked: Attributes) -> bool:
    if not _has(rule.get("verbs"), asked.verb):
        return False
    if asked.path:
        return any(_path_matches(pattern, asked.path) for pattern in rule.get("nonResourceURLs") or ())
    if not _has(rule.get("apiGroups"), asked.group) or not _resource_matches(rule.get("resources") or (), asked):
        return False
    names = rule.get("resourceNames")
    return not names or asked.name in names


def _has(known: Iterable[str] | None, wanted: str) -> bool:
    return known is not None and (wanted in known or "*" in known)


def _resource_matches(known: Iterable[str], asked: Attributes) -> bool:
    if "*" in known:
        return True
    full = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    return full in known or (bool(asked.subresource) and f"*/{asked.subresource}" in known)


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern[:-1]))
