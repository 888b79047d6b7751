"""A loopback server for `bench.storage`: files and S3 listings, as cheap as it gets, so that it is never what is measured.

usage: python -m bench.storage_server FOLDER PORT plain|md5 [FOLDER WITH cabundle.crt AND key]        (what the ETags are; TLS)

Two processes accept, as there are cores; files stay open and their heads ready. Bodies are sent by `sendfile`; through TLS, from a map
of the file.
"""
import hashlib
import mmap
import os
import re
import socket
import ssl
import sys
import threading
import urllib.parse
from dataclasses import dataclass
from functools import cache, cached_property

FOLDER, PORT, ETAGS = sys.argv[1], int(sys.argv[2]), sys.argv[3]
XML = '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><MaxKeys>9999</MaxKeys>'
RANGE = re.compile(rb"\r\nrange: *bytes=(\d+)-(\d*)", re.IGNORECASE)
PROCESSES = 2
RECORDS = 1 << 20


@dataclass(frozen=True)
class Served:
    """A file that stays open."""

    path: str
    descriptor: int
    size: int
    etag: str

    @cached_property
    def content(self) -> memoryview:
        return memoryview(mmap.mmap(self.descriptor, self.size, access=mmap.ACCESS_READ))


@cache
def served(bucket: str, name: str) -> Served:
    path = os.path.join(FOLDER, bucket, name)
    descriptor = os.open(path, os.O_RDONLY)
    if ETAGS == "plain":   # as a multipart upload has it: no checksum of the whole
        return Served(path, descriptor, os.fstat(descriptor).st_size, "0123456789abcdef0123456789abcdef-2")
    with open(path, "rb") as file:
        return Served(path, descriptor, os.fstat(descriptor).st_size, hashlib.file_digest(file, "md5").hexdigest())


@cache
def listing(bucket: str, prefix: str) -> bytes:
    rows = ""
    for name in sorted(os.listdir(os.path.join(FOLDER, bucket))):
        if name.startswith(prefix):
            file = served(bucket, name)
            rows += f"<Contents><Key>{name}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>{file.size}</Size>"
            rows += f"<ETag>&quot;{file.etag}&quot;</ETag><StorageClass>STANDARD</StorageClass></Contents>"
    return f"{XML}<IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode()


def head(status: str, length: int, more: str = "") -> bytes:
    kind = "Content-Type: application/octet-stream\r\nAccept-Ranges: bytes\r\n"
    return f"HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{kind}{more}\r\n".encode()


def answer(connection: socket.socket, request: bytes) -> None:
    method, target, _ = request.split(b" ", 2)
    path, _, query = target.decode().partition("?")
    bucket, _, name = urllib.parse.unquote(path).strip("/").partition("/")
    if name:
        send_file(connection, method == b"HEAD", served(bucket, name), RANGE.search(request))
    elif method == b"HEAD":
        connection.sendall(head("200 OK", 0))
    else:
        body = listing(bucket, urllib.parse.parse_qs(query).get("prefix", [""])[0])
        connection.sendall(head("200 OK", len(body)) + body)


def send_file(connection: socket.socket, head_only: bool, file: Served, wanted: re.Match[bytes] | None) -> None:
    start, end, status = 0, file.size, "200 OK"
    more = f'ETag: "{file.etag}"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n'
    if wanted:
        start, end = int(wanted[1]), min(file.size, int(wanted[2]) + 1 if wanted[2] else file.size)
        status, more = "206 Partial Content", f"{more}Content-Range: bytes {start}-{end - 1}/{file.size}\r\n"
    first = head(status, end - start, more)
    if head_only:
        connection.sendall(first)
    elif isinstance(connection, ssl.SSLSocket):
        connection.sendall(first)
        for at in range(start, end, RECORDS):
            connection.sendall(file.content[at:min(at + RECORDS, end)])
    else:
        connection.sendall(first, socket.MSG_MORE)
        while start < end:
            start += os.sendfile(connection.fileno(), file.descriptor, start, end - start)


def serve(connection: socket.socket, tls: ssl.SSLContext | None) -> None:
    waiting = b""
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = tls.wrap_socket(connection, server_side=True) if tls else connection
        with connection:
            while True:
                while b"\r\n\r\n" not in waiting:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    waiting += piece
                request, _, waiting = waiting.partition(b"\r\n\r\n")
                answer(connection, request)
    except OSError:
        return


def main() -> None:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", PORT))
    for bucket in os.listdir(FOLDER):   # checksums are ready before anybody measures
        listing(bucket, "")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if len(sys.argv) > 4 else None
    if tls:
        tls.load_cert_chain(f"{sys.argv[4]}/cabundle.crt", f"{sys.argv[4]}/key")
    listener.listen(256)
    parent = os.getpid()
    for _ in range(PROCESSES - 1):
        if os.fork() == 0:
            threading.Thread(target=end_with, args=(parent,), daemon=True).start()
            break
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0], tls), daemon=True).start()


def end_with(parent: int) -> None:
    """A child of a server that was killed ends too."""
    ended = threading.Event()
    while os.getppid() == parent:
        ended.wait(0.2)
    os._exit(0)


if __name__ == "__main__":
    main()
