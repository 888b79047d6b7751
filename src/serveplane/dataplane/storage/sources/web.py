"""http(s) addresses of one file, which may be an archive. Extra headers come from the environment as `<host>-headers`."""
import base64
import os
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import msgspec

from serveplane.dataplane.storage.archives import is_archive
from serveplane.dataplane.storage.connection import Connections, Response
from serveplane.dataplane.storage.errors import StorageError, shown
from serveplane.dataplane.storage.files import Checksum, Listing, Patterns, RemoteFile, checked
from serveplane.dataplane.storage.sources.trust import trust_from


def listing(uri: str, patterns: Patterns, environment: Mapping[str, str] = os.environ) -> Listing:
    """Asks for the first byte only: the answer says the size, whether parts can be had, and what it is."""
    trust, headers = trust_from(environment), headers_for(uri, environment)
    connections = Connections(trust)
    try:
        response = connections.get(uri, {**headers, "Range": "bytes=0-0"}, accept=(200, 206, 416))
        connections.forget(response)
    finally:
        connections.close()
    _refuse_pages(uri, response)
    file = RemoteFile(_name(uri), uri, _size(response), response.status == 206, response.header("ETag").strip('"'),
                      checksum=_checksum(response))
    return Listing(checked([file], patterns if not is_archive(file.path) else Patterns(), shown(uri)), trust=trust, headers=headers)


def headers_for(uri: str, environment: Mapping[str, str]) -> dict[str, str]:
    host = urlsplit(uri).hostname or ""
    text = environment.get(f"{host}-headers", "")
    try:
        return msgspec.json.decode(text, type=dict[str, str]) if text else {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise StorageError(f"the environment's {host}-headers is not a JSON object of texts") from None


def _name(uri: str) -> str:
    """The last part of the path; if that is no archive but the query ends in one (`download?file=m.zip`), the query's."""
    parts = urlsplit(uri)
    name = unquote(parts.path).rstrip("/").rpartition("/")[2]
    queried = unquote(parts.query).rpartition("/")[2].rpartition("=")[2]
    if is_archive(queried) and not is_archive(name):
        return queried
    if not name:
        raise StorageError(f"{shown(uri)} names no file")
    return name


def _size(response: Response) -> int | None:
    if response.status == 416:   # nothing to give a first byte of
        return 0
    if response.status == 206:
        total = response.header("Content-Range").rpartition("/")[2]
        return int(total) if total.isdigit() else None
    return response.length


def _checksum(response: Response) -> Checksum | None:
    """RFC 9530's digest of the whole file, where a server bothers."""
    for field in response.header("Repr-Digest").split(","):
        name, _, value = field.strip().partition("=")
        if name == "sha-256" and value.startswith(":"):
            return Checksum("sha256", base64.b64decode(value.strip(":")).hex())
    return None


def _refuse_pages(uri: str, response: Response) -> None:
    """A login or error page is not a model, however politely it is served."""
    kind = response.header("Content-Type").partition(";")[0].strip()
    if kind in ("text/html", "application/xhtml+xml"):
        raise StorageError(f"{shown(uri)} answered with a web page ({kind}) instead of a file")
