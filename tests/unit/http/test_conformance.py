"""RFC 9110 and 9112, row by row: what is sent, what must come back, and by which section."""
from typing import NamedTuple

import msgspec
import pytest

from serveplane.http import Limits, Request, Response
from tests.unit.http.wires import echo, serving, wire


class Row(NamedTuple):
    section: str
    sent: bytes
    status: int


H = b"Host: a\r\n"
P = b"POST / HTTP/1.1\r\n" + H
C = P + b"Transfer-Encoding: chunked\r\n\r\n"
REFUSED = {
    # framing that can be read in two ways
    "length and chunked": Row("9112 6.1", P + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "two lengths, same": Row("9112 6.3", P + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400),
    "two lengths, different": Row("9112 6.3", P + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400),
    "length list": Row("9110 8.6", P + b"Content-Length: 5, 5\r\n\r\nhello", 400),
    "length with sign": Row("9110 8.6", P + b"Content-Length: +5\r\n\r\nhello", 400),
    "length negative": Row("9110 8.6", P + b"Content-Length: -5\r\n\r\nhello", 400),
    "length hexadecimal": Row("9110 8.6", P + b"Content-Length: 0x5\r\n\r\nhello", 400),
    "length empty": Row("9110 8.6", P + b"Content-Length: \r\n\r\n", 400),
    "length with underscore": Row("9110 8.6", P + b"Content-Length: 1_0\r\n\r\n", 400),
    "length enormous": Row("9110 8.6", P + b"Content-Length: 99999999999999999999999\r\n\r\n", 400),
    "length in the underscore spelling": Row("9112 6.1", P + b"Content_Length: 5\r\n\r\nhello", 400),
    "chunked in 1.0": Row("9112 6.1", b"POST / HTTP/1.0\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunked twice": Row("9112 6.1", P + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400),
    "two codings in two fields": Row("9112 6.1", P + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "coding unknown": Row("9112 6.1", P + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
    "coding identity": Row("9112 6.1", P + b"Transfer-Encoding: identity\r\n\r\n", 400),
    "coding before chunked": Row("9112 6.1", P + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "chunked not last": Row("9112 6.1", P + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400),
    "chunked with a control byte": Row("9112 6.1", P + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    "connect with a body": Row("9110 9.3.6", b"CONNECT a:1 HTTP/1.1\r\n" + H + b"Content-Length: 5\r\n\r\nhello", 400),
    # lines
    "bare LF everywhere": Row("9112 2.2", b"GET / HTTP/1.1\nHost: a\n\n", 400),
    "bare LF after the request line": Row("9112 2.2", b"GET / HTTP/1.1\nHost: a\r\n\r\n", 400),
    "bare LF in the fields": Row("9112 2.2", b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400),
    "bare CR in a value": Row("9112 2.2", b"GET / HTTP/1.1\r\n" + H + b"X: a\rb\r\n\r\n", 400),
    "bare CR before the end": Row("9112 2.2", b"GET / HTTP/1.1\r\n" + H + b"X: a\r\r\n\r\n", 400),
    "folded field": Row("9112 5.2", b"GET / HTTP/1.1\r\n" + H + b"X: a\r\n b\r\n\r\n", 400),
    "folded with tab": Row("9112 5.2", b"GET / HTTP/1.1\r\n" + H + b"X: a\r\n\tb\r\n\r\n", 400),
    "blank before the first field": Row("9112 2.2", b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
    "two blank lines first": Row("9112 2.2", b"\r\n\r\nGET / HTTP/1.1\r\n" + H + b"\r\n", 400),
    # fields
    "blank before the colon": Row("9112 5.1", b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
    "tab before the colon": Row("9112 5.1", P + b"Content-Length\t: 5\r\n\r\nhello", 400),
    "no colon": Row("9112 5", b"GET / HTTP/1.1\r\n" + H + b"nonsense\r\n\r\n", 400),
    "no name": Row("9112 5", b"GET / HTTP/1.1\r\n" + H + b": value\r\n\r\n", 400),
    "name with a blank": Row("9110 5.1", b"GET / HTTP/1.1\r\n" + H + b"X Y: z\r\n\r\n", 400),
    "name not ASCII": Row("9110 5.1", b"GET / HTTP/1.1\r\n" + H + b"X\xe9: z\r\n\r\n", 400),
    "NUL in a value": Row("9110 5.5", b"GET / HTTP/1.1\r\n" + H + b"X: a\x00b\r\n\r\n", 400),
    "control in a value": Row("9110 5.5", b"GET / HTTP/1.1\r\n" + H + b"X: a\x01b\r\n\r\n", 400),
    "DEL in a value": Row("9110 5.5", b"GET / HTTP/1.1\r\n" + H + b"X: a\x7fb\r\n\r\n", 400),
    # Host and target
    "no Host": Row("9112 3.2", b"GET / HTTP/1.1\r\n\r\n", 400),
    "two Hosts": Row("9112 3.2", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    "two Hosts, same": Row("9112 3.2", b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
    "Host empty": Row("9110 7.2", b"GET / HTTP/1.1\r\nHost: \r\n\r\n", 400),
    "Host with userinfo": Row("9110 7.2", b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400),
    "Host with a path": Row("9110 7.2", b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    "Host with a list": Row("9110 7.2", b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
    "Host with a bad port": Row("9110 7.2", b"GET / HTTP/1.1\r\nHost: a:x\r\n\r\n", 400),
    "target and Host differ": Row("9112 3.2.2", b"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "target with userinfo": Row("9110 4.2.4", b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "target of another scheme": Row("9112 3.2.2", b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "target with a fragment": Row("9112 3.2", b"GET /#x HTTP/1.1\r\n" + H + b"\r\n", 400),
    "target without a slash": Row("9112 3.2", b"GET x HTTP/1.1\r\n" + H + b"\r\n", 400),
    "target with a blank": Row("9112 3.2", b"GET /a b HTTP/1.1\r\n" + H + b"\r\n", 400),
    "target not ASCII": Row("9112 3.2", b"GET /\xc3\xa9 HTTP/1.1\r\n" + H + b"\r\n", 400),
    "asterisk for GET": Row("9112 3.2.4", b"GET * HTTP/1.1\r\n" + H + b"\r\n", 400),
    "connect without a port": Row("9112 3.2.3", b"CONNECT a HTTP/1.1\r\n" + H + b"\r\n", 400),
    "connect with a path": Row("9112 3.2.3", b"CONNECT /x HTTP/1.1\r\n" + H + b"\r\n", 400),
    # request line
    "no version": Row("9112 3", b"GET /\r\n" + H + b"\r\n", 400),
    "version 0.9": Row("9110 2.5", b"GET / HTTP/0.9\r\n" + H + b"\r\n", 505),
    "version 1.2": Row("9110 2.5", b"GET / HTTP/1.2\r\n" + H + b"\r\n", 505),
    "version 2.0": Row("9110 2.5", b"GET / HTTP/2.0\r\n" + H + b"\r\n", 505),
    "version in small letters": Row("9112 2.3", b"GET / http/1.1\r\n" + H + b"\r\n", 400),
    "version with two digits": Row("9112 2.3", b"GET / HTTP/1.10\r\n" + H + b"\r\n", 400),
    "two blanks": Row("9112 3", b"GET  / HTTP/1.1\r\n" + H + b"\r\n", 400),
    "tab instead of a blank": Row("9112 3", b"GET\t/ HTTP/1.1\r\n" + H + b"\r\n", 400),
    "blank after the version": Row("9112 3", b"GET / HTTP/1.1 \r\n" + H + b"\r\n", 400),
    "method unknown": Row("9110 9.1", b"BREW / HTTP/1.1\r\n" + H + b"\r\n", 501),
    "method in small letters": Row("9110 9.1", b"get / HTTP/1.1\r\n" + H + b"\r\n", 501),
    "TLS to a plain port": Row("9112 2.2", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "HTTP/2 where it is not passed on": Row("9113 3.4", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    # chunks
    "chunk size missing": Row("9112 7.1", C + b"\r\n", 400),
    "chunk size not hexadecimal": Row("9112 7.1", C + b"xyz\r\n", 400),
    "chunk size with sign": Row("9112 7.1", C + b"+5\r\nhello\r\n0\r\n\r\n", 400),
    "chunk size with 0x": Row("9112 7.1", C + b"0x5\r\nhello\r\n0\r\n\r\n", 400),
    "chunk size too large": Row("9112 7.1", C + b"ffffffffffffffff5\r\n", 400),
    "chunk with bare LF": Row("9112 7.1", C + b"5\nhello\r\n0\r\n\r\n", 400),
    "chunk data too long": Row("9112 7.1", C + b"3\r\nhello\r\n0\r\n\r\n", 400),
    "chunk data ends with LF": Row("9112 7.1", C + b"5\r\nhello\n0\r\n\r\n", 400),
    "chunk extension with LF": Row("9112 7.1.1", C + b"5;a\nb\r\nhello\r\n0\r\n\r\n", 400),
    "trailer folded": Row("9112 7.1.2", C + b"0\r\nX: y\r\n z\r\n\r\n", 400),
    "trailer without a colon": Row("9112 7.1.2", C + b"0\r\nnonsense\r\n\r\n", 400),
    # sizes
    "target too long": Row("9110 15.5.15", b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n" + H + b"\r\n", 414),
    "target too long, unfinished": Row("9110 15.5.15", b"GET /" + b"a" * 20_000, 414),
    "too many fields": Row("6585 5", b"GET / HTTP/1.1\r\n" + H + b"X: y\r\n" * 200 + b"\r\n", 431),
    "fields too long": Row("6585 5", b"GET / HTTP/1.1\r\n" + H + b"X: " + b"y" * 70_000 + b"\r\n\r\n", 431),
    "fields too long, unfinished": Row("6585 5", b"GET / HTTP/1.1\r\n" + H + b"X: " + b"y" * 70_000, 431),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused_and_closed(name: str) -> None:
    row = REFUSED[name]
    seen: list[Request] = []

    async def handler(request: Request) -> Response:
        await request.read()
        seen.append(request)
        return Response(200)
    async with serving(handler) as server, wire(server) as client:
        await client.send(row.sent)
        reply = await client.rest()
    assert int(reply.split(b" ", 2)[1]) == row.status, (row.section, reply)
    assert b"Connection: close" in reply
    assert reply.count(b"HTTP/1.1 ") == 1
    assert not seen


ACCEPTED = {
    "the least": Row("9112 3", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200),
    "1.0 without Host": Row("9112 3.2", b"GET / HTTP/1.0\r\n\r\n", 200),
    "one blank line first": Row("9112 2.2", b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 200),
    "absolute target": Row("9112 3.2.2", b"GET http://a/x?y HTTP/1.1\r\nHost: a\r\n\r\n", 200),
    "asterisk": Row("9112 3.2.4", b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 200),
    "IPv6 Host": Row("9110 7.2", b"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 200),
    "empty value": Row("9110 5.5", b"GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n", 200),
    "blanks around a value": Row("9112 5.1", b"GET / HTTP/1.1\r\nHost: \t a \t\r\n\r\n", 200),
    "value beyond ASCII": Row("9110 5.5", b"GET / HTTP/1.1\r\nHost: a\r\nX: \xc3\xa9\r\n\r\n", 200),
    "repeated ordinary field": Row("9110 5.3", b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nX: 2\r\n\r\n", 200),
    "length zero": Row("9110 8.6", P + b"Content-Length: 0\r\n\r\n", 200),
    "length with leading zeros": Row("9110 8.6", P + b"Content-Length: 005\r\n\r\nhello", 200),
    "body of a GET": Row("9110 9.3.1", b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 200),
    "chunked": Row("9112 7.1", C + b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", 200),
    "CHUNKED": Row("9112 7.1", P + b"Transfer-Encoding: CHUNKED\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200),
    "chunk sizes with zeros and capitals": Row("9112 7.1", C + b"000A\r\n0123456789\r\n0\r\n\r\n", 200),
    "chunk extensions": Row("9112 7.1.1", C + b'5;a=b;c="d e";f\r\nhello\r\n0;x\r\n\r\n', 200),
    "trailers": Row("9112 7.1.2", C + b"5\r\nhello\r\n0\r\nX: y\r\n\r\n", 200),
    "ignored upgrade, with a body": Row("9110 7.8", P + b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nhello", 200),
    "an expectation unknown": Row("9110 10.1.1", P + b"Expect: something\r\nContent-Length: 5\r\n\r\nhello", 200),
}


@pytest.mark.parametrize("name", ACCEPTED)
async def test_accepted_and_in_step(name: str) -> None:
    """The answer is right, and so is the next one: the end of the message was found to the byte."""
    row = ACCEPTED[name]
    follow = b"GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    async with serving(echo) as server, wire(server) as client:
        await client.send(row.sent + (follow if b"HTTP/1.0" not in row.sent else b""))
        status, _, body = await client.response()
        assert status == row.status, row.section
        assert msgspec.json.decode(body)["body"] in ("", "hello", "0123456789")
        if b"HTTP/1.0" not in row.sent:
            assert msgspec.json.decode((await client.response())[2])["path"] == "/next"
        assert await client.rest() == b""


async def test_the_same_byte_by_byte() -> None:
    """How the network cuts a request up must not change what it means."""
    async with serving(echo, limits=Limits()) as server:
        for name in ("chunk extensions", "trailers", "length with leading zeros", "one blank line first"):
            async with wire(server) as client:
                for byte in ACCEPTED[name].sent:
                    client.writer.write(bytes([byte]))
                    await client.writer.drain()
                assert (await client.response())[0] == 200
