"""The routing table and the small values: headers, origins, dates, loops."""
import asyncio
import subprocess
import sys

import pytest

from serveplane.http import Headers, Origin, Request, Response, Router, StatusError, run
from serveplane.http.loop import loop_factory
from serveplane.http.origin import split_url


def named(name: str):  # type: ignore[no-untyped-def]
    async def handler(request: Request) -> Response:
        return Response.text(name)
    handler.__name__ = name
    return handler


ROUTES = Router([
    ("GET", "/", named("root")), ("GET", "/v1/models", named("list")), ("GET", "/v1/models/{name}", named("one")),
    ("POST", "/v1/models/{name}:predict", named("predict")), ("POST", "/v1/models/{name}:explain", named("explain")),
    ("GET,PUT", "/v1/models/special", named("special")), ("*", "/files/{path...}", named("files")),
    ("GET", "/a/{x}/c", named("axc")), ("GET", "/a/b/{y}", named("aby")),
    ("GET", "/v2/models/{name}/versions/{version}/ready", named("ready"))])


@pytest.mark.parametrize(("method", "path", "name", "params"), [
    ("GET", "/", "root", {}),
    ("GET", "/v1/models/iris", "one", {"name": "iris"}),
    ("HEAD", "/v1/models/iris", "one", {"name": "iris"}),
    ("GET", "/v1/models/special", "special", {}),
    ("POST", "/v1/models/iris:predict", "predict", {"name": "iris"}),
    ("POST", "/v1/models/a:b:explain", "explain", {"name": "a:b"}),
    ("GET", "/v1/models/a%2Fb", "one", {"name": "a/b"}),
    ("DELETE", "/files/a/b%20c/", "files", {"path": "a/b c/"}),
    ("GET", "/a/b/c", "aby", {"y": "c"}),
    ("GET", "/a/z/c", "axc", {"x": "z"}),
    ("GET", "/v2/models/m/versions/1/ready", "ready", {"name": "m", "version": "1"}),
])
def test_found(method: str, path: str, name: str, params: dict[str, str]) -> None:
    request = Request(method, path)
    assert ROUTES.handler(request).__name__ == name   # type: ignore[attr-defined]
    assert request.params == params


@pytest.mark.parametrize("path", ["/nothing", "/v1/models/", "/v1//models", "/v1/models/a/b", "*", "/v2/models/m/versions//ready"])
def test_not_found(path: str) -> None:
    with pytest.raises(StatusError) as caught:
        ROUTES.handler(Request("GET", path))
    assert caught.value.status == 404


async def test_not_allowed_and_otherwise() -> None:
    response = await ROUTES(Request("DELETE", "/v1/models/special"))
    assert (response.status, response.headers.get("allow")) == (405, "GET, HEAD, PUT")
    assert (await Router([], otherwise=named("else"))(Request("GET", "/x"))).body == b"else"


@pytest.mark.parametrize("routes", [[("GET", "x", named("a"))], [("GET", "/{a...}/b", named("a"))], [("GET", "/x", named("a"))] * 2])
def test_bad_tables(routes: list[tuple[str, str, object]]) -> None:
    with pytest.raises(ValueError, match="pattern|two handlers"):   # noqa: RUF043
        Router(routes)   # type: ignore[arg-type]


def test_headers() -> None:
    headers = Headers({"Content-Type": "a"})
    headers.add("X", "1")
    headers.add("x", "2")
    assert (headers["content-type"], headers.get_all("X"), "y" in headers, len(headers)) == ("a", ["1", "2"], False, 3)
    headers.set("x", "3")
    assert headers.items() == [("Content-Type", "a"), ("x", "3")]
    with pytest.raises(KeyError):
        headers["y"]
    assert Headers([("A", "b")]) == Headers([("a", "b")])
    assert "secret" not in repr(Headers({"Authorization": "secret"}))


@pytest.mark.parametrize(("url", "origin", "target"), [
    ("http://a", Origin("http", "a", 80), "/"), ("HTTPS://A.B:444?x", Origin("https", "a.b", 444), "/?x"),
    ("http://[::1]:8/a#b", Origin("http", "::1", 8), "/a")])
def test_urls(url: str, origin: Origin, target: str) -> None:
    assert split_url(url) == (origin, target)


def test_authorities() -> None:
    assert [Origin.of(url).authority for url in ("http://a:80", "https://a:80", "http://[::1]:81")] == ["a", "a:80", "[::1]:81"]


def test_run_on_either_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def name() -> str:
        return type(asyncio.get_running_loop()).__module__
    assert run(name()).startswith("uvloop")
    assert run(name(), plain=True).startswith("asyncio")
    monkeypatch.setenv("SERVEPLANE_LOOP", "asyncio")
    assert loop_factory() is asyncio.new_event_loop


def test_what_the_import_brings_in() -> None:
    """Start-up is part of the promise: neither hpack nor any test peer is loaded before it is needed."""
    code = "import serveplane.http, sys; print(sorted({'hpack', 'aiohttp', 'grpc', 'h11', 'cryptography', 'yaml'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "[]\n"
