"""How to reach the API server: a kubeconfig file, or the files every pod is given.

Everything is read and checked here, so that a bad file gives one clear line at start and not a strange error at the first request.
"""

import base64
import binascii
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from serveplane import pod
from serveplane.http.connect import ProxyServer
from serveplane.http.origin import Origin
from serveplane.kube.credentials import Credentials, ExecCredentials, StaticToken, TokenFile
from serveplane.kube.errors import ConfigError
from serveplane.kube.pair import Pair, load_into
from serveplane.kube.proxies import proxy_for
from serveplane.objects import Json
from serveplane.objects.yamlio import load


@dataclass(frozen=True)
class ClusterConfig:
    """One API server and who we are there."""

    server: str
    namespace: str = "default"
    ca: bytes | None = None
    client_certificate: bytes | None = None
    client_key: bytes | None = None
    verify: bool = True
    server_name: str = ""
    proxy: ProxyServer | None = None
    credentials: Credentials | None = None
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers that ask to act as someone else."""
    source: str = ""
    """Where this was read, for messages."""

    def ssl_context(self, client_pair: tuple[bytes, bytes] | None = None) -> ssl.SSLContext | None:
        """TLS as configured, or None for plain http. A bad certificate is a `ConfigError` that names its origin."""
        if not self.server.startswith("https:"):
            return None
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if not self.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        elif self.ca:
            context = self._context_of_ca(self.ca)
        pair = client_pair or (
            (self.client_certificate, self.client_key) if self.client_certificate and self.client_key else None
        )
        if pair:
            self._load_pair(context, *pair)
        return context

    def _context_of_ca(self, ca: bytes) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cadata=ca.decode())
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                f"{self.source}: the certificate-authority data is not a PEM certificate ({error})"
            ) from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def _load_pair(self, context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
        try:
            load_into(context, Pair(certificate, key))
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(f"{self.source}: client certificate and key do not load ({error})") from None


def load_config(
    path: str | None = None, context: str | None = None, environment: Mapping[str, str] = os.environ
) -> ClusterConfig:
    """The explicit file, else KUBECONFIG, else the pod's own files, else ~/.kube/config: kubectl's order.

    The way there is through the file's own `proxy-url`, else through what HTTPS_PROXY and NO_PROXY say.
    """
    config = _found(path, context, environment)
    if config.proxy is not None:
        return config
    try:
        return replace(config, proxy=proxy_for(Origin.of(config.server), environment))
    except ValueError as error:
        raise ConfigError(f"HTTPS_PROXY or HTTP_PROXY: {error}") from None


def _found(path: str | None, context: str | None, environment: Mapping[str, str]) -> ClusterConfig:
    if path:
        return from_kubeconfig([Path(path)], context)
    if environment.get("KUBECONFIG"):
        return from_kubeconfig([Path(part) for part in environment["KUBECONFIG"].split(os.pathsep) if part], context)
    if is_in_cluster(environment) and not context:
        return in_cluster(environment)
    home = Path(environment.get("HOME") or "~").expanduser() / ".kube" / "config"
    if home.exists():
        return from_kubeconfig([home], context)
    raise ConfigError(
        "no cluster: set KUBECONFIG or pass --kubeconfig (there is no ~/.kube/config, and this is not a pod)"
    )


def is_in_cluster(environment: Mapping[str, str] = os.environ) -> bool:
    return bool(environment.get("KUBERNETES_SERVICE_HOST") and environment.get("KUBERNETES_SERVICE_PORT"))


def in_cluster(environment: Mapping[str, str] = os.environ) -> ClusterConfig:
    """The ServiceAccount of this pod. Its token is read again before it expires: the kubelet replaces the file."""
    if not is_in_cluster(environment):
        raise ConfigError("this is not a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    folder = Path(pod.service_account_folder(environment))
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    token = TokenFile(folder / "token")
    token.check()
    return ClusterConfig(
        server=f"https://{host}:{port}",
        namespace=_read(folder / "namespace", "namespace").decode().strip(),
        ca=_read(folder / "ca.crt", "CA certificate"),
        credentials=token,
        source=str(folder),
    )


def from_kubeconfig(paths: list[Path], context: str | None = None) -> ClusterConfig:
    """One context of a kubeconfig; of several files the first to name a thing wins, as with kubectl."""
    merged = _merged(paths)
    source = str(paths[0]) if len(paths) == 1 else os.pathsep.join(map(str, paths))
    name = context or merged["current-context"]
    if not name:
        raise ConfigError(f"{source}: no current-context; choose one with `kubectl config use-context` or --context")
    chosen = _named(merged, "contexts", name, source)
    cluster = _named(merged, "clusters", chosen.get("cluster") or "", source)
    user = _named(merged, "users", chosen["user"], source) if chosen.get("user") else {}
    config = ClusterConfig(
        server=_server(cluster, f"{source}: cluster {chosen.get('cluster')!r}"),
        namespace=chosen.get("namespace") or "default",
        ca=_data(cluster, "certificate-authority", source),
        verify=not cluster.get("insecure-skip-tls-verify"),
        server_name=cluster.get("tls-server-name") or "",
        proxy=_proxy(cluster, source),
        client_certificate=_data(user, "client-certificate", source),
        client_key=_data(user, "client-key", source),
        impersonation=_impersonation(user),
        source=source,
    )
    return replace(config, credentials=_credentials(user, config, source))


def _credentials(user: Json, config: ClusterConfig, source: str) -> Credentials | None:
    if user.get("token"):
        return StaticToken(user["token"])
    if user.get("tokenFile"):
        token = TokenFile(Path(user["tokenFile"]))
        token.check()
        return token
    if user.get("username"):
        pair = base64.b64encode(f"{user['username']}:{user.get('password') or ''}".encode()).decode()
        return StaticToken(pair, scheme="Basic")
    if user.get("exec"):
        return ExecCredentials(user["exec"], config.server, config.ca, source)
    if user.get("auth-provider"):
        raise ConfigError(
            f"{source}: auth-provider is no longer supported by Kubernetes; use an exec plugin or a token"
        )
    return None


def _server(cluster: Json, where: str) -> str:
    address = str(cluster.get("server") or "").rstrip("/")
    if not address:
        raise ConfigError(f"{where} has no server address")
    try:
        Origin.of(address)
    except ValueError as error:
        raise ConfigError(f"{where}: server: {error}") from None
    return address


def _proxy(cluster: Json, source: str) -> ProxyServer | None:
    if not cluster.get("proxy-url"):
        return None
    try:
        return ProxyServer.of(str(cluster["proxy-url"]))
    except ValueError:
        raise ConfigError(f"{source}: proxy-url must be an http:// or https:// URL; other proxies are not supported") from None


def _impersonation(user: Json) -> tuple[tuple[str, str], ...]:
    headers = [("impersonate-user", user["as"])] if user.get("as") else []
    headers += [("impersonate-uid", user["as-uid"])] if user.get("as-uid") else []
    headers += [("impersonate-group", group) for group in user.get("as-groups") or ()]
    extra = (user.get("as-user-extra") or {}).items()
    return (*headers, *((f"impersonate-extra-{name}", value) for name, values in extra for value in values))


def _merged(paths: list[Path]) -> Json:
    merged: Json = {"current-context": "", "contexts": {}, "clusters": {}, "users": {}}
    found = False
    for path in paths:
        if not path.exists() and len(paths) > 1:
            continue
        document = _document(path)
        found = True
        merged["current-context"] = merged["current-context"] or document.get("current-context") or ""
        for section in ("contexts", "clusters", "users"):
            for entry in _entries(document, section, path):
                value = entry.get(section[:-1]) or {}
                merged[section].setdefault(entry["name"], _rooted(value, path.parent))
    if not found:
        raise ConfigError(f"none of the kubeconfig files exists: {', '.join(map(str, paths))}")
    return merged


def _entries(document: Json, section: str, path: Path) -> list[Json]:
    entries = document.get(section) or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) and entry.get("name") for entry in entries):
        raise ConfigError(f"{path}: {section} must be a list of named entries")
    return entries


def _document(path: Path) -> Json:
    text = _read(path, "kubeconfig")
    try:
        document = load(text.decode())
    except Exception as error:  # whatever the YAML reader objects to, the user's file is at fault
        raise ConfigError(f"{path} is not a readable kubeconfig: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path} is not a kubeconfig: it holds no mapping")
    return document


def _rooted(value: Json, folder: Path) -> Json:
    """File names in a kubeconfig are relative to the file that names them."""
    names = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
    return {**value, **{name: str(folder / value[name]) for name in names if value.get(name)}}


def _named(merged: Json, section: str, name: str, source: str) -> Json:
    found = merged[section].get(name)
    if found is None:
        known = ", ".join(sorted(merged[section])) or "none"
        raise ConfigError(f"{source}: there is no {section[:-1]} {name!r} (known: {known})")
    return dict(found)


def _data(entry: Json, name: str, source: str) -> bytes | None:
    """Inline base64 wins over the file of the same name, as with kubectl."""
    inline: Any = entry.get(f"{name}-data")
    if inline:
        try:
            return base64.b64decode(inline, validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise ConfigError(f"{source}: {name}-data is not base64") from None
    return _read(Path(entry[name]), name) if entry.get(name) else None


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{what} {path} cannot be read: {error.strerror or error}") from None
