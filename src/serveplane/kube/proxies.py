"""Which proxy the environment names for an address, as every Go program reads HTTPS_PROXY, HTTP_PROXY and NO_PROXY.

Python's own reading knows no networks (`10.0.0.0/8`), which is what a cluster's addresses are usually excepted by.
"""

import ipaddress
from collections.abc import Mapping

from serveplane.http.connect import ProxyServer
from serveplane.http.origin import Origin


def proxy_for(origin: Origin, environment: Mapping[str, str]) -> ProxyServer | None:
    """The proxy to go through, if any. A loopback address is never looked for elsewhere; a proxy of no use is a ValueError.

    >>> proxy_for(Origin("https", "10.0.0.1", 443), {"HTTPS_PROXY": "proxy.acme:3128"})
    ProxyServer(host='proxy.acme', port=3128, tls=False, authorization='')
    >>> proxy_for(Origin("https", "10.0.0.1", 443), {"HTTPS_PROXY": "proxy.acme:3128", "NO_PROXY": "10.0.0.0/8"})
    """
    address = _either(environment, f"{origin.scheme}_proxy")
    if not address or _is_here(origin.host) or is_excepted(origin.host, origin.port, _either(environment, "no_proxy")):
        return None
    return ProxyServer.of(address if "://" in address else f"http://{address}")


def is_excepted(host: str, port: int, exceptions: str) -> bool:
    """Whether one of the exceptions, with commas between, speaks of this host.

    >>> is_excepted("api.acme", 443, "other, acme"), is_excepted("acme", 443, ".acme"), is_excepted("api.acme", 443, "api.acme:6443")
    (True, False, False)
    """
    return any(_speaks_of(one.strip().lower(), host, port) for one in exceptions.split(",") if one.strip())


def _speaks_of(exception: str, host: str, port: int) -> bool:
    address = _address(host)
    if exception == "*":
        return True
    if "/" in exception:
        return address is not None and address in _network(exception)
    name, at = _split(exception)
    if at not in ("", str(port)):
        return False
    if address is not None:
        return _address(name) == address
    name = name.removeprefix("*")
    return host.endswith(name if name.startswith(".") else f".{name}") or host == name


def _split(exception: str) -> tuple[str, str]:
    """A host and its port, if it has one. An IPv6 address with a port is in brackets."""
    if exception.startswith("["):
        name, _, at = exception[1:].partition("]")
        return name, at.removeprefix(":")
    if exception.count(":") > 1:
        return exception, ""
    name, _, at = exception.partition(":")
    return name, at


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _network(exception: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | tuple[()]:
    try:
        return ipaddress.ip_network(exception, strict=False)
    except ValueError:
        return ()


def _is_here(host: str) -> bool:
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _either(environment: Mapping[str, str], name: str) -> str:
    """Upper case before lower case, as Go does."""
    return environment.get(name.upper()) or environment.get(name) or ""
