"""Bearer tokens: got from a token service, shared by threads, renewed before they end."""
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from serveplane.clock import SYSTEM, Clock
from serveplane.dataplane.storage.connection import Connections, Headers, Trust
from serveplane.dataplane.storage.errors import Forbidden, StorageError

Fetch = Callable[[], tuple[str, float]]   # the token, and how many seconds it lives


class Token:
    """A bearer token, renewed before it ends. Threads share one."""

    def __init__(self, fetch: Fetch, clock: Clock = SYSTEM) -> None:
        self._fetch, self._clock = fetch, clock
        self._lock = threading.Lock()
        self._token, self._until = "", 0.0

    def __call__(self, method: str, url: str, headers: Headers) -> Headers:
        with self._lock:
            if self._clock.monotonic() > self._until:
                self._token, seconds = self._fetch()
                self._until = self._clock.monotonic() + max(0.0, seconds - 120)
        return {**headers, "Authorization": f"Bearer {self._token}"}

    def works(self) -> bool:
        try:
            self("GET", "", {})
        except StorageError:
            return False
        return True


def exchanged(address: str, form: Mapping[str, str], trust: Trust) -> tuple[str, float]:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return token_of(Connections(trust).request("POST", address, headers, urlencode(form).encode()).read(1 << 20))


def token_of(answer: bytes) -> tuple[str, float]:
    try:
        found = msgspec.json.decode(answer, type=dict[str, Any])
        return str(found["access_token"]), float(found.get("expires_in", 3600))
    except (msgspec.DecodeError, KeyError):
        raise Forbidden("the token service did not answer with a token") from None
