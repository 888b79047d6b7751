"""An object store for tests: ranges, S3, GCS, Azure and Hugging Face listings, a registry, and every fault that a network has."""
import base64
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

PIECE = 256 << 10


@dataclass
class Store:
    """What it holds, how it misbehaves, and what it was asked."""

    objects: dict[str, bytes] = field(default_factory=dict)          # path -> content
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)   # path -> fixed answer
    cut_after: int | None = None          # bytes of a body, then the connection breaks
    cuts_left: int = 0
    stall_after: int | None = None
    stalls_left: int = 0
    pause: float = 0.0                    # seconds between any two pieces of a body
    busy_left: int = 0                    # answers 503
    lives: int | None = None              # requests, then it only ever answers 503
    region: str = ""                      # of S3: whoever signs for another is told
    ranges: bool = True
    md5_etags: bool = True
    corrupt: bool = False
    page: int = 1000
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    peers: set[Any] = field(default_factory=set)   # where connections came from
    statuses: Counter[int] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""
    released: threading.Event = field(default_factory=threading.Event)

    def etag(self, content: bytes) -> str:
        digest = hashlib.md5(content).hexdigest()
        return digest if self.md5_etags else f"{digest}-2"

    def take(self, name: str) -> bool:
        """One fault, if any are left."""
        with self.lock:
            left = getattr(self, name)
            setattr(self, name, max(0, left - 1))
            return bool(left)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: Store

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        store, parts = self.store, urlsplit(self.path)
        store.peers.add(self.client_address)
        store.asked.append((self.command, self.path, dict(self.headers)))
        path = self.path if self.path.startswith("http://") else unquote(parts.path)
        if store.take("busy_left") or (store.lives is not None and len(store.asked) > store.lives):
            return self.answer(503, {}, b"busy")
        if store.region and f"/{store.region}/" not in self.headers.get("Authorization", ""):
            return self.answer(301, {"x-amz-bucket-region": store.region, "Content-Type": "application/xml"}, b"<Error/>")
        if path in store.answers:
            return self.answer(*store.answers[path])
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        if "list-type" in query:
            return self.answer(200, {"Content-Type": "application/xml"}, s3_listing(store, path, query))
        if query.get("comp") == "list":
            return self.answer(200, {"Content-Type": "application/xml"}, azure_listing(store, path, query))
        if path.startswith("/storage/v1/b/") and path.endswith("/o"):
            return self.answer(200, {"Content-Type": "application/json"}, gcs_listing(store, path.split("/")[4], query))
        if path.startswith("/storage/v1/b/"):
            path = "/" + path.split("/", 4)[4].replace("/o/", "/", 1)
        if path not in store.objects:
            return self.answer(404, {"Content-Type": "text/plain"}, b"no such thing")
        return self.give(store.objects[path])

    do_POST = do_GET
    do_PUT = do_GET
    do_HEAD = do_GET

    def give(self, content: bytes) -> None:
        store, wanted = self.store, self.headers.get("Range")
        status, body, headers = (
            200,
            content,
            {"ETag": f'"{store.etag(content)}"', "Content-Type": "application/octet-stream", **store.headers},
        )
        if wanted and store.ranges:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) + 1 if last else len(content), len(content))
            if start >= len(content):
                self.answer(416, {}, b"")
                return
            status, body = 206, content[start:end]
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
        if store.corrupt:
            body = bytes(len(body))
        self.answer(status, headers, body)

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        store = self.store
        store.statuses[status] += 1
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if store.stall_after is not None and len(body) > store.stall_after and store.take("stalls_left"):
            self.wfile.write(body[:store.stall_after])
            self.wfile.flush()
            store.released.wait(20)
            self.close_connection = True
        elif store.cut_after is not None and len(body) > store.cut_after and store.take("cuts_left"):
            self.wfile.write(body[:store.cut_after])
            self.wfile.flush()
            self.connection.shutdown(2)
            self.close_connection = True
        elif store.pause:
            for at in range(0, len(body), PIECE):
                self.wfile.write(body[at:at + PIECE])
                store.released.wait(store.pause)
        else:
            self.wfile.write(body)


def s3_listing(store: Store, bucket: str, query: dict[str, str]) -> bytes:
    names = sorted(path for path in store.objects if path.startswith(bucket.rstrip("/") + "/" + query["prefix"]))
    start = int(query.get("continuation-token", 0))
    rows = ""
    for name in names[start : start + store.page]:
        content = store.objects[name]
        rows += f"<Contents><Key>{name.split('/', 2)[2]}</Key><Size>{len(content)}</Size>"
        rows += f"<ETag>&quot;{store.etag(content)}&quot;</ETag></Contents>"
    more = f"<NextContinuationToken>{start + store.page}</NextContinuationToken>" if start + store.page < len(names) else ""
    namespace = "http://s3.amazonaws.com/doc/2006-03-01/"
    return f'<?xml version="1.0"?><ListBucketResult xmlns="{namespace}">{rows}{more}</ListBucketResult>'.encode()


def hub(store: Store, repository: str, commit: str, files: dict[str, bytes], large: set[str]) -> None:
    """A repository of Hugging Face's: small files by the hub itself, large ones by another host that a redirect names.

    `test_storage_servers` has the official client read from here, so that this is known to be what a hub does.
    """
    kind, other = {"Content-Type": "application/json"}, store.url.replace("127.0.0.1", "localhost")
    model = {"id": repository, "sha": commit, "private": False, "tags": [], "siblings": [{"rfilename": name} for name in files]}
    entries: list[dict[str, Any]] = [{"type": "directory", "path": folder, "oid": "0" * 40, "size": 0}
                                     for folder in sorted({name.rpartition("/")[0] for name in files} - {""})]
    for name, content in files.items():
        git, digest = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest(), hashlib.sha256(content).hexdigest()
        entry: dict[str, Any] = {"type": "file", "path": name, "size": len(content), "oid": git}
        path, named = f"/{repository}/resolve/{commit}/{name}", {"X-Repo-Commit": commit, "ETag": f'"{git}"'}
        if name in large:
            entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 134}
            store.objects[f"/cdn/{digest}"] = content
            store.answers[path] = (302, {**named, "X-Linked-Size": str(len(content)), "X-Linked-ETag": f'"{digest}"',
                                         "Location": f"{other}/cdn/{digest}"}, b"")
        else:
            store.answers[path] = (200, {**named, "Content-Type": "text/plain; charset=utf-8"}, content)
        entries.append(entry)
    for revision in ("main", commit):
        store.answers[f"/api/models/{repository}/revision/{revision}"] = (200, kind, json.dumps(model).encode())
        store.answers[f"/api/models/{repository}/tree/{revision}"] = (200, kind, json.dumps(entries).encode())


def azure_listing(store: Store, container: str, query: dict[str, str]) -> bytes:
    rows = ""
    for name, content in sorted(store.objects.items()):
        if name.startswith(f"{container}/{query['prefix']}"):
            digest = base64.b64encode(hashlib.md5(content).digest()).decode()
            rows += f"<Blob><Name>{name.split('/', 2)[2]}</Name><Properties><Content-Length>{len(content)}</Content-Length>"
            rows += f"<Etag>{store.etag(content)}</Etag><Content-MD5>{digest}</Content-MD5></Properties></Blob>"
    return f'<?xml version="1.0"?><EnumerationResults><Blobs>{rows}</Blobs><NextMarker/></EnumerationResults>'.encode()


def gcs_listing(store: Store, bucket: str, query: dict[str, str]) -> bytes:
    items = [
        {
            "name": name.split("/", 2)[2],
            "size": str(len(content)),
            "generation": "1",
            "md5Hash": base64.b64encode(hashlib.md5(content).digest()).decode(),
        }
        for name, content in sorted(store.objects.items())
        if name.startswith(f"/{bucket}/{query['prefix']}")
    ]
    return json.dumps({"items": items}).encode()


@contextmanager
def running(store: Store) -> Iterator[Store]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"store": store}))
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]   # clients that hang up are what this is for
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    store.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield store
    finally:
        store.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
