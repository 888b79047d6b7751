"""Admission in the real server's order: built-in mutations, mutating webhooks, then validation by both."""

from typing import TYPE_CHECKING

from serveplane.embedded.apiserver.admission import lifecycle, limits, pods, storage
from serveplane.embedded.apiserver.admission.hooks import Hooks
from serveplane.embedded.apiserver.auth import escalation

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.writing import Write


class Admission:
    def __init__(self, core: "Core") -> None:
        self._core = core
        self._hooks = Hooks(core)

    async def mutate(self, write: "Write") -> None:
        lifecycle.check(self._core, write)
        limits.mutate(self._core, write)
        pods.mutate(self._core, write)
        storage.mutate(self._core, write)
        await self._hooks.mutate(write, write.operation)

    async def validate(self, write: "Write") -> None:
        limits.check(self._core, write)
        storage.check(self._core, write)
        escalation.check(self._core, write)
        await self._hooks.validate(write, write.operation)

    async def delete(self, write: "Write") -> None:
        lifecycle.check_delete(write)
        await self._hooks.mutate(write, "DELETE")
        await self._hooks.validate(write, "DELETE")
