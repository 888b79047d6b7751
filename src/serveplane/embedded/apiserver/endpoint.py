"""Listening over HTTPS: certificates, the admin's kubeconfig, and where everything is."""

import base64
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from serveplane import http
from serveplane.embedded.apiserver import bootstrap
from serveplane.embedded.apiserver.auth.tokens import Signer
from serveplane.embedded.apiserver.pki import SERVER_NAMES, Authority, PairFiles, write_private
from serveplane.objects import Json, yamlio

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.server import ApiServer

PRIVATE = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True)
class Endpoint:
    url: str
    kubeconfig: Path
    """The admin's, with a client certificate; mode 0600."""
    authority: Authority
    listener: http.Server

    @property
    def ca_file(self) -> Path:
        return self.authority.pair.certificate


async def listen(server: "ApiServer", folder: Path, host: str = "127.0.0.1", port: int = 0) -> Endpoint:
    """Serve with the authority kept in `folder`/pki and write `folder`/kubeconfig."""
    check_private(folder)
    authority = Authority(folder / "pki", server.clock)
    names = sorted({*SERVER_NAMES, host})
    serving = authority.issue("apiserver", "kube-apiserver", hosts=names, server=True, client=False)
    admin = authority.issue("admin", "kubernetes-admin", ["system:masters"])
    tls = http.TlsConfig(serving.certificate, serving.key, client_ca=authority.pair.certificate)
    server.core.nodes.trust(authority)
    server.core.authenticator.signer = Signer(folder / "pki" / "sa.key")
    # A page in a browser can make a name of its own resolve to loopback; only the names of our certificate are answered.
    listener = await server.serve(host, port, tls, hosts={*names, "[::1]"})
    await bootstrap.announce(server.core, host, listener.port)
    url = f"https://{host}:{listener.port}"
    config = kubeconfig(url, authority.certificate, certificate=admin)
    write_private(folder / "kubeconfig", yamlio.dump(config).encode())
    return Endpoint(url, folder / "kubeconfig", authority, listener)


def check_private(folder: Path) -> None:
    """Keys lie here: a folder that others can read is made private, one that is not ours is refused."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.stat()
    if found.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    if found.st_mode & PRIVATE:
        folder.chmod(0o700)


def kubeconfig(
    url: str,
    authority: str,
    *,
    certificate: PairFiles | None = None,
    token: str = "",
    namespace: str = "default",
    name: str = "serveplane",
) -> Json:
    user: Json = {"token": token} if token else {}
    if certificate is not None:
        crt, key = certificate.texts()
        user = {"client-certificate-data": _base64(crt), "client-key-data": _base64(key)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": _base64(authority)}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
    }


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
