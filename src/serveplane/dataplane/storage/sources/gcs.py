"""Google Cloud Storage. Without credentials public buckets are read anonymously; a node's own identity is tried when that is not enough."""
import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from serveplane import pod
from serveplane.clock import SYSTEM, Clock
from serveplane.dataplane.storage.connection import Authorize, Connections, Trust, no_credentials
from serveplane.dataplane.storage.errors import Forbidden, NotFound, StorageError
from serveplane.dataplane.storage.files import Checksum, Listing, Patterns, RemoteFile, below, checked
from serveplane.dataplane.storage.sources.tokens import Token, exchanged, token_of
from serveplane.dataplane.storage.sources.trust import trust_from

ENDPOINT = "https://storage.googleapis.com"
SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"
METADATA = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"
_PAGE_BYTES = 16 << 20


def listing(uri: str, patterns: Patterns, environment: Mapping[str, str]) -> Listing:
    bucket, _, prefix = uri.removeprefix("gs://").partition("/")
    if not bucket:
        raise StorageError(f"{uri} names no bucket")
    trust, endpoint = trust_from(environment), environment.get("STORAGE_EMULATOR_HOST", ENDPOINT).rstrip("/")
    endpoint = endpoint if "://" in endpoint else f"http://{endpoint}"
    authorize, objects = _listed(endpoint, bucket, prefix.strip("/"), environment, trust)
    exact = [file for file in objects if file.path == prefix]
    below_it = [placed for file in objects if file not in exact and (placed := _placed(file, prefix)) is not None]
    if below_it or not exact:
        return Listing(checked(below_it, patterns, uri), authorize, trust)
    single = [placed for file in exact if (placed := _placed(file, prefix)) is not None]   # asked for by name: no pattern hides it
    return Listing(checked(single, Patterns(), uri), authorize, trust)


def _listed(endpoint: str, bucket: str, prefix: str, environment: Mapping[str, str], trust: Trust) -> tuple[Authorize, list[RemoteFile]]:
    authorize = _from_file(environment, trust)
    if authorize is not None:
        return authorize, list(_objects(endpoint, bucket, prefix, authorize, trust))
    try:
        return no_credentials, list(_objects(endpoint, bucket, prefix, no_credentials, trust))
    except (Forbidden, NotFound):
        token = Token(_node_token)
        if not token.works():
            raise
        return token, list(_objects(endpoint, bucket, prefix, token, trust))


def _from_file(environment: Mapping[str, str], trust: Trust) -> Authorize | None:
    name = environment.get("GOOGLE_APPLICATION_CREDENTIALS", "")
    if not name:
        return None
    path = Path(pod.real_path(name))
    try:
        secret = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        raise StorageError(f"the credentials file {name} cannot be read") from None
    if secret.get("type") == "service_account":
        return Token(lambda: _service_account_token(secret, trust, SYSTEM))
    if secret.get("type") == "authorized_user":
        return Token(lambda: exchanged(secret.get("token_uri", "https://oauth2.googleapis.com/token"), {
            "grant_type": "refresh_token", **{key: secret[key] for key in ("client_id", "client_secret", "refresh_token")}}, trust))
    raise StorageError(f"the credentials file {name} is of type {secret.get('type')!r}; service_account and authorized_user are known")


def _service_account_token(secret: Mapping[str, Any], trust: Trust, clock: Clock) -> tuple[str, float]:
    """A signed statement of who we are, exchanged for a token (RFC 7523)."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
    now, address = int(clock.now().timestamp()), secret.get("token_uri", "https://oauth2.googleapis.com/token")
    claims = {"iss": secret["client_email"], "scope": SCOPE, "aud": address, "iat": now, "exp": now + 3600}
    text = b".".join(_base64url(msgspec.json.encode(part)) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    key = serialization.load_pem_private_key(secret["private_key"].encode(), None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise StorageError("the service account's key is no RSA key")
    signed = text + b"." + _base64url(key.sign(text, padding.PKCS1v15(), hashes.SHA256()))
    return exchanged(address, {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": signed.decode()}, trust)


def _node_token() -> tuple[str, float]:
    return token_of(Connections(timeout=2.0).get(METADATA, {"Metadata-Flavor": "Google"}).read(1 << 20))


def _base64url(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def _objects(endpoint: str, bucket: str, prefix: str, authorize: Authorize, trust: Trust) -> Iterator[RemoteFile]:
    connections, page = Connections(trust), ""
    try:
        while True:
            query = {
                "prefix": prefix,
                "fields": "items(name,size,md5Hash,generation),nextPageToken",
                **({"pageToken": page} if page else {}),
            }
            answer = connections.get(
                f"{endpoint}/storage/v1/b/{quote(bucket, safe='')}/o?{urlencode(query)}", authorize=authorize
            ).read(_PAGE_BYTES)
            found = msgspec.json.decode(answer, type=dict[str, Any])
            for item in found.get("items", ()):
                if not item["name"].endswith("/"):
                    yield _file(endpoint, bucket, item)
            page = found.get("nextPageToken", "")
            if not page:
                return
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise StorageError(f"the listing of the bucket cannot be understood: {error}") from error
    finally:
        connections.close()


def _file(endpoint: str, bucket: str, item: Mapping[str, Any]) -> RemoteFile:
    generation, digest = str(item.get("generation", "")), item.get("md5Hash")
    url = f"{endpoint}/storage/v1/b/{quote(bucket, safe='')}/o/{quote(item['name'], safe='')}?alt=media"
    return RemoteFile(item["name"], url + (f"&generation={generation}" if generation else ""), int(item.get("size", 0)), version=generation,
                      checksum=Checksum("md5", base64.b64decode(digest).hex()) if digest else None)


def _placed(file: RemoteFile, prefix: str) -> RemoteFile | None:
    path = below(file.path, prefix)
    return None if path is None else RemoteFile(path, file.url, file.size, version=file.version, checksum=file.checksum)
