"""The HTTP that downloads speak: whatever way the bytes arrive, the body is the same; whatever is not HTTP is an error."""
import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serveplane.dataplane.storage import moving, wire
from serveplane.dataplane.storage.connection import Response
from serveplane.dataplane.storage.errors import Interrupted
from serveplane.dataplane.storage.moving import Mover, Target
from serveplane.dataplane.storage.wire import Broken, TooLate, Wire

OK = b"HTTP/1.1 200 OK\r\n"
BODY = bytes(range(256)) * 40
GOOD = {
    "length": OK + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY,
    "to the end": OK + b"X-Twice: a\r\nx-twice: b\r\n\r\n" + BODY,
    "old": b"HTTP/1.0 200\r\n\r\n" + BODY,
    "chunks": OK + b"transfer-encoding: Chunked\r\n\r\n" + b"10;ext=1\r\n" + BODY[:16] + b"\r\n%X\r\n" % len(BODY[16:]) + BODY[16:]
    + b"\r\n0\r\nTrailer: yes\r\n\r\n",
    "early hints": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY,
}


@contextlib.contextmanager
def answering(*pieces: bytes, timeout: float = 5.0, hang: bool = False) -> Iterator[Wire]:
    """A connection whose other end sends these pieces and closes."""
    ours, theirs = socket.socketpair()
    released = threading.Event()

    def send() -> None:
        with theirs, contextlib.suppress(OSError):
            for piece in pieces:
                theirs.sendall(piece)
            if hang:
                released.wait(5)
            theirs.shutdown(socket.SHUT_WR)
            released.wait(5)

    thread = threading.Thread(target=send)
    thread.start()
    connection = Wire(ours, timeout)
    try:
        yield connection
    finally:
        released.set()
        connection.close()
        thread.join()


def body_of(connection: Wire, size: int = 1000) -> bytes:
    answer, buffer, content = connection.exchange("GET", "/", {"Host": "h"}), memoryview(bytearray(size)), b""
    while count := answer.readinto(buffer):
        content += buffer[:count]
    return content


@pytest.mark.parametrize("kind", GOOD)
@settings(max_examples=12, deadline=None)
@given(cuts=st.lists(st.integers(1, 400), max_size=6), size=st.sampled_from([1, 7, 1000, 20_000]))
def test_a_body_is_the_same_however_it_arrives(kind: str, cuts: list[int], size: int) -> None:
    places = [0, *sorted(cuts), len(GOOD[kind])]
    kept = kind in ("length", "chunks", "early hints")
    with answering(*(GOOD[kind][start:end] for start, end in pairwise(places)), hang=kept) as connection:
        assert body_of(connection, size) == BODY
        assert connection.free == kept


@pytest.mark.parametrize("raw", [
    b"", b"HTTP/1.1", b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/2 200\r\n\r\n", OK + b"no colon\r\n\r\n", OK + b"A: b\r\n folded\r\n\r\n",
    OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", OK + b"Content-Length: -1\r\n\r\n", OK + b"Content-Length: 5\r\n\r\nabc",
    OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n", OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", OK + b"X: " + b"x" * 100_000,
    OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
])
def test_what_is_not_http_is_an_error(raw: bytes) -> None:
    with answering(raw) as connection:
        with pytest.raises(Broken):
            body_of(connection)
        assert not connection.free


def test_a_connection_that_said_more_than_it_should_is_not_used_again() -> None:
    with answering(OK + b"Content-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\n") as connection:
        assert body_of(connection) == b"ab"
        assert not connection.free


def test_waiting_is_interrupted_every_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "TICK_SECONDS", 0.02)
    ticks: list[int] = []
    with answering(OK, hang=True, timeout=0.1) as connection:
        connection._idle = lambda: ticks.append(1)
        with pytest.raises(TooLate):
            body_of(connection)
    assert len(ticks) == 5


def moved(path: Path, content: bytes) -> None:
    """A body to a file, by whatever way a mover finds."""
    mover, reached = Mover(), 0
    target = Target(os.open(path, os.O_RDWR | os.O_CREAT), threading.Lock())

    def written(count: int) -> None:
        nonlocal reached
        reached += count

    with listening(OK + b"Content-Length: %d\r\n\r\n" % len(content) + content) as connection:
        response = Response(connection.exchange("GET", "/", {}), connection, "http://h/")
        while mover.move(response, target, reached, len(content) - reached, lambda _: None, written) and reached < len(content):
            pass
    mover.close()
    os.close(target.descriptor)


@pytest.mark.parametrize("refused", ["nobody", "the file", "the socket"])
def test_bytes_reach_the_file_whoever_refuses_to_splice(refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, used = os.splice, []

    def splice(source: int, target: int, count: int, **more: int) -> int:
        used.append(refused)
        if refused == ("the file" if "offset_dst" in more else "the socket"):
            raise OSError(22, "Invalid argument")
        return real(source, target, count, **more)

    monkeypatch.setattr(os, "splice", splice)
    monkeypatch.setattr(moving, "BUFFER", 65_536)   # several pipes
    moved(tmp_path / "file", BODY * 30)
    assert (tmp_path / "file").read_bytes() == BODY * 30
    assert (len(used) > 1) == (refused != "the socket")


def test_what_is_in_a_pipe_is_written_though_somebody_wants_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "BUFFER", 65_536)
    content, arrivals, written, mover = BODY * 30, list[int](), list[int](), Mover()

    def arrived(count: int) -> None:
        arrivals.append(count)
        if len(arrivals) == 2:
            raise Interrupted("stopped")

    target = Target(os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT), threading.Lock())
    with listening(OK + b"Content-Length: %d\r\n\r\n" % len(content) + content) as connection:
        response = Response(connection.exchange("GET", "/", {}), connection, "http://h/")
        with contextlib.suppress(Interrupted):
            while mover.move(response, target, sum(written), len(content) - sum(written), arrived, written.append):
                pass
    mover.close()
    os.close(target.descriptor)
    assert len(arrivals) == 2
    assert (tmp_path / "file").read_bytes() == content[:sum(arrivals)]
    assert sum(written) == sum(arrivals)


@contextlib.contextmanager
def listening(raw: bytes) -> Iterator[Wire]:
    """As `answering`, over TCP: what `splice` is for."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def send() -> None:
            with listener.accept()[0] as connection:
                connection.sendall(raw)
                connection.recv(1 << 16)

        thread = threading.Thread(target=send)
        thread.start()
        connection = Wire(socket.create_connection(listener.getsockname()), 5.0)
        try:
            yield connection
        finally:
            connection.close()
            thread.join()
