"""Where a client connects to: scheme, host and port (or a socket file), and with which TLS."""
import re
from functools import lru_cache
from typing import NamedTuple

from serveplane.http.tls import ClientTls

_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._~-]+)(?::([0-9]{1,5}))?([/?][!-~]*)?", re.IGNORECASE | re.ASCII)
_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """One pool of connections belongs to each origin."""

    scheme: str
    host: str
    port: int
    unix: str | None = None
    """A socket file to connect to instead of host and port (which still name the Host)."""
    tls: ClientTls | None = None
    """Overrides the client's own TLS settings."""

    @property
    def authority(self) -> str:
        """As the Host field has it: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @classmethod
    def of(cls, url: str) -> "Origin":
        return split_url(url)[0]


@lru_cache(maxsize=1024)
def split_url(url: str) -> tuple[Origin, str]:
    """Origin and request target of a URL; userinfo, fragments, blanks and other schemes are ValueErrors.

    >>> split_url("http://[::1]:8080/v2?x=1")
    (Origin(scheme='http', host='::1', port=8080, unix=None, tls=None), '/v2?x=1')
    """
    match = _URL.fullmatch(url.partition("#")[0])
    if match is None:
        raise ValueError(f"not an http(s) URL: {url!r}")
    scheme, target = match[1].lower(), match[4] or "/"
    port = int(match[3]) if match[3] else _PORTS[scheme]
    if not 0 < port < 65536:
        raise ValueError(f"no such port: {url!r}")
    return Origin(scheme, match[2].strip("[]").lower(), port), target if target[0] == "/" else "/" + target
