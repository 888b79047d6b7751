"""Azure blob containers: by shared access signature in the URL, account key, access token or service principal."""
import base64
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from serveplane import pod
from serveplane.clock import SYSTEM, Clock
from serveplane.dataplane.storage.connection import Authorize, Connections, Headers, Trust, no_credentials
from serveplane.dataplane.storage.errors import StorageError, shown
from serveplane.dataplane.storage.files import Checksum, Listing, Patterns, RemoteFile, below, checked
from serveplane.dataplane.storage.sources.tokens import Token, exchanged
from serveplane.dataplane.storage.sources.trust import trust_from

VERSION = "2021-08-06"
_PAGE_BYTES = 16 << 20


def listing(uri: str, patterns: Patterns, environment: Mapping[str, str]) -> Listing:
    parts = urlsplit(uri)
    container, _, prefix = unquote(parts.path.lstrip("/")).partition("/")
    account, trust = (parts.hostname or "").partition(".")[0], trust_from(environment)
    base = environment.get("AZURE_SERVICE_URL", "").rstrip("/") or f"https://{parts.netloc}"
    authorize = _authorize(account, parts.query, environment, trust)
    blobs = [_placed(blob, prefix) for blob in _blobs(f"{base}/{quote(container)}", prefix.strip("/"), parts.query, authorize, trust)]
    found = checked([blob for blob in blobs if blob is not None], patterns, shown(uri))
    return Listing(found, authorize, trust, {"x-ms-version": VERSION})


def _authorize(account: str, signature: str, environment: Mapping[str, str], trust: Trust) -> Authorize:
    get = environment.get
    if "sig=" in signature:
        return no_credentials   # it is in the URL already
    if key := get("AZURE_STORAGE_ACCESS_KEY"):
        return SharedKey(account, key)
    if token := get("AZURE_ACCESS_TOKEN"):
        return lambda method, url, headers: {**headers, "Authorization": f"Bearer {token}"}
    tenant, client = get("AZ_TENANT_ID") or get("AZURE_TENANT_ID"), get("AZ_CLIENT_ID") or get("AZURE_CLIENT_ID")
    if tenant and client:
        return Token(lambda: _principal_token(tenant, client, environment, trust))
    return no_credentials


class SharedKey:
    """Azure's Shared Key scheme for reads: date, version, resource and query are signed with the account's key."""

    def __init__(self, account: str, key: str, clock: Clock = SYSTEM) -> None:
        self._account, self._clock = account, clock
        try:
            self._key = base64.b64decode(key, validate=True)
        except ValueError:
            raise StorageError("AZURE_STORAGE_ACCESS_KEY is not base64") from None

    def __call__(self, method: str, url: str, headers: Headers) -> Headers:
        own = {"x-ms-date": format_datetime(self._clock.now(), usegmt=True), "x-ms-version": VERSION}
        parts = urlsplit(url)
        resource = f"/{self._account}{parts.path}" + "".join(
            f"\n{name.casefold()}:{value}" for name, value in sorted(parse_qsl(parts.query))
        )
        listed = "".join(f"{name}:{value}\n" for name, value in sorted(own.items()))
        # Eleven standard headers come first, empty but for the range; the date travels as x-ms-date.
        standard = "\n".join([method, *[""] * 10, headers.get("Range", "")])
        signature = base64.b64encode(hmac.digest(self._key, f"{standard}\n{listed}{resource}".encode(), hashlib.sha256)).decode()
        return {**headers, **own, "Authorization": f"SharedKey {self._account}:{signature}"}


def _principal_token(tenant: str, client: str, environment: Mapping[str, str], trust: Trust) -> tuple[str, float]:
    """By secret, or by the token that workload identity mounts."""
    host = environment.get("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com").rstrip("/")
    form = {"grant_type": "client_credentials", "client_id": client, "scope": "https://storage.azure.com/.default"}
    secret = environment.get("AZ_CLIENT_SECRET") or environment.get("AZURE_CLIENT_SECRET")
    if secret:
        form["client_secret"] = secret
    elif file := environment.get("AZURE_FEDERATED_TOKEN_FILE"):
        form |= {"client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                 "client_assertion": Path(pod.real_path(file)).read_text().strip()}
    else:
        raise StorageError("AZURE_CLIENT_ID is set, but neither AZURE_CLIENT_SECRET nor AZURE_FEDERATED_TOKEN_FILE")
    return exchanged(f"{host}/{quote(tenant)}/oauth2/v2.0/token", form, trust)


def _blobs(base: str, prefix: str, signature: str, authorize: Authorize, trust: Trust) -> Iterator[RemoteFile]:
    import xml.etree.ElementTree as ElementTree
    connections, marker = Connections(trust), ""
    try:
        while True:
            query = {"restype": "container", "comp": "list", "prefix": prefix, **({"marker": marker} if marker else {})}
            url = f"{base}?{urlencode(query)}" + (f"&{signature}" if signature else "")
            try:
                page = ElementTree.fromstring(connections.get(url, {"x-ms-version": VERSION}, authorize).read(_PAGE_BYTES))
            except ElementTree.ParseError as error:
                raise StorageError(f"the listing of the container is not XML: {error}") from error
            for found in page.iterfind("Blobs/Blob"):
                if (blob := _blob(base, found, signature)) is not None:
                    yield blob
            marker = page.findtext("NextMarker") or ""
            if not marker:
                return
    finally:
        connections.close()


def _blob(base: str, found: Any, signature: str) -> RemoteFile | None:
    name, size = found.findtext("Name") or "", int(found.findtext("Properties/Content-Length") or 0)
    if size == 0 or name.endswith("/"):
        return None
    digest, etag = found.findtext("Properties/Content-MD5") or "", (found.findtext("Properties/Etag") or "").strip('"')
    url = f"{base}/{quote(name, safe='/~')}" + (f"?{signature}" if signature else "")
    return RemoteFile(name, url, size, etag=etag, checksum=Checksum("md5", base64.b64decode(digest).hex()) if digest else None)


def _placed(blob: RemoteFile, prefix: str) -> RemoteFile | None:
    path = below(blob.path, prefix)
    return None if path is None else RemoteFile(path, blob.url, blob.size, etag=blob.etag, checksum=blob.checksum)
