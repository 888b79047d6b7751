"""A loopback server for `bench.storage`: files and S3 listings, sent by `sendfile` so that it is never what is measured.

usage: python -m bench.storage_server FOLDER PORT plain|md5        (what the ETags are)
"""
import hashlib
import os
import socket
import sys
import threading
import urllib.parse
from functools import cache

FOLDER, PORT, ETAGS = sys.argv[1], int(sys.argv[2]), sys.argv[3]
XML = '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><MaxKeys>9999</MaxKeys>'


@cache
def etag(bucket: str, name: str) -> str:
    if ETAGS == "plain":   # as a multipart upload has it: no checksum of the whole
        return "0123456789abcdef0123456789abcdef-2"
    with open(os.path.join(FOLDER, bucket, name), "rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def listing(bucket: str, prefix: str) -> bytes:
    rows = ""
    for name in sorted(os.listdir(os.path.join(FOLDER, bucket))):
        if name.startswith(prefix):
            size = os.path.getsize(os.path.join(FOLDER, bucket, name))
            rows += f"<Contents><Key>{name}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>{size}</Size>"
            rows += f"<ETag>&quot;{etag(bucket, name)}&quot;</ETag><StorageClass>STANDARD</StorageClass></Contents>"
    return f"{XML}<IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode()


def send_head(connection: socket.socket, status: str, length: int, *more: str) -> None:
    kind = "Content-Type: application/octet-stream"
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {length}", kind, "Accept-Ranges: bytes", *more]
    connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())


def answer(connection: socket.socket, request: str) -> None:
    line, *fields = request.split("\r\n")
    method, target, _ = line.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in fields)}
    path, _, query = target.partition("?")
    bucket, _, name = urllib.parse.unquote(path).strip("/").partition("/")
    if name:
        send_file(connection, method, bucket, name, headers.get("range", ""))
    elif method == "HEAD":
        send_head(connection, "200 OK", 0)
    else:
        body = listing(bucket, urllib.parse.parse_qs(query).get("prefix", [""])[0])
        send_head(connection, "200 OK", len(body))
        connection.sendall(body)


def send_file(connection: socket.socket, method: str, bucket: str, name: str, wanted: str) -> None:
    with open(os.path.join(FOLDER, bucket, name), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start, end, status = 0, size, "200 OK"
        more = [f'ETag: "{etag(bucket, name)}"', "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT"]
        if wanted:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end, status = int(first), min(size, int(last) + 1 if last else size), "206 Partial Content"
            more.append(f"Content-Range: bytes {start}-{end - 1}/{size}")
        send_head(connection, status, end - start, *more)
        while method != "HEAD" and start < end:
            start += os.sendfile(connection.fileno(), file.fileno(), start, end - start)


def serve(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    waiting = b""
    with connection:
        try:
            while True:
                while b"\r\n\r\n" not in waiting:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    waiting += piece
                request, _, waiting = waiting.partition(b"\r\n\r\n")
                answer(connection, request.decode("latin-1"))
        except OSError:
            return


def main() -> None:
    listener = socket.create_server(("127.0.0.1", PORT), backlog=256)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
