"""A WebSocket (RFC 6455) as a pipe of bytes: the server's half, without extensions.

Messages have no meaning of their own here, so fragments are handed on as they come.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence

from serveplane import http

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
FRAME_BYTES = 1 << 20
CONTROL_BYTES = 125
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
FIN, MASKED, LENGTH = 0x80, 0x80, 0x7F
NORMAL, PROTOCOL_ERROR, UNSUPPORTED, TOO_BIG = 1000, 1002, 1003, 1009


def agreed(headers: Mapping[str, str], protocols: Sequence[str]) -> dict[str, str] | None:
    """How to say yes to a client that asks for a WebSocket with one of the protocols; None if it cannot be."""
    key, wanted = headers.get("sec-websocket-key", ""), headers.get("sec-websocket-protocol", "")
    chosen = next((name for name in protocols if name in words(wanted)), None)
    if headers.get("sec-websocket-version") != "13" or not key or chosen is None:
        return None
    return {"Upgrade": "websocket", "Sec-WebSocket-Accept": accept_key(key), "Sec-WebSocket-Protocol": chosen}


def words(field: str) -> list[str]:
    """Of a header that lists them."""
    return [word.strip() for word in field.split(",")]


def accept_key(key: str) -> str:
    """What the server answers to a client's key, which proves that it means to speak WebSocket.

    >>> accept_key("dGhlIHNhbXBsZSBub25jZQ==")
    's3pPLMBiTxaQ9kYGzzhZRbK+xOo='
    """
    return base64.b64encode(hashlib.sha1(key.encode("latin-1") + GUID, usedforsecurity=False).digest()).decode()


class WebSocket:
    """Over a tunnel that has been upgraded."""

    def __init__(self, tunnel: http.Tunnel) -> None:
        self._tunnel = tunnel
        self._over = False
        self._whole = True
        """Whether the frame last read was the end of its message."""

    async def read(self) -> bytes:
        """The next bytes, or b"" once the peer has said that it closes."""
        while not self._over:
            opcode, payload = await self._frame()
            match opcode:
                case _ if opcode in (CONTINUATION, BINARY):
                    if payload:
                        return payload
                case _ if opcode == PING:
                    await self._send(PONG, payload)
                case _ if opcode == CLOSE:
                    await self._end(NORMAL)
                case _ if opcode != PONG:
                    await self._end(UNSUPPORTED)
        return b""

    async def message(self) -> bytes | None:
        """The next whole message, put together from its fragments, or None once the peer has said that it closes."""
        pieces, size = list[bytes](), 0
        while not self._over:
            opcode, payload = await self._frame()
            if opcode == PING:
                await self._send(PONG, payload)
            elif opcode == CLOSE:
                await self._end(NORMAL)
            elif opcode in (CONTINUATION, TEXT, BINARY):
                pieces.append(payload)
                size += len(payload)
                if size > FRAME_BYTES:
                    await self._end(TOO_BIG)
                elif self._whole:
                    return b"".join(pieces)
            elif opcode != PONG:
                await self._end(UNSUPPORTED)
        return None

    async def write(self, data: bytes) -> None:
        await self._send(BINARY, data)

    async def close(self) -> None:
        if not self._over:
            await self._end(NORMAL)

    async def _frame(self) -> tuple[int, bytes]:
        first, second = await self._tunnel.read_exactly(2)
        opcode, size = first & 0x0F, second & LENGTH
        if size >= 126:
            size = int.from_bytes(await self._tunnel.read_exactly(2 if size == 126 else 8), "big")
        if first & 0x70 or not second & MASKED or (opcode >= CLOSE and (size > CONTROL_BYTES or not first & FIN)):
            await self._end(PROTOCOL_ERROR)
            return PONG, b""
        if size > FRAME_BYTES:
            await self._end(TOO_BIG)
            return PONG, b""
        if opcode < CLOSE:
            self._whole = bool(first & FIN)
        mask = await self._tunnel.read_exactly(4)
        return opcode, unmasked(await self._tunnel.read_exactly(size), mask)

    async def _end(self, code: int) -> None:
        self._over = True
        await self._send(CLOSE, code.to_bytes(2, "big"))

    async def _send(self, opcode: int, payload: bytes) -> None:
        await self._tunnel.write(_head(opcode, len(payload)) + payload)


def _head(opcode: int, size: int) -> bytes:
    first = bytes([FIN | opcode])
    if size < 126:
        return first + bytes([size])
    return first + (b"\x7e" + size.to_bytes(2, "big") if size < 1 << 16 else b"\x7f" + size.to_bytes(8, "big"))


def unmasked(data: bytes, mask: bytes) -> bytes:
    """XOR with the repeated mask, as one big number: byte by byte would be a hundred times slower."""
    size = len(data)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
