"""Asking a server in this process, as its administrator or somebody else."""

import asyncio
from typing import Any

import msgspec

from serveplane.embedded.apiserver import ADMIN, ApiServer, User

Json = dict[str, Any]
MAPS = "/api/v1/namespaces/default/configmaps"


class Caller:
    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        content: str = "application/json",
        user: User = ADMIN,
        query: str = "",
    ) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        status, _, answer = await self.server.handle(
            method, path, query, {"content-type": content, "user-agent": "unit/1"}, data, user
        )
        if not isinstance(answer, bytes):
            return status, answer
        return status, msgspec.json.decode(answer) if answer[:1] == b"{" else answer

    async def eventually(self, path: str, wanted: int) -> Json:
        for _ in range(2000):
            status, value = await self("GET", path)
            if status == wanted:
                return value
            await asyncio.sleep(0.005)
        raise AssertionError(f"{path} never answered {wanted}")
