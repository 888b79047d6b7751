"""Routing as a table: method, path pattern, handler. The table is itself a handler.

Patterns are matched segment by segment on the path as sent, and only captured values are percent-decoded, so an encoded slash can
never change which route matches. `{name}` takes one segment, or a part of one (`{name}:predict`); `{rest...}` at the end
takes all that follows. A literal segment wins over a capture, whatever the order of the table.
"""
import re
from collections.abc import Awaitable, Iterable
from urllib.parse import unquote

from serveplane.http.errors import StatusError
from serveplane.http.messages import Handler, Request, Response

Route = tuple[str, str, Handler]

_CAPTURE = re.compile(r"\{(\w+)\}")
_REST = re.compile(r"\{(\w+)\.\.\.\}")


class _Node:
    """One segment deep in the tree of patterns."""

    __slots__ = ("captures", "handlers", "literals", "rest")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.captures: list[tuple[re.Pattern[str], _Node]] = []
        self.handlers: dict[str, Handler] = {}
        self.rest: tuple[str, dict[str, Handler]] | None = None


class Router:
    """A handler that hands on.

    >>> router = Router([("GET", "/v1/models/{name}", some_handler), ("*", "/healthz", other_handler)])   # doctest: +SKIP

    A path nobody knows is a 404 (or goes to `otherwise`), a known path with another method a 405 with Allow. HEAD goes to GET where
    no HEAD is listed.
    """

    def __init__(self, routes: Iterable[Route] = (), otherwise: Handler | None = None) -> None:
        self._root = _Node()
        self._otherwise = otherwise
        for method, pattern, handler in routes:
            self.add(method, pattern, handler)

    def add(self, method: str, pattern: str, handler: Handler) -> None:
        """`method` may be "*" for any, or several as "GET,HEAD"."""
        if not pattern.startswith("/"):
            raise ValueError(f"a pattern begins with a slash: {pattern!r}")
        node = self._root
        segments = pattern[1:].split("/")
        for place, segment in enumerate(segments):
            rest = _REST.fullmatch(segment)
            if rest is not None:
                if place != len(segments) - 1:
                    raise ValueError(f"{segment} can only end a pattern: {pattern!r}")
                handlers = node.rest[1] if node.rest else {}
                node.rest = (rest[1], handlers)
                _put(handlers, method, pattern, handler)
                return
            node = _child(node, segment)
        _put(node.handlers, method, pattern, handler)

    def __call__(self, request: Request) -> Awaitable[Response]:
        return self.handler(request)(request)

    def handler(self, request: Request) -> Handler:
        """Who answers this request; `request.params` is filled with what the pattern captured."""
        params: dict[str, str] = {}
        handlers = _find(self._root, request.path[1:].split("/"), 0, params) if request.path.startswith("/") else None
        if handlers is None:
            if self._otherwise is None:
                raise StatusError(404, "not found")
            return self._otherwise
        found = handlers.get(request.method) or handlers.get("*") or (handlers.get("GET") if request.method == "HEAD" else None)
        if found is None:
            return _not_allowed(handlers)
        request.params = params
        return found


def _put(handlers: dict[str, Handler], method: str, pattern: str, handler: Handler) -> None:
    for name in method.split(","):
        if name in handlers:
            raise ValueError(f"two handlers for {name} {pattern}")
        handlers[name] = handler


def _child(node: _Node, segment: str) -> _Node:
    if "{" not in segment:
        return node.literals.setdefault(segment, _Node())
    parts = _CAPTURE.split(segment)   # literal, name, literal, name, …
    pattern = "".join(f"(?P<{part}>.+)" if place % 2 else re.escape(part) for place, part in enumerate(parts))
    for known, child in node.captures:
        if known.pattern == pattern:
            return child
    child = _Node()
    node.captures.append((re.compile(pattern), child))
    node.captures.sort(key=lambda capture: -len(_CAPTURE.sub("", capture[0].pattern)))   # the more literal text, the earlier
    return child


def _find(node: _Node, segments: list[str], place: int, params: dict[str, str]) -> dict[str, Handler] | None:
    """The handlers at the end of these segments; `params` gets the captures of the way there."""
    if place == len(segments):
        return node.handlers or None
    segment = segments[place]
    literal = node.literals.get(segment)
    if literal is not None:
        found = _find(literal, segments, place + 1, params)
        if found is not None:
            return found
    for pattern, child in node.captures:
        match = pattern.fullmatch(segment)
        if match is not None:
            found = _find(child, segments, place + 1, params)
            if found is not None:
                params.update({name: unquote(value) for name, value in match.groupdict().items()})
                return found
    if node.rest is not None:
        params[node.rest[0]] = unquote("/".join(segments[place:]))
        return node.rest[1]
    return None


def _not_allowed(handlers: dict[str, Handler]) -> Handler:
    allowed = ", ".join(sorted({*handlers, *(["HEAD"] if "GET" in handlers else [])}))

    def answer(_: Request) -> Response:
        return Response.text("method not allowed\n", 405, [("Allow", allowed)])
    return answer
