"""Hostile input over HTTPS: refused, in bounded memory, while another client is served as before.

Memory is that of the server's process; the other client asks for one object all the time and remembers how long it waited.
"""

import contextlib
import json
import random
import socket
import ssl
import statistics
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.counts import COUNTS, SEED
from tests.embedded.conftest import install
from tests.embedded.servers import APPLY, JSON_PATCH, MERGE, STRATEGIC, Api, Embedded

pytestmark = pytest.mark.stress
MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/suite.example.com/v1/namespaces/default/widgets"
PROTOBUF = "application/vnd.kubernetes.protobuf"
GROWTH_MB = 200
WATCHERS_MB = 500  # half a megabyte for each: buffers of TLS and of the transport
LIMIT_KB = 4 << 20
PATIENCE_SECONDS = 10.0
LARGE_YAML_SECONDS = 2.5  # reading one takes several on an idle machine
REFUSED = range(400, 500)


def memory_mb(server: Embedded) -> float:
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS"))) / 1024


class Bystander(threading.Thread):
    """Somebody else, who only wants to read."""

    def __init__(self, api: Api) -> None:
        super().__init__(daemon=True)
        self.api = api
        self.waits: list[float] = []
        self.failures: list[object] = []
        self.over = threading.Event()

    def run(self) -> None:
        while not self.waits or not self.over.wait(0.02):
            began = time.monotonic()
            try:
                if self.api.call("GET", f"{MAPS}/mine").status != 200:
                    self.failures.append("not 200")
            except OSError as problem:
                self.failures.append(problem)
            self.waits.append(time.monotonic() - began)


class Limited(Embedded):
    """Should a bomb go off after all, it is this process that ends, and not the machine."""

    def command(self) -> list[str]:
        return ["sh", "-c", f'ulimit -v {LIMIT_KB} 2>/dev/null; exec "$0" "$@"', *super().command()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    started = Limited(tmp_path_factory.mktemp("hostile"))
    install(started.api())
    started.api().call("POST", MAPS, {"metadata": {"name": "mine"}})
    try:
        yield started
    finally:
        started.stop()


@contextlib.contextmanager
def unharmed(server: Embedded, what: str, most: int = GROWTH_MB, patience: float = PATIENCE_SECONDS) -> Iterator[None]:
    if not Path("/proc/self/status").exists():
        pytest.skip("memory can only be measured where there is /proc")
    before, bystander = memory_mb(server), Bystander(server.api())
    bystander.start()
    try:
        yield
    finally:
        bystander.over.set()
        bystander.join(60)
    grown, worst = memory_mb(server) - before, max(bystander.waits)
    usual = statistics.median(bystander.waits) * 1000
    print(f"{what}: {before:.0f} MB, grown by {grown:.0f}; others waited {usual:.1f} ms, at worst {worst:.2f} s")
    assert not bystander.failures
    assert grown < most, f"{what}: memory grew by {grown:.0f} MB"
    assert worst < patience, f"{what}: somebody else waited {worst:.1f} s"


def deep(opening: str, closing: str, levels: int = 100_000) -> bytes:
    return b'{"apiVersion":"suite.example.com/v1","kind":"Widget","metadata":{"name":"d"},"spec":{"size":1,"free":%s}}' % (
        f"{opening * levels}1{closing * levels}".encode()
    )


def flat(rows: int = 120_000) -> bytes:
    """As much YAML as a body may hold, and nothing wrong with it but its size."""
    lines = "\n".join(f"  key-{number}: value {number}" for number in range(rows))
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: flat}}\nnonsense:\n{lines}".encode()


def echoes(times: int = 200_000) -> bytes:
    """One long text, told over and over."""
    said, text = ",".join(["*x"] * times), "y" * 1_000_000
    head = "apiVersion: suite.example.com/v1\nkind: Widget\nmetadata: {name: e}\n"
    return f"{head}spec: {{size: 1, free: {{x: &x {text}, z: [{said}]}}}}".encode()


def laughs(levels: int = 12) -> bytes:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\n" + "\n".join(lines)).encode()


BODIES: dict[str, Callable[[Api], Any]] = {
    "a body that is too large": lambda api: api.call("POST", MAPS, b'{"data":{"x":"' + b"x" * (8 << 20) + b'"}}'),
    "lists that are too deep": lambda api: api.call("POST", WIDGETS, deep("[", "]")),
    "objects that are too deep": lambda api: api.call("POST", WIDGETS, deep('{"x":', "}")),
    "a deep patch": lambda api: api.call("PATCH", f"{MAPS}/mine", deep('{"x":', "}"), MERGE),
    "a deep strategic patch": lambda api: api.call("PATCH", f"{MAPS}/mine", deep('{"x":', "}"), STRATEGIC),
    "a deep configuration": lambda api: api.call("PATCH", f"{WIDGETS}/d", deep('{"x":', "}"), APPLY, fieldManager="m"),
    "deep YAML": lambda api: api.call("POST", WIDGETS, deep("[", "]", 20_000), "application/yaml"),
    "a bomb of aliases": lambda api: api.call("POST", MAPS, laughs(), "application/yaml"),
    "a bomb of aliases to apply": lambda api: api.call("PATCH", f"{MAPS}/bomb", laughs(), APPLY, fieldManager="m"),
    "one long text over and over": lambda api: api.call("POST", WIDGETS, echoes(), "application/yaml"),
    "one long text over and over to apply": lambda api: api.call("PATCH", f"{WIDGETS}/e", echoes(), APPLY, fieldManager="m"),
    "a bomb of zeros": lambda api: api.call("POST", MAPS, zlib.compress(b"\0" * (256 << 20)), headers={"Content-Encoding": "gzip"}),
    "a million empty objects": lambda api: api.call("POST", WIDGETS, b'{"spec":{"free":{"x":[' + b",".join([b"{}"] * 900_000) + b"]}}}"),
    "not an object": lambda api: api.call("POST", MAPS, b"[" + b"0," * 1_000_000 + b"0]"),
    "copies of copies": lambda api: api.call("PATCH", f"{MAPS}/mine", COPIES, JSON_PATCH),
    "too many steps": lambda api: api.call("PATCH", f"{MAPS}/mine", [{"op": "test", "path": "/x", "value": 1}] * 20_000, JSON_PATCH),
    "a long selector": lambda api: api.call("GET", MAPS, labelSelector="a in (" + "x," * 10_000 + "x)"),
}
COPIES = [{"op": "add", "path": "/data", "value": {"x": "y" * 1000}}] + [
    {"op": "copy", "from": "/data", "path": f"/data/n{number}"} for number in range(40)
]


@pytest.mark.parametrize("what", BODIES)
def test_one_hostile_body_is_refused(server: Embedded, what: str) -> None:
    with unharmed(server, what), contextlib.suppress(OSError):  # the server may close the connection rather than read on
        assert BODIES[what](server.api()).status in REFUSED


def test_large_yaml_is_read_beside_everything_else(server: Embedded) -> None:
    """That takes seconds, which nobody else may notice."""
    body, api = flat(), server.api()
    assert len(body) > 2 << 20
    with unharmed(server, "large YAML", patience=LARGE_YAML_SECONDS):
        assert api.call("POST", MAPS, body, "application/yaml").status == 201
        refused = api.call("PATCH", f"{MAPS}/flat", body, APPLY, fieldManager="m")
    assert "nonsense" in refused.value["message"]


def test_protobuf_that_is_none(server: Embedded) -> None:
    chance = random.Random(SEED)
    heads = (b"k8s\0", b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12", b"")
    tails = (b"\xff\xff\xff\xff\x7f", b"\xff" * 12, b"\n\xff\xff\xff\xff\x0f")
    with unharmed(server, "malformed protobuf"):
        for _ in range(COUNTS.fuzzed_objects):
            body = chance.choice(heads) + chance.choice((*tails, b"")) + chance.randbytes(chance.randrange(200))
            assert server.api().call("POST", MAPS, body, PROTOBUF).status in REFUSED


def test_a_flood_of_patches(server: Embedded) -> None:
    api = server.api()
    api.call("POST", MAPS, {"metadata": {"name": "flooded"}})

    def flood(number: int) -> None:
        mine = server.api()
        for step in range(200):
            change = {"data": {f"k{number}-{step % 10}": "x" * 20_000}}
            assert mine.call("PATCH", f"{MAPS}/flooded", change, MERGE).status in (200, 409, 422)

    with unharmed(server, "patches of eight writers"):
        threads = [threading.Thread(target=flood, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    api.call("DELETE", f"{MAPS}/flooded")


def test_a_thousand_watchers_that_never_read(server: Embedded) -> None:
    api, place = server.api(), urlsplit(server.place["url"])
    trust = ssl.create_default_context(cafile=server.place["ca"])
    asked = f"GET {MAPS}?watch=true HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {api.token}\r\n\r\n".encode()
    watchers: list[ssl.SSLSocket] = []
    with unharmed(server, "1,000 watchers that never read", most=WATCHERS_MB):
        try:
            for _ in range(1_000):
                plain = socket.create_connection((place.hostname or "", place.port or 0))
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                watchers.append(trust.wrap_socket(plain, server_hostname=place.hostname))
                watchers[-1].sendall(asked)
            for step in range(150):
                body = {"metadata": {"name": "noise"}, "data": {"x": f"{step}" + "x" * 20_000}}
                answer = api.call("PUT", f"{MAPS}/noise", body) if step else api.call("POST", MAPS, body)
                assert answer.status in (200, 201)
        finally:
            for watcher in watchers:
                watcher.close()
    assert json.dumps(api.call("GET", f"{MAPS}/noise").value)
