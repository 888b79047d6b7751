"""The application granian runs."""
import os

_session = None


async def app(scope, protocol) -> None:  # type: ignore[no-untyped-def]
    """RSGI; the proxy uses aiohttp's client, as there is no other pooled one in that world."""
    global _session
    body = await protocol()
    if os.environ["BENCH_KIND"] == "proxy":
        if _session is None:
            from aiohttp import ClientSession, TCPConnector
            _session = ClientSession(connector=TCPConnector(limit=0))
        async with _session.request(scope.method, os.environ["BENCH_ORIGIN"] + scope.path, data=body) as answer:
            body = await answer.read()
    protocol.response_bytes(200, [("content-type", "application/json")], body)
