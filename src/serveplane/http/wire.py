"""Writing heads. Framing fields are ours alone: whatever a handler says about them, one Content-Length or one chunked goes out."""
import datetime
from http import HTTPStatus

from serveplane.clock import Clock
from serveplane.http.headers import Headers, RawHeader

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
NO_BODY = frozenset((204, 304))

# What belongs to one connection and not to the message (RFC 9110, 7.6.1), plus what framing decides.
CONNECTION_FIELDS = frozenset((
    b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"te", b"trailer", b"upgrade",
    b"proxy-authenticate", b"proxy-authorization", b"http2-settings"))
_FRAMING = frozenset((b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"trailer"))

_STATUS_LINES = {int(status): b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def http_date(moment: datetime.datetime) -> str:
    """IMF-fixdate, in English whatever the locale.

    >>> http_date(datetime.datetime(1994, 11, 6, 8, 49, 37, tzinfo=datetime.UTC))
    'Sun, 06 Nov 1994 08:49:37 GMT'
    """
    return f"{_DAYS[moment.weekday()]}, {moment.day:02} {_MONTHS[moment.month - 1]} {moment.year} {moment:%H:%M:%S} GMT"


class DateLine:
    """The Date field, made anew once a second at most."""

    __slots__ = ("_clock", "_line", "_until")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = -1.0
        self._line = b""

    def at(self, now: float) -> bytes:
        """`now` is the clock's monotonic time, which the caller has at hand anyway."""
        if now >= self._until:
            moment = self._clock.now()
            self._line = b"Date: %b\r\n" % http_date(moment).encode()
            self._until = now + 1.0 - moment.microsecond / 1e6
        return self._line


def status_line(status: int) -> bytes:
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


def response_head(status: int, headers: Headers, framing: bytes, date: bytes) -> bytes:
    """The head of an answer: the handler's fields, our framing, and a Date unless there is one (an origin's, when proxying)."""
    index = headers.index
    if headers.block is not None and _FRAMING.isdisjoint(index):
        return b"".join((status_line(status), headers.block, b"" if b"date" in index else date, framing, b"\r\n"))
    parts = [status_line(status)]
    for name, value in headers.raw:
        key = name.lower()
        if key in _FRAMING:
            continue
        if key == b"date":
            date = b""
        parts.append(b"%b: %b\r\n" % (name, value))
    parts.append(date)
    parts.append(framing)
    parts.append(b"\r\n")
    return b"".join(parts)


def request_head(method: bytes, target: bytes, fields: list[RawHeader], framing: bytes) -> bytes:
    parts = [b"%b %b HTTP/1.1\r\n" % (method, target)]
    parts += [b"%b: %b\r\n" % field for field in fields]
    parts.append(framing)
    parts.append(b"\r\n")
    return b"".join(parts)


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)
