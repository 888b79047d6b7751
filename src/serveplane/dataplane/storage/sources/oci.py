"""Models in container images (`oci://`, which the webhook makes of `oci+fetch://`): the folder /models of all layers.

Blobs are addressed by their SHA-256, so every byte is verified.
"""
import base64
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from serveplane import pod
from serveplane.dataplane.storage.connection import Connections, Headers, Response, Trust
from serveplane.dataplane.storage.errors import Forbidden, StorageError, refusal
from serveplane.dataplane.storage.files import Checksum, Listing, Patterns, RemoteFile
from serveplane.dataplane.storage.sources.trust import trust_from

MODELS = "models"
CONFIG = "/mnt/oci-fetch-auth/config.json"
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_LAYERS = (
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
)
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_BYTES = 8 << 20


class Image(NamedTuple):
    registry: str
    repository: str
    reference: str


def parse(uri: str) -> Image:
    """
    >>> parse("oci://ghcr.io/me/iris:v1"), parse("oci://localhost:5000/iris")
    (Image(registry='ghcr.io', repository='me/iris', reference='v1'), Image(registry='localhost:5000',
    repository='iris', reference='latest'))
    """
    registry, slash, rest = uri.removeprefix("oci+fetch://").removeprefix("oci://").partition("/")
    if not slash or not rest or ("." not in registry and ":" not in registry and registry != "localhost"):
        raise StorageError(f"{uri} is not of the form oci://registry/repository[:tag|@digest]")
    repository, at, digest = rest.partition("@")
    if at:
        return Image(registry, repository.partition(":")[0], digest)
    repository, _, tag = rest.partition(":")
    return Image("registry-1.docker.io" if registry == "docker.io" else registry, repository, tag or "latest")


def listing(uri: str, patterns: Patterns, environment: Mapping[str, str]) -> Listing:
    image, trust = parse(uri), trust_from(environment)
    insecure = environment.get("KSERVE_OCI_INSECURE_REGISTRY", "").strip().casefold() in ("1", "true", "yes")
    registry = Registry(image, "http" if insecure else "https", trust, _docker_login(image.registry, environment))
    layers = [layer for layer in registry.manifest(image.reference).get("layers", []) if _is_tar(layer)]
    if not layers:
        raise StorageError(f"{uri} has no layers that could hold a model")
    files = tuple(RemoteFile(f"layer-{number}", registry.blob(layer["digest"]), int(layer["size"]), version=layer["digest"],
                             checksum=Checksum("sha256", layer["digest"].partition(":")[2])) for number, layer in enumerate(layers))
    return Listing(files, registry.authorize, trust, layers=MODELS)


class Registry:
    """One repository of a registry, and the token it wants."""

    def __init__(self, image: Image, scheme: str, trust: Trust, login: str) -> None:
        self._image, self._trust, self._login = image, trust, login
        self._base = f"{scheme}://{image.registry}/v2/{image.repository}"
        self._authorization = f"Basic {login}" if login else ""
        self._connections = Connections(trust)

    def authorize(self, method: str, url: str, headers: Headers) -> Headers:
        return {**headers, "Authorization": self._authorization} if self._authorization else headers

    def blob(self, digest: str) -> str:
        if not _DIGEST.fullmatch(digest):
            raise StorageError(f"{digest[:80]!r} is not a SHA-256 digest")
        return f"{self._base}/blobs/{digest}"

    def manifest(self, reference: str) -> dict[str, Any]:
        """The image's manifest; from an index that of this machine's architecture."""
        found = self._json(f"{self._base}/manifests/{reference}")
        if found.get("mediaType") not in _INDEXES and "manifests" not in found:
            return found
        machine = _MACHINES.get(platform.machine(), platform.machine())
        for entry in found.get("manifests", []):
            where = entry.get("platform", {})
            if (where.get("os"), where.get("architecture")) == ("linux", machine):
                return self._json(f"{self._base}/manifests/{entry['digest']}")
        raise StorageError(f"the image has no variant for linux/{machine}")

    def _json(self, url: str) -> dict[str, Any]:
        accept = {"Accept": ", ".join((*_INDEXES, *_MANIFESTS))}
        response = self._connections.get(url, accept, self.authorize, accept=(200, 401))
        if response.status == 401:
            self._authorization = self._token(response)
            response = self._connections.get(url, accept, self.authorize)
        try:
            return msgspec.json.decode(response.read(_BYTES), type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise StorageError(f"the registry's manifest cannot be understood: {error}") from None

    def _token(self, response: Response) -> str:
        """What the registry's challenge asks for: a token from elsewhere, got with our login or anonymously."""
        scheme, _, rest = response.header("WWW-Authenticate").partition(" ")
        response.read(_BYTES)
        challenge = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        if scheme.casefold() != "bearer" or "realm" not in challenge:
            raise refusal(401, response.url)
        query = {key: challenge[key] for key in ("service", "scope") if key in challenge}
        headers = {"Authorization": f"Basic {self._login}"} if self._login else {}
        answer = Connections(self._trust).get(f"{challenge['realm']}?{urlencode(query)}", headers).read(_BYTES)
        found = msgspec.json.decode(answer, type=dict[str, Any])
        token = found.get("token") or found.get("access_token")
        if not token:
            raise Forbidden("the registry's token service gave no token")
        return f"Bearer {token}"


def _is_tar(layer: Mapping[str, Any]) -> bool:
    kind = str(layer.get("mediaType", ""))
    if kind.endswith("+zstd"):
        raise StorageError("the image has zstd-compressed layers, which cannot be unpacked here; build it with gzip layers")
    return kind in _LAYERS


def _docker_login(registry: str, environment: Mapping[str, str]) -> str:
    """The base64 login for a registry in Docker's config file; "" reads anonymously."""
    path = Path(pod.real_path(environment.get("KSERVE_OCI_DOCKER_CONFIG", CONFIG)))
    try:
        logins = msgspec.json.decode(path.read_bytes(), type=dict[str, Any]).get("auths", {})
    except (OSError, msgspec.DecodeError):
        return ""
    hub = ("https://index.docker.io/v1/",) if registry == "registry-1.docker.io" else ()
    for name in (registry, f"https://{registry}", registry.partition(":")[0], *hub):
        login = logins.get(name) if isinstance(logins, dict) else None
        if isinstance(login, dict) and isinstance(login.get("auth"), str):
            return str(login["auth"])
        if isinstance(login, dict) and "username" in login:
            return base64.b64encode(f"{login['username']}:{login.get('password', '')}".encode()).decode()
    return ""
