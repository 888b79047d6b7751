"""The API server's audit log: who asked for what. It is the only witness that cannot be fooled by the client under test."""
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class Request:
    user: str
    agent: str          # the program's name alone, without version and platform
    verb: str
    resource: str       # "deployments", "pods/status"; "" for paths such as /readyz
    namespace: str
    name: str
    status: int
    uri: str
    received: str       # RFC 3339 with microseconds, so it also sorts as text
    finished: bool      # False for the entry made when a watch begins
    message: str = ""   # why it was refused

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES and "dryRun=" not in self.uri

    @property
    def is_lease(self) -> bool:
        return self.resource == "leases"


class AuditLog:
    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self) -> int:
        """The present end of the log; hand it to the other methods as `since`."""
        return self.path.stat().st_size if self.path.exists() else 0

    def requests(self, since: int = 0, *, user: str = "", agent: str = "", namespace: str = "",
                 verbs: Collection[str] = ()) -> Iterator[Request]:
        """Every request answered since `since`, in the log's order. `user` and `agent` match the whole name."""
        for request in map(_request, self._lines(since)):
            if (not user or request.user == user) and (not agent or request.agent == agent) \
                    and (not namespace or request.namespace == namespace) and (not verbs or request.verb in verbs):
                yield request

    def counts(self, since: int = 0, **only: Any) -> Counter[tuple[str, str, str]]:
        """How often each (agent, verb, resource) was asked for; a watch counts once, when it began."""
        return Counter((r.agent, r.verb, r.resource) for r in self.requests(since, **only) if r.verb != "watch" or not r.finished)

    def _lines(self, since: int) -> Iterator[bytes]:
        with self.path.open("rb") as log:
            log.seek(since)
            for line in log:
                if line.endswith(b"\n"):     # the server may be in the middle of writing the last one
                    yield line


def _request(line: bytes) -> Request:
    entry = msgspec.json.decode(line)
    target = entry.get("objectRef") or {}
    resource = "/".join(part for part in (target.get("resource"), target.get("subresource")) if part)
    return Request(
        user=entry.get("user", {}).get("username", ""), agent=entry.get("userAgent", "").split("/")[0].split(" ")[0],
        verb=entry["verb"], resource=resource, namespace=target.get("namespace", ""), name=target.get("name", ""),
        status=(entry.get("responseStatus") or {}).get("code", 0), uri=entry["requestURI"],
        received=entry["requestReceivedTimestamp"], finished=entry["stage"] != "ResponseStarted",
        message=(entry.get("responseStatus") or {}).get("message", ""))
