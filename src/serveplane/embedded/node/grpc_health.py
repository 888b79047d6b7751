"""`grpc.health.v1.Health/Check`, asked over plain HTTP/2 with no gRPC library.

A probe needs one unary call with a ten-byte message, so the few frames are written and read here.
"""
import asyncio
import contextlib
import struct

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING, GOAWAY = 0, 1, 4, 6, 7
END_STREAM, END_HEADERS, ACK, PADDED, PRIORITY = 0x1, 0x4, 0x1, 0x8, 0x20
SERVING = 1
STATES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


async def check(host: str, port: int, service: str) -> str | None:
    """The problem in words, or None when the service is SERVING."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(PREFACE + _frame(SETTINGS, 0, 0, b"") + _call(host, port, service))
        return await _answer(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(Exception):   # how the connection ends does not matter to a probe
            await writer.wait_closed()


def _call(host: str, port: int, service: str) -> bytes:
    name = service.encode()
    message = b"\x0a" + _varint(len(name)) + name if name else b""
    headers = [(":method", "POST"), (":scheme", "http"), (":path", "/grpc.health.v1.Health/Check"),
               (":authority", f"{host}:{port}"), ("content-type", "application/grpc"), ("te", "trailers"),
               ("user-agent", "kube-probe/1.34")]
    body = struct.pack(">BI", 0, len(message)) + message
    return _frame(HEADERS, END_HEADERS, 1, hpack.Encoder().encode(headers)) + _frame(DATA, END_STREAM, 1, body)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str | None:
    decoder, body, seen = hpack.Decoder(), b"", {}
    while True:
        head = await reader.readexactly(9)
        size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        payload = await reader.readexactly(size)
        if kind == SETTINGS and not flags & ACK:
            writer.write(_frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            writer.write(_frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            return "the server closed the connection"
        elif kind == DATA:
            body += _unpadded(payload, flags)
        elif kind == HEADERS:
            seen.update(dict(decoder.decode(_unpadded(payload, flags)[5 if flags & PRIORITY else 0:])))
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            return _verdict(seen, body)


def _verdict(headers: dict[str, str], body: bytes) -> str | None:
    if headers.get("grpc-status", "") != "0":
        return f"gRPC status {headers.get('grpc-status', 'missing')}: {headers.get('grpc-message', '')}".rstrip(": ")
    message = body[5:]
    state = message[1] if len(message) >= 2 and message[0] == 0x08 else 0
    return None if state == SERVING else f"service is {STATES.get(state, state)}"


def _unpadded(payload: bytes, flags: int) -> bytes:
    return payload[1:len(payload) - payload[0]] if flags & PADDED else payload


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return out + bytes((number,))
