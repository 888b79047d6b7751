"""Aggregated ClusterRoles: their rules are those of all roles that carry the right labels."""

from typing import TYPE_CHECKING

from serveplane.embedded.apiserver.auth.rbac import CLUSTER_ROLES
from serveplane.embedded.apiserver.loops import Loop
from serveplane.embedded.store import Change, Conflict
from serveplane.objects import Json, selectors

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core


class Aggregation(Loop):
    def __init__(self, core: "Core") -> None:
        super().__init__(core)
        core.store.observe(CLUSTER_ROLES, self._changed)

    def _changed(self, change: Change) -> None:
        self.wake()

    async def drain(self) -> None:
        resource = self._core.stored_resource(CLUSTER_ROLES)
        assert resource is not None
        for record in list(self._core.store.records(CLUSTER_ROLES)):
            if b'"aggregationRule"' not in record.data:
                continue
            rules = self._rules(record.key.name, record.value()["aggregationRule"])
            try:
                await self._core.adjust(resource, record, lambda live, rules=rules: live.update(rules=rules))  # type: ignore[misc]
            except Conflict:
                self.wake()

    def _rules(self, name: str, aggregation: Json) -> list[Json]:
        found: list[Json] = []
        for one in aggregation.get("clusterRoleSelectors") or ():
            wanted = selectors.from_selector(one)
            for record in self._core.store.records(CLUSTER_ROLES):
                if record.key.name != name and wanted.matches(record.labels):
                    found += [rule for rule in record.value().get("rules") or () if rule not in found]
        return found
