"""A webhook server that allows everything: what admission costs at least, for comparisons.

usage: python -m tests.kit.allow_all PORT CERTIFICATE KEY
"""
import asyncio
import ssl
import sys

import msgspec
from aiohttp import web


async def allow(request: web.BaseRequest) -> web.Response:
    review = msgspec.json.decode(await request.read())
    answer = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": {"uid": review["request"]["uid"], "allowed": True}}
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


async def serve(port: int, certificate: str, key: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    runner = web.ServerRunner(web.Server(allow, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
