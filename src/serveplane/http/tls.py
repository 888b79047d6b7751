"""TLS settings, server and client side; never below 1.2. Files are named, not copied, so that a rotated certificate can be read again."""
import asyncio
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from serveplane.http.messages import Peer

FilePath = str | Path


@dataclass(frozen=True)
class TlsConfig:
    """What a listener shows and asks for."""

    certificate: FilePath
    key: FilePath
    client_ca: FilePath | None = None
    """With it, clients may show a certificate, which then must come from this authority."""
    require_client_certificate: bool = False
    watch_seconds: float | None = 10.0
    """How often to look whether the files changed; None leaves it to `Server.reload_tls`."""
    http2: bool = False
    """Offer h2 in ALPN, for servers that pass HTTP/2 on."""

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        context.load_cert_chain(self.certificate, self.key)
        context.set_alpn_protocols(["h2", "http/1.1"] if self.http2 else ["http/1.1"])
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED if self.require_client_certificate else ssl.CERT_OPTIONAL
        return context

    def fingerprint(self) -> tuple[tuple[int, int, int], ...]:
        """Changes whenever one of the files does (Kubernetes swaps a symlink, so the inode counts too)."""
        files = [self.certificate, self.key, *([self.client_ca] if self.client_ca else [])]
        stats = [os.stat(file) for file in files]
        return tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats)


@dataclass(frozen=True)
class ClientTls:
    """Whom a client trusts, and what it shows."""

    ca: FilePath | None = None
    """None trusts the system's authorities."""
    ca_data: str | None = None
    """PEM text instead of a file, as kubeconfigs carry it."""
    certificate: FilePath | None = None
    key: FilePath | None = None
    server_name: str | None = None
    """For SNI and verification, where it differs from the host in the URL."""
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca and str(self.ca), cadata=self.ca_data)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context


def peer_of(transport: asyncio.Transport) -> Peer:
    """Who is at the other end; the certificate, if there is one, has been verified in the handshake."""
    name = transport.get_extra_info("peername")
    address, port = (str(name[0]), int(name[1])) if isinstance(name, tuple) and len(name) >= 2 else ("", 0)
    tls = transport.get_extra_info("ssl_object")
    if tls is None:
        return Peer(address, port)
    certificate = tls.getpeercert(binary_form=True)
    return Peer(address, port, True, certificate, _subject(tls.getpeercert() or {}) if certificate else {})


def _subject(certificate: dict[str, object]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    names = certificate.get("subject", ())
    for relative in names if isinstance(names, tuple) else ():
        for key, value in relative:
            found[key] = (*found.get(key, ()), value)
    return found
