"""Hugging Face repositories: `hf://owner/model[:revision]`, pinned to a commit before the first byte is read."""
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urljoin

import msgspec

from serveplane.dataplane.storage.connection import Authorize, Connections, Headers, no_credentials
from serveplane.dataplane.storage.errors import StorageError
from serveplane.dataplane.storage.files import Checksum, Listing, Patterns, RemoteFile, checked
from serveplane.dataplane.storage.sources.trust import trust_from

_URI = re.compile(r"hf://([^/:]+)/([^/:]+)(?::(.+))?")
_NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')
_PAGE_BYTES = 32 << 20


def listing(uri: str, patterns: Patterns, environment: Mapping[str, str]) -> Listing:
    match = _URI.fullmatch(uri)
    if match is None:
        raise StorageError(f"{uri} is not of the form hf://owner/model[:revision]")
    owner, model, revision = match.groups()
    repository, trust = f"{owner}/{model}", trust_from(environment)
    endpoint = environment.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    authorize = _authorize(environment.get("HF_TOKEN") or environment.get("HUGGING_FACE_HUB_TOKEN") or "")
    connections = Connections(trust)
    try:
        commit = _commit(connections, f"{endpoint}/api/models/{repository}/revision/{quote(revision or 'main', safe='')}", authorize)
        files = list(_files(connections, endpoint, repository, commit, authorize))
    finally:
        connections.close()
    return Listing(checked(files, patterns, uri), authorize, trust, unpack=False)


def _authorize(token: str) -> Authorize:
    def with_token(method: str, url: str, headers: Headers) -> Headers:
        return {**headers, "Authorization": f"Bearer {token}"}
    return with_token if token else no_credentials


def _commit(connections: Connections, url: str, authorize: Authorize) -> str:
    try:
        commit = msgspec.json.decode(connections.get(url, authorize=authorize).read(_PAGE_BYTES), type=dict[str, Any])["sha"]
    except (msgspec.DecodeError, KeyError):
        raise StorageError("the hub's answer about the revision cannot be understood") from None
    if not isinstance(commit, str) or not re.fullmatch(r"[0-9a-f]{7,64}", commit):
        raise StorageError("the hub's answer names no commit")
    return commit


def _files(connections: Connections, endpoint: str, repository: str, commit: str, authorize: Authorize) -> Iterator[RemoteFile]:
    url = f"{endpoint}/api/models/{repository}/tree/{commit}?recursive=true"
    while url:
        response = connections.get(url, authorize=authorize)
        try:
            entries = msgspec.json.decode(response.read(_PAGE_BYTES), type=list[dict[str, Any]])
            yield from (_file(endpoint, repository, commit, entry) for entry in entries if entry["type"] == "file")
        except (msgspec.DecodeError, KeyError) as error:
            raise StorageError(f"the hub's listing cannot be understood: {error}") from None
        following = _NEXT.search(response.header("Link"))
        url = urljoin(url, following[1]) if following else ""


def _file(endpoint: str, repository: str, commit: str, entry: Mapping[str, Any]) -> RemoteFile:
    large = entry.get("lfs") or {}
    return RemoteFile(
        entry["path"],
        f"{endpoint}/{repository}/resolve/{commit}/{quote(entry['path'])}",
        int(large.get("size") or entry["size"]),
        version=str(large.get("oid") or entry.get("oid") or commit),
        checksum=Checksum("sha256", large["oid"]) if large.get("oid") else None,
    )
