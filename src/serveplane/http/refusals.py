"""Saying no: the answers a server gives on its own account."""
import re

from serveplane.http.errors import ProtocolViolation, StatusError
from serveplane.http.headers import TOKEN
from serveplane.http.limits import Limits
from serveplane.http.messages import Response

_BARE = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")
_START = re.compile(TOKEN + rb"+|\r?$")


def refusal(error: StatusError) -> Response:
    response = Response.text(f"{error.message}\n" if error.message else "", error.status)
    if isinstance(error, ProtocolViolation) or error.status in (408, 413):
        response.headers.add("Connection", "close")
    return response


def first_look(data: bytes, limits: Limits) -> None:
    """What can be said of a head that is not complete: too long already, or no HTTP at all. Spares waiting for the rest."""
    line_end = data.find(b"\r\n")
    if line_end < 0 and len(data) > limits.target_bytes + 64:
        raise ProtocolViolation("the request target is too long", 414)
    if len(data) > limits.head_bytes:
        raise ProtocolViolation("the request head is too long", 431)
    if _BARE.search(data):
        raise ProtocolViolation("a bare CR or LF")
    if not _START.match(data):
        raise ProtocolViolation("this is not HTTP")
