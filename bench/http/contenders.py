"""The servers that are measured, one function each: run as `python bench/http/contenders.py NAME KIND PORT ORIGIN`.

A program of its own, so that what the benchmark imports counts for nobody's memory and start.
"""
import asyncio
import os
import sys
from collections.abc import Awaitable
from pathlib import Path

NEEDS = {"serveplane": [], "aiohttp": ["aiohttp"], "granian": ["granian", "aiohttp"], "uvicorn": ["uvicorn", "starlette", "httpx"]}


def serve_serveplane(kind: str, port: int, origin: str) -> None:
    from serveplane.http import Handler, Origin, Request, Response, run, serve
    from serveplane.http.proxy import Proxy

    async def echo(request: Request) -> Response:
        return Response(200, [("Content-Type", "application/json")], await request.read())

    async def main() -> None:
        handler: Handler = echo
        if kind == "proxy":
            proxy, target = Proxy(), Origin.of(origin)

            def handler(request: Request) -> Awaitable[Response]:
                return proxy.forward(request, target)
        await serve(handler, port=port)
        await asyncio.Event().wait()
    run(main())


def serve_aiohttp(kind: str, port: int, origin: str) -> None:
    import uvloop
    from aiohttp import ClientSession, TCPConnector, web

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read(), content_type="application/json")

    async def main() -> None:
        session = ClientSession(connector=TCPConnector(limit=0))

        async def forward(request: web.Request) -> web.Response:
            body = await request.read()
            async with session.request(request.method, origin + request.path_qs, headers=request.headers, data=body) as answer:
                return web.Response(body=await answer.read(), status=answer.status, content_type="application/json")
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", forward if kind == "proxy" else echo)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.Event().wait()
    uvloop.run(main())


def serve_granian(kind: str, port: int, origin: str) -> None:
    os.environ["BENCH_KIND"], os.environ["BENCH_ORIGIN"] = kind, origin
    options = {"interface": "rsgi", "host": "127.0.0.1", "port": port, "workers": 1, "loop": "uvloop", "log-level": "critical",
               "working-dir": Path(__file__).parent}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    os.execv(sys.executable, [sys.executable, "-m", "granian", *words, "--no-access-log", "granian_app:app"])


def serve_uvicorn(kind: str, port: int, origin: str) -> None:
    import httpx
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
    client: list[httpx.AsyncClient] = []

    async def echo(request: Request) -> Response:
        return Response(await request.body(), media_type="application/json")

    async def forward(request: Request) -> Response:
        if not client:
            client.append(httpx.AsyncClient(limits=httpx.Limits(max_connections=None)))
        answer = await client[0].request(request.method, origin + request.url.path, content=await request.body())
        return Response(answer.content, answer.status_code, media_type="application/json")
    app = Starlette(routes=[Route("/{rest:path}", forward if kind == "proxy" else echo, methods=["GET", "POST"])])
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="critical", access_log=False, loop="uvloop", http="httptools")


SERVE = {"serveplane": serve_serveplane, "aiohttp": serve_aiohttp, "granian": serve_granian, "uvicorn": serve_uvicorn}

if __name__ == "__main__":
    SERVE[sys.argv[1]](sys.argv[2], int(sys.argv[3]), sys.argv[4])
