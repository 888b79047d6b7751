"""The processes of the gateway comparison in `first_prediction.py`: an origin, our gateway, and an aiohttp proxy."""
import asyncio
import sys
from typing import Any

from serveplane.http import Request, Response, run, serve


async def origin(port: int) -> int:
    async def answer(request: Request) -> Response:
        await request.read()
        return Response.json({"predictions": [1]})
    return (await serve(answer)).port


async def gateway(port: int) -> int:
    from serveplane.clock import SYSTEM
    from serveplane.embedded.gateway.endpoints import Endpoints
    from serveplane.embedded.gateway.proxy import Gateway
    from serveplane.embedded.gateway.rules import Backend, PathKind, Rule, ServiceName, make_table
    from serveplane.http.proxy import Proxy
    name = ServiceName("default", "iris")
    made = Gateway(Proxy(), SYSTEM)
    made.table = make_table({"iris.example.com": [Rule(PathKind.PREFIX, "/", (Backend(name, 80),))]})
    slices = [{"metadata": {"namespace": "default", "labels": {"kubernetes.io/service-name": "iris"}},
               "ports": [{"port": port}], "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]}]
    made.endpoints = Endpoints({name: {"spec": {"ports": [{"port": 80}]}}}, slices)
    return (await serve(made.handle)).port


async def aiohttp_proxy(port: int) -> int:
    import aiohttp
    from aiohttp import web
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def forward(request: web.Request) -> Any:
        url = f"http://127.0.0.1:{port}{request.path_qs}"
        headers = {name: value for name, value in request.headers.items() if name.lower() not in ("connection", "content-length")}
        async with session.request(request.method, url, headers=headers, data=await request.read()) as answer:
            kept = {name: value for name, value in answer.headers.items()
                    if name.lower() not in ("connection", "transfer-encoding", "content-length")}
            return web.Response(status=answer.status, headers=kept, body=await answer.read())
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", forward)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return int(runner.addresses[0][1])


async def main() -> None:
    roles = {"origin": origin, "gateway": gateway, "aiohttp": aiohttp_proxy}
    print(await roles[sys.argv[1]](int(sys.argv[2])), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    run(main())
