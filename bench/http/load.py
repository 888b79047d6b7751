"""The load: 32 connections, each with one request under way at a time; the same one again and again, or each with an id of its own."""
import asyncio
import itertools
import time

CONNECTIONS = 32
BODY = (b'{"instances": [' + b", ".join(b"[6.8, 2.8, 4.8, 1.4]" for _ in range(46)) + b"]}")[:1022] + b"]}"

HEAD = (b"POST /v1/models/iris:predict HTTP/1.1\r\nHost: iris.example\r\nUser-Agent: bench\r\nAccept: */*\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\nX-Request-Id: %%016x\r\n\r\n" % len(BODY))


class Loader(asyncio.Protocol):
    """One connection in a closed loop; answers are counted by their length, which is the same for all but the first."""

    def __init__(self, load: "Load") -> None:
        self.load = load
        self.have, self.size = b"", 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        transport.write(self.load.request())   # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.have += data
        end = self.have.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.have[:end].lower()
        at = head.find(b"content-length:")
        if at < 0 or not head.startswith(b"http/1.1 200"):
            raise SystemExit(f"unexpected answer: {self.have[:300]!r}")
        if len(self.have) >= end + 4 + int(head[at + 15:].split(b"\r\n", 1)[0]):
            self.have = b""
            self.load.count += 1
            if not self.load.over:
                self.transport.write(self.load.request())   # type: ignore[attr-defined]


class Load:
    count = 0
    over = False

    def __init__(self, alike: bool = False) -> None:
        self.numbers = itertools.repeat(1) if alike else itertools.count()

    def request(self) -> bytes:
        return HEAD % next(self.numbers) + BODY

    async def run(self, host: str, port: int, seconds: float) -> tuple[int, float]:
        loop = asyncio.get_running_loop()
        started = time.perf_counter()
        transports = [(await loop.create_connection(lambda: Loader(self), host, port))[0] for _ in range(CONNECTIONS)]
        await asyncio.sleep(seconds)
        self.over = True
        elapsed = time.perf_counter() - started
        await asyncio.sleep(0.05)
        for transport in transports:
            transport.close()
        return self.count, elapsed


def load(host: str, port: int, seconds: float, alike: bool = False) -> tuple[int, float]:
    import uvloop
    return uvloop.run(Load(alike).run(host, port, seconds))
