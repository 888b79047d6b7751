"""Reading heads: one request or response head as bytes, judged strictly.

Two judges must agree. A regular expression holds the grammar of RFC 9112 to the letter (CRLF only, no folding, no blank before
the colon, no control characters, version 1.0 or 1.1), and httptools parses what passed. On top come the rules neither
knows: Host, target form, and a framing that can be read in one way only.
"""
import re
from functools import lru_cache
from typing import NamedTuple

import httptools

from serveplane.http.errors import BadResponse, ProtocolViolation
from serveplane.http.headers import TOKEN, Headers, RawHeader
from serveplane.http.limits import ClientLimits, Limits
from serveplane.http.messages import Peer, Request

CHUNKED, UNTIL_CLOSE = -1, -2   # lengths that are not lengths

_FIELDS = rb"(?:" + TOKEN + rb"++:[\t\x20-\x7e\x80-\xff]*+\r\n)*+\r\n"
_REQUEST = re.compile(rb"(" + TOKEN + rb"++) ([!-~]++) HTTP/1\.([01])\r\n" + _FIELDS)
_RESPONSE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*+)?+\r\n" + _FIELDS)
_OTHER_VERSION = re.compile(rb"[^\r\n]* HTTP/[0-9]\.[0-9]\r\n")
_ONE_DOT = re.compile(rb"[^\r\n]* HTTP/1\.[01]\r\n")
_LENGTH = re.compile(rb"[0-9]{1,15}")
_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]+)(?::[0-9]{1,5})?")
_ABSOLUTE = re.compile(rb"(?i:https?)://([^/?#@]+)(/[^#]*|\?[^#]*|)")


class _Fields:
    """httptools' callbacks for one head. The Nones spare it a failed attribute lookup each."""

    __slots__ = ("raw",)
    on_body = on_message_begin = on_message_complete = on_chunk_header = on_chunk_complete = on_headers_complete = on_url = on_status = None

    def __init__(self) -> None:
        self.raw: list[RawHeader] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.raw.append((name, value))


def request_head(head: bytes, limits: Limits, peer: Peer) -> Request:
    """The request whose head this is (blank line included), its body still to come; ProtocolViolation otherwise."""
    match = _REQUEST.fullmatch(head)
    if match is None:
        raise _refusal(head, limits)
    method, target, minor = match.groups()
    if len(target) > limits.target_bytes:
        raise ProtocolViolation("the request target is too long", 414)
    headers = _parse(httptools.HttpRequestParser, head, limits.header_count)
    index = headers.index
    request = Request.__new__(Request)
    request.method = method.decode("ascii")
    request.headers = headers
    request.peer = peer
    request.params = {}
    request.http10 = minor == b"0"
    request.length = _request_length(headers, request.http10)
    request.keep_alive = _keep_alive(headers, request.http10)
    _address(request, target, index.get(b"host"))
    request._body = b""
    request._body_limit = limits.body_bytes
    return request


def _refusal(head: bytes, limits: Limits) -> ProtocolViolation:
    """Why a head does not match, as near as the status codes can say."""
    line_end = head.find(b"\r\n")
    if line_end > limits.target_bytes + 64:
        return ProtocolViolation("the request target is too long", 414)
    if _OTHER_VERSION.match(head) and not _ONE_DOT.match(head):
        return ProtocolViolation("only versions 1.0 and 1.1 are spoken here", 505)
    return ProtocolViolation("malformed request head")


def _parse(parser: type, head: bytes, count: int) -> Headers:
    fields = _Fields()
    try:
        parser(fields).feed_data(head)
    except httptools.HttpParserUpgrade:
        pass   # it stops where an upgrade would begin; whether one does is the handler's choice
    except httptools.HttpParserInvalidMethodError:
        raise ProtocolViolation("unknown method", 501) from None
    except httptools.HttpParserError as error:
        raise ProtocolViolation(f"malformed head: {error}") from None
    raw = fields.raw
    if len(raw) > count:
        raise ProtocolViolation("too many header fields", 431)
    return Headers.parsed(raw, _index(raw), head[head.find(b"\n") + 1:-2])


def _index(raw: list[RawHeader]) -> dict[bytes, bytes]:
    """Lower-case name to value; fields whose repetition would be ambiguous may come once."""
    index = {name.lower(): value for name, value in raw}
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


def _request_length(headers: Headers, http10: bool) -> int:
    index = headers.index
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
    if not _LENGTH.fullmatch(value):
        raise ProtocolViolation("malformed Content-Length")
    return int(value)


def _keep_alive(headers: Headers, http10: bool) -> bool:
    if b"connection" not in headers.index:
        return not http10
    tokens = headers.tokens("connection")
    return "close" not in tokens and (not http10 or "keep-alive" in tokens)


def _address(request: Request, target: bytes, host: bytes | None) -> None:
    """Target form and Host (RFC 9112, 3.2): one Host, well-formed, and no second opinion in an absolute target."""
    if host is None:
        if not request.http10:
            raise ProtocolViolation("no Host")
    else:
        host = host.strip(b" \t")
        if not _is_host(host):
            raise ProtocolViolation("malformed Host")
    request.target = target.decode("ascii")
    if b"#" in target:
        raise ProtocolViolation("a fragment in the request target")
    if target[0] == 0x2F and request.method != "CONNECT":   # "/": the usual origin form
        request.path, _, request.query = request.target.partition("?")
        return
    if request.method == "CONNECT":
        if request.length:
            raise ProtocolViolation("CONNECT has no body")
        if not _HOST.fullmatch(target) or b":" not in target:
            raise ProtocolViolation("CONNECT needs host:port")
        request.path, request.query = "", ""
    elif target == b"*" and request.method == "OPTIONS":
        request.path, request.query = "*", ""
    else:
        _absolute(request, target, host)


@lru_cache(maxsize=1024)
def _is_host(host: bytes) -> bool:
    return _HOST.fullmatch(host) is not None


def _absolute(request: Request, target: bytes, host: bytes | None) -> None:
    match = _ABSOLUTE.fullmatch(target)
    if match is None or request.method == "CONNECT":
        raise ProtocolViolation("malformed request target")
    if host is not None and match[1].lower() != host.lower():
        raise ProtocolViolation("the target and Host name different authorities")
    request.path, _, request.query = match[2].decode("ascii").partition("?")
    request.path = request.path or "/"


class ResponseHead(NamedTuple):
    status: int
    headers: Headers
    length: int
    """Of the body; CHUNKED or UNTIL_CLOSE if it is not known yet."""
    keep_alive: bool


def response_head(head: bytes, limits: ClientLimits, *, to_head: bool) -> ResponseHead:
    """The head of an answer; `to_head` says that the request was a HEAD and no body follows."""
    match = _RESPONSE.fullmatch(head)
    if match is None:
        raise BadResponse("malformed response head")
    status, http10 = int(match[2]), match[1] == b"0"
    try:
        headers = _parse(httptools.HttpResponseParser, head, limits.header_count)
        length = _response_length(headers, http10)
    except ProtocolViolation as error:
        raise BadResponse(str(error)) from None
    if to_head or status < 200 or status in (204, 304):
        length = 0
    return ResponseHead(status, headers, length, length != UNTIL_CLOSE and _keep_alive(headers, http10))


def _response_length(headers: Headers, http10: bool) -> int:
    index = headers.index
    if b"transfer-encoding" not in index and b"content-length" not in index:
        return UNTIL_CLOSE
    return _request_length(headers, http10)


