"""Which URLs of users we are willing to call."""

from ipaddress import ip_address
from urllib.parse import urlsplit


def url_problem(url: str) -> str:
    """Why a URL is not one to send requests to; empty if it is.

    >>> url_problem("http://logger.default/")
    ''
    >>> url_problem("file:///etc/passwd")
    "must be an http or https URL, not 'file:///etc/passwd'"
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        return f"is not a URL: {url!r}"
    if parts.scheme not in ("http", "https") or not host:
        return f"must be an http or https URL, not {url!r}"
    if parts.username or parts.password:
        return "must not carry a user name or password"
    if _is_link_local(host):
        return f"must not point to a link-local address ({host})"
    return ""


def _is_link_local(host: str) -> bool:
    """Where clouds answer with a machine's credentials."""
    try:
        return ip_address(host).is_link_local
    except ValueError:
        return False
