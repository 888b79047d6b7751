"""Requests through a real gateway to real servers."""
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
import websockets
from websockets.asyncio.server import serve as serve_websocket

from serveplane.clock import SYSTEM
from serveplane.embedded.gateway.endpoints import Endpoints
from serveplane.embedded.gateway.proxy import Gateway
from serveplane.embedded.gateway.rules import (
    Backend,
    HeaderChange,
    PathKind,
    Redirect,
    Rewrite,
    Rule,
    ServiceName,
    make_table,
)
from serveplane.http import Request, Response, Server, serve
from serveplane.http.http2 import Http2Proxy
from serveplane.http.proxy import Proxy
from serveplane.objects import Json

A, B = ServiceName("d", "a"), ServiceName("d", "b")


async def echo(request: Request) -> Response:
    body = await request.read()
    return Response.json({"path": request.target, "host": request.headers.get("host"), "body": body.decode(),
                          "headers": {name.lower(): value for name, value in request.headers.items()}})


class Setup:
    def __init__(self, gateway: Gateway, server: Server, session: aiohttp.ClientSession) -> None:
        self.gateway, self.server, self.session = gateway, server, session

    async def ask(self, path: str = "/", host: str = "x.com", method: str = "GET", **more: object) -> tuple[int, Json | str]:
        headers = {"Host": host, **more.pop("headers", {})}  # type: ignore[dict-item]
        async with self.session.request(method, self.server.url + path, headers=headers, allow_redirects=False, **more) as answer:  # type: ignore[arg-type]
            text = await answer.text()
            return answer.status, (await answer.json()) if text.startswith("{") else text

    def routes(self, *rules: Rule, named: dict[tuple[str, str], str] | None = None) -> None:
        self.gateway.table = make_table({"x.com": list(rules)}, named)


def endpoints(**ports: list[int]) -> Endpoints:
    services = {ServiceName("d", name): {"spec": {"ports": [{"port": 80}]}} for name in ports}
    slices = [{"metadata": {"namespace": "d", "labels": {"kubernetes.io/service-name": name}}, "ports": [{"port": number}],
               "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]}
              for name, numbers in ports.items() for number in numbers]
    return Endpoints(services, slices)


@asynccontextmanager
async def setup(handler: Callable[[Request], Awaitable[Response]] = echo, extra: tuple[int, ...] = ()) -> AsyncIterator[Setup]:
    async with AsyncExitStack() as stack:
        origin = await serve(handler)
        stack.push_async_callback(origin.close)
        gateway = Gateway(Proxy(), SYSTEM)
        stack.push_async_callback(gateway.close)
        gateway.endpoints = endpoints(a=[*extra, origin.port])
        server = await serve(gateway.handle, http2=Http2Proxy(gateway.choose))
        stack.push_async_callback(server.close)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        made = Setup(gateway, server, session)
        made.routes(Rule(PathKind.PREFIX, "/", (Backend(A, 80),)))
        yield made


async def test_forwarded_with_its_host_and_body() -> None:
    async with setup() as made:
        status, answer = await made.ask("/v1/models?x=1", method="POST", data=b"hello")
        assert status == 200
        assert isinstance(answer, dict)
        assert (answer["path"], answer["host"], answer["body"]) == ("/v1/models?x=1", "x.com", "hello")
        assert answer["headers"]["x-forwarded-host"] == "x.com"


async def test_by_path_where_names_do_not_resolve() -> None:
    async with setup() as made:
        made.routes(Rule(PathKind.PREFIX, "/v1", (Backend(A, 80),)), named={("d", "iris"): "x.com"})
        status, answer = await made.ask("/serving/d/iris/v1/models?q=1", host="127.0.0.1")
        assert (status, answer["path"], answer["host"]) == (200, "/v1/models?q=1", "x.com")  # type: ignore[index]
        status, answer = await made.ask("/serving/d/a/x", host="127.0.0.1")
        assert (status, answer["path"], answer["host"]) == (200, "/x", "a.d")  # type: ignore[index]
        assert (await made.ask("/serving/d/none/x"))[0] == 404
        assert (await made.ask("/serving/d"))[0] == 404


async def test_services_by_name_and_in_absolute_form() -> None:
    async with setup() as made:
        status, answer = await made.ask("/p", host="a.d.svc.cluster.local")
        assert (status, answer["path"]) == (200, "/p")  # type: ignore[index]
        reader, writer = await asyncio.open_connection("127.0.0.1", made.server.port)
        writer.write(b"GET http://a.d/p?x=1 HTTP/1.1\r\nHost: a.d\r\nConnection: close\r\n\r\n")
        assert b'"path":"/p?x=1"' in await reader.read()
        writer.close()
        assert (await made.ask("/p", host="nobody.nowhere"))[0] == 404


async def by_proxy(made: Setup, url: str, user: str = "d") -> tuple[int, str]:
    told = {"Proxy-Authorization": aiohttp.encode_basic_auth(user, "")}
    async with made.session.get(url, proxy=made.server.url, headers=told) as answer:
        return answer.status, await answer.text()


async def test_pods_find_services_by_short_names_through_the_proxy() -> None:
    async with setup() as made:
        for name in ("a", "a.d", "a.d.svc", "a.d.svc.cluster.local"):
            status, text = await by_proxy(made, f"http://{name}/p?x=1")
            assert status == 200, text
            assert '"path":"/p?x=1"' in text
            assert f'"host":"{name}"' in text
            assert "proxy-authorization" not in text.lower()
        assert (await by_proxy(made, "http://a/p", user="elsewhere"))[0] == 404
        assert await by_proxy(made, "http://none/p") == (404, "no service is called 'none'\n")


async def test_the_proxy_passes_on_what_is_not_in_the_cluster() -> None:
    async with setup() as made:
        outside = await serve(echo)
        url = outside.url
        status, text = await by_proxy(made, f"{url}/far?y=2")
        assert (status, '"path":"/far?y=2"' in text) == (200, True)
        await outside.close()
        assert (await by_proxy(made, url))[0] == 503


async def test_a_model_named_at_the_gateways_own_address() -> None:
    async with setup() as made:
        rule = Rule(PathKind.PREFIX, "/", (Backend(A, 80),))
        made.routes(rule, named={("d", "iris"): "x.com"})
        own = f"127.0.0.1:{made.server.port}"
        assert (await made.ask("/v1/models/iris:predict", host=own))[0] == 200
        assert (await made.ask("/v2/models/iris/infer", host="localhost"))[0] == 200
        assert (await made.ask("/v1/models/other:predict", host=own))[0] == 404
        assert (await made.ask("/v1/models/iris:predict", host="evil.example"))[0] == 404
        made.routes(rule, named={("d", "iris"): "x.com", ("e", "iris"): "x.com"})
        status, text = await made.ask("/v1/models/iris:predict", host=own)
        assert status == 404
        assert "/serving/d/iris/v1/models/iris:predict" in text


async def test_filters() -> None:
    async with setup() as made:
        filters = (HeaderChange((("x-set", "1"),), (("x-add", "2"),), ("x-gone",)), HeaderChange((("x-answer", "3"),), (), (), True),
                   Rewrite("inner", None, "/v2"))
        made.routes(Rule(PathKind.PREFIX, "/v1", (Backend(A, 80),), filters=filters),
                    Rule(PathKind.PREFIX, "/old", (), filters=(Redirect("https", None, None, 301, None, "/new"),)))
        async with made.session.get(made.server.url + "/v1/m?q=1", headers={"Host": "x.com", "X-Gone": "1", "X-Set": "0"}) as got:
            answer = await got.json()
            assert got.headers["x-answer"] == "3"
        assert (answer["path"], answer["host"]) == ("/v2/m?q=1", "inner")
        assert (answer["headers"]["x-set"], answer["headers"]["x-add"]) == ("1", "2")
        assert "x-gone" not in answer["headers"]
        async with made.session.get(made.server.url + "/old/a?b=c", headers={"Host": "x.com"}, allow_redirects=False) as got:
            assert (got.status, got.headers["Location"]) == (301, "https://x.com/new/a?b=c")


async def test_weights() -> None:
    async with setup() as made:
        origin = await serve(lambda request: _text("b"))
        made.gateway.endpoints = endpoints(a=[made.gateway.endpoints.candidates(A, 80)[0].port], b=[origin.port])
        made.routes(Rule(PathKind.PREFIX, "/", (Backend(A, 80, 75), Backend(B, 80, 25))))
        answers = [await made.ask() for _ in range(200)]
        assert 20 <= sum(answer == "b" for _, answer in answers) <= 85
        made.routes(Rule(PathKind.PREFIX, "/", (Backend(A, 80, 0), Backend(B, 80, 1))))
        assert {str(answer) for _, answer in [await made.ask() for _ in range(20)]} == {"b"}
        await origin.close()


async def _text(text: str) -> Response:
    return Response.text(text)


async def test_503_without_endpoints_500_without_a_backend() -> None:
    async with setup() as made:
        made.routes(Rule(PathKind.PREFIX, "/", (Backend(B, 80),)), Rule(PathKind.EXACT, "/none", ()),
                    Rule(PathKind.EXACT, "/bad", (Backend(A, 80, 1, (), "service d/a not found"),)))
        made.gateway.endpoints = endpoints(a=[1], b=[])
        assert (await made.ask())[0] == 503
        assert (await made.ask("/none"))[0] == 500
        assert (await made.ask("/bad"))[0] == 500


async def test_an_endpoint_that_is_gone_is_passed_over() -> None:
    async with setup(extra=(1,)) as made:   # nothing listens on port 1
        for _ in range(4):
            assert (await made.ask(method="POST", data=b"x"))[0] == 200


async def test_an_endpoint_that_answers_503_was_reached() -> None:
    asked = []

    async def busy(request: Request) -> Response:
        asked.append(request.method)
        return Response.text("the origin cannot be reached\n", 503)   # as another gateway behind this one says it
    async with setup(busy) as made:
        port = made.gateway.endpoints.candidates(A, 80)[0].port
        made.gateway.endpoints = endpoints(a=[port, port])
        assert (await made.ask(method="POST", data=b"x"))[0] == 503
    assert asked == ["POST"]


async def test_a_timeout_is_504() -> None:
    async def slow(request: Request) -> Response:
        await asyncio.sleep(5)
        return Response.text("late")
    async with setup(slow) as made:
        made.routes(Rule(PathKind.PREFIX, "/", (Backend(A, 80),), timeout=0.2))
        assert (await made.ask())[0] == 504


async def test_streams_piece_by_piece() -> None:
    more = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        await more.wait()
        yield b"two"

    async def stream(request: Request) -> Response:
        return Response(200, [("Content-Type", "text/event-stream")], pieces())
    async with setup(stream) as made, made.session.get(made.server.url, headers={"Host": "x.com"}) as answer:
        assert await answer.content.readany() == b"one"
        more.set()
        assert await answer.content.read() == b"two"


async def test_websockets_pass_through() -> None:
    async def upper(connection: websockets.asyncio.server.ServerConnection) -> None:
        async for message in connection:
            await connection.send(str(message).upper())
    async with setup() as made, serve_websocket(upper, "127.0.0.1", 0) as origin:
        made.gateway.endpoints = endpoints(a=[origin.sockets[0].getsockname()[1]])
        async with websockets.connect(f"ws://127.0.0.1:{made.server.port}/serving/d/a/ws") as socket:
            await socket.send("hello")
            assert await socket.recv() == "HELLO"


async def test_grpc_passes_through() -> None:
    pytest.importorskip("grpc.aio", reason="grpcio is not installed")
    import grpc

    class Upper(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: "grpc.HandlerCallDetails") -> object:
            async def answer(request: bytes, context: object) -> bytes:
                return request.upper()
            return grpc.unary_unary_rpc_method_handler(answer)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Upper(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with setup() as made:
        made.gateway.endpoints = endpoints(a=[port])
        options = [("grpc.default_authority", "x.com")]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{made.server.port}", options=options) as channel:
            assert await channel.unary_unary("/a.B/C")(b"hello", timeout=10) == b"HELLO"
    await server.stop(0)
