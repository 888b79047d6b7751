"""Reading heads: one request or response head as bytes, judged strictly.

Two judges must agree. A regular expression holds the grammar of RFC 9112 to the letter (CRLF only, no folding, no blank before
the colon, no control characters, version 1.0 or 1.1), and httptools parses what passed. On top come the rules neither
knows: Host, target form, and a framing that can be read in one way only.

Peers repeat their heads word for word (the same client calling the same model, the same model answering), so what was read
from the last few is remembered. The verdict on a head depends on nothing but its bytes; limits are compared afterwards, every time.
"""
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

import httptools

from serveplane.http.errors import BadResponse, ProtocolViolation
from serveplane.http.headers import TOKEN, Headers, RawHeader
from serveplane.http.limits import ClientLimits, Limits
from serveplane.http.messages import Peer, Request

CHUNKED, UNTIL_CLOSE = -1, -2   # lengths that are not lengths
HOST_BYTES = 300   # a name of the DNS has 253 at most
REMEMBERED, REMEMBERED_BYTES = 32, 1024   # heads (a power of two), and how long one may be: together well below a megabyte

T = TypeVar("T")

_FIELDS = rb"(?:" + TOKEN + rb"++:[\t\x20-\x7e\x80-\xff]*+\r\n)*+\r\n"
_REQUEST = re.compile(rb"(" + TOKEN + rb"++ [!-~]++ HTTP/1\.[01])\r\n" + _FIELDS)
_RESPONSE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*+)?+\r\n" + _FIELDS)
_OTHER_VERSION = re.compile(rb"[^\r\n]* HTTP/[0-9]\.[0-9]\r\n")
_ONE_DOT = re.compile(rb"[^\r\n]* HTTP/1\.[01]\r\n")
_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]+)(?::[0-9]{1,5})?")
_ABSOLUTE = re.compile(r"(?i:https?)://([^/?#@]+)(/[^#]*|\?[^#]*|)")


class _Fields:
    """httptools' callbacks for one head. The Nones spare it a failed attribute lookup each."""

    __slots__ = ("index", "raw")
    on_body = on_message_begin = on_message_complete = on_chunk_header = on_chunk_complete = on_headers_complete = on_url = on_status = None

    def __init__(self) -> None:
        self.raw: list[RawHeader] = []
        self.index: dict[bytes, bytes] = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        self.raw.append((name, value))
        self.index[name.lower()] = value


_Read = tuple[str, str, str, str, bool, int, bool, list[RawHeader], dict[bytes, bytes], bytes]
"""What a request head says: method, target, path, query, whether 1.0, length, whether to keep; fields, their first values, their bytes."""


def request_head(head: bytes, limits: Limits, peer: Peer) -> Request:
    """The request whose head this is (blank line included), its body still to come; ProtocolViolation otherwise."""
    request = Request.__new__(Request)
    (request.method, request.target, request.path, request.query, request.http10, request.length, request.keep_alive,
     raw, index, block) = _recent_request(head)
    if len(request.target) > limits.target_bytes:
        raise ProtocolViolation("the request target is too long", 414)
    if len(raw) > limits.header_count:
        raise ProtocolViolation("too many header fields", 431)
    request.headers = Headers.parsed(raw, index, block)
    request.peer = peer
    request.params = {}
    request._body = b""
    request._body_limit = limits.body_bytes
    return request


def _read_request(head: bytes) -> _Read:
    match = _REQUEST.fullmatch(head)
    if match is None:
        raise _refusal(head)
    raw, index = _parse(httptools.HttpRequestParser, head)
    line = match[1]
    method, target, path, query, http10 = _recent_line(line)
    length, host = _request_length(index, http10), index.get(b"host")
    if host is None:
        if not http10:
            raise ProtocolViolation("no Host")
    elif len(host) > HOST_BYTES or not _is_host(host):
        raise ProtocolViolation("malformed Host")
    if not path:
        path, query = _other_form(method, target, host, length)
    keep_alive = not http10 if b"connection" not in index else _wants_to_keep(raw, http10)
    return method, target, path, query, http10, length, keep_alive, raw, index, head[len(line) + 2:-2]


def _read_line(line: bytes) -> tuple[str, str, str, str, bool]:
    """Method, target, path, query (the latter two empty if the target is not in the usual form), and whether it says 1.0."""
    if b"#" in line:
        raise ProtocolViolation("a fragment in the request target")
    method, target, version = line.decode("ascii").split(" ")
    path, _, query = target.partition("?") if target[0] == "/" and method != "CONNECT" else ("", "", "")
    return method, target, path, query, version == "HTTP/1.0"


class _Recent(Generic[T]):
    """Remembers what was last read, a few of each: a table where a newcomer takes the place of whoever was there.

    Unlike with `lru_cache`, what is never asked for again costs next to nothing.
    """

    def __init__(self, read: Callable[[bytes], T]) -> None:
        self._read = read
        self._places: list[tuple[bytes, T] | None] = [None] * REMEMBERED

    def __call__(self, data: bytes) -> T:
        place = hash(data) & (REMEMBERED - 1)
        known = self._places[place]
        if known is not None and known[0] == data:
            return known[1]
        made = self._read(data)
        if len(data) <= REMEMBERED_BYTES:
            self._places[place] = (data, made)
        return made


_recent_line = _Recent(_read_line)
_recent_request = _Recent(_read_request)


def _refusal(head: bytes) -> ProtocolViolation:
    """Why a head does not match, as near as the status codes can say."""
    if _OTHER_VERSION.match(head) and not _ONE_DOT.match(head):
        return ProtocolViolation("only versions 1.0 and 1.1 are spoken here", 505)
    return ProtocolViolation("malformed request head")


def _parse(parser: type, head: bytes) -> tuple[list[RawHeader], dict[bytes, bytes]]:
    """The fields in order, and the first value of each by its lower-case name."""
    fields = _Fields()
    try:
        parser(fields).feed_data(head)
    except httptools.HttpParserUpgrade:
        pass   # it stops where an upgrade would begin; whether one does is the handler's choice
    except httptools.HttpParserInvalidMethodError:
        raise ProtocolViolation("unknown method", 501) from None
    except httptools.HttpParserError as error:
        raise ProtocolViolation(f"malformed head: {error}") from None
    return fields.raw, _checked(fields.index, fields.raw)


def _checked(index: dict[bytes, bytes], raw: list[RawHeader]) -> dict[bytes, bytes]:
    """Lower-case name to first value; fields whose repetition would be ambiguous may come once."""
    if len(index) < len(raw):
        index = _first_values(raw)
    if b"content_length" in index or b"transfer_encoding" in index:
        raise ProtocolViolation("a framing field spelled with an underscore")
    return index


def _first_values(raw: list[RawHeader]) -> dict[bytes, bytes]:
    index: dict[bytes, bytes] = {}
    for name, value in raw:
        key = name.lower()
        if key not in index:
            index[key] = value
        elif key in _ONCE:
            raise ProtocolViolation(f"repeated {name.decode('ascii')}")
    return index


_ONCE = frozenset((b"host", b"content-length", b"transfer-encoding"))


def _request_length(index: dict[bytes, bytes], http10: bool) -> int:
    coding, length = index.get(b"transfer-encoding"), index.get(b"content-length")
    if coding is not None:
        if length is not None:
            raise ProtocolViolation("both Content-Length and Transfer-Encoding")
        if http10:
            raise ProtocolViolation("Transfer-Encoding in HTTP/1.0")
        if coding.strip(b" \t").lower() != b"chunked":
            raise ProtocolViolation("a transfer coding other than chunked", 501)
        return CHUNKED
    if length is None:
        return 0
    return _content_length(length)


def _content_length(value: bytes) -> int:
    value = value.strip(b" \t")
    if not value.isdigit() or len(value) > 15:
        raise ProtocolViolation("malformed Content-Length")
    return int(value)


def _wants_to_keep(raw: list[RawHeader], http10: bool) -> bool:
    tokens = Headers.parsed(raw).tokens("connection")
    return "close" not in tokens and (not http10 or "keep-alive" in tokens)


@lru_cache(maxsize=1024)
def _is_host(host: bytes) -> bool:
    return _HOST.fullmatch(host.strip(b" \t")) is not None


def _other_form(method: str, target: str, host: bytes | None, length: int) -> tuple[str, str]:
    """Path and query of a target that is not in origin form (RFC 9112, 3.2); an absolute one may be no second opinion on the Host."""
    if method == "CONNECT":
        if length:
            raise ProtocolViolation("CONNECT has no body")
        if not _HOST.fullmatch(target.encode("ascii")) or ":" not in target:
            raise ProtocolViolation("CONNECT needs host:port")
        return "", ""
    if target == "*" and method == "OPTIONS":
        return "*", ""
    match = _ABSOLUTE.fullmatch(target)
    if match is None:
        raise ProtocolViolation("malformed request target")
    if host is not None and match[1].lower() != host.strip(b" \t").decode("latin-1").lower():
        raise ProtocolViolation("the target and Host name different authorities")
    path, _, query = match[2].partition("?")
    return path or "/", query


class ResponseHead(NamedTuple):
    status: int
    headers: Headers
    length: int
    """Of the body; CHUNKED or UNTIL_CLOSE if it is not known yet."""
    keep_alive: bool


def response_head(head: bytes, limits: ClientLimits, *, to_head: bool) -> ResponseHead:
    """The head of an answer; `to_head` says that the request was a HEAD and no body follows."""
    status, length, keep_alive, raw, index, block = _recent_response(head)
    if len(raw) > limits.header_count:
        raise BadResponse("too many header fields")
    if to_head or status < 200 or status in (204, 304):
        length = 0
    return ResponseHead(status, Headers.parsed(raw, index, block), length, length != UNTIL_CLOSE and keep_alive)


def _read_response(head: bytes) -> tuple[int, int, bool, list[RawHeader], dict[bytes, bytes], bytes]:
    match = _RESPONSE.fullmatch(head)
    if match is None:
        raise BadResponse("malformed response head")
    http10 = match[1] == b"0"
    try:
        raw, index = _parse(httptools.HttpResponseParser, head)
        length = _response_length(index, http10)
    except ProtocolViolation as error:
        raise BadResponse(str(error)) from None
    keep_alive = not http10 if b"connection" not in index else _wants_to_keep(raw, http10)
    return int(match[2]), length, keep_alive, raw, index, head[head.find(b"\n") + 1:-2]


_recent_response = _Recent(_read_response)


def _response_length(index: dict[bytes, bytes], http10: bool) -> int:
    if b"transfer-encoding" not in index and b"content-length" not in index:
        return UNTIL_CLOSE
    return _request_length(index, http10)
