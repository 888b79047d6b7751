"""The cluster's own certificate authority: P-256 keys, files of mode 0600 in a folder of mode 0700."""

import datetime
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from serveplane.clock import SYSTEM, Clock
from serveplane.kube import keypairs
from serveplane.kube.pair import Pair

YEAR = datetime.timedelta(days=365)
SERVICE = "kubernetes.default.svc"
SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    SERVICE,
    f"{SERVICE}.cluster.local",
    "127.0.0.1",
    "::1",
    "10.96.0.1",
)


@dataclass(frozen=True)
class PairFiles:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path

    def exist(self) -> bool:
        """Both of them: whoever wrote them may have been killed in between."""
        return self.certificate.exists() and self.key.exists()

    def texts(self) -> tuple[str, str]:
        return self.certificate.read_text(), self.key.read_text()

    def read(self) -> Pair:
        return Pair(self.certificate.read_bytes(), self.key.read_bytes())

    def write(self, pair: Pair) -> None:
        write_private(self.key, pair.key)
        write_private(self.certificate, pair.certificate)


class Authority:
    """Opened from `folder`, or made there."""

    def __init__(self, folder: Path, clock: Clock = SYSTEM) -> None:
        self.folder = folder
        self._clock = clock
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.pair = PairFiles(folder / "ca.crt", folder / "ca.key")
        if not self.pair.exist():
            self.pair.write(keypairs.authority("serveplane-ca", clock.now(), 10 * YEAR))

    @property
    def certificate(self) -> str:
        return self.pair.certificate.read_text()

    def issue(
        self,
        file: str,
        common_name: str,
        organizations: Iterable[str] = (),
        hosts: Iterable[str] = (),
        server: bool = False,
        client: bool = True,
    ) -> PairFiles:
        """A certificate `file`.crt with its key, made anew unless it is there and good for another month."""
        pair, hosts = PairFiles(self.folder / f"{file}.crt", self.folder / f"{file}.key"), list(hosts)
        if pair.exist() and self._is_fresh(pair, set(hosts)):
            return pair
        usages = [ExtendedKeyUsageOID.SERVER_AUTH] * server + [ExtendedKeyUsageOID.CLIENT_AUTH] * client
        pair.write(
            keypairs.issued(
                self.pair.read(),
                common_name,
                self._clock.now(),
                YEAR,
                organizations=list(organizations),
                hosts=hosts,
                usages=usages,
            )
        )
        return pair

    def _is_fresh(self, pair: PairFiles, hosts: set[str]) -> bool:
        """Still good for a while, from this authority, and for all the hosts."""
        if not keypairs.is_signed_by(pair.certificate.read_bytes(), self.pair.certificate.read_bytes()):
            return False
        certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
        if certificate.not_valid_after_utc - self._clock.now() < YEAR / 12:
            return False
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return not hosts
        return hosts <= {str(name.value) for name in names}


def write_private(path: Path, data: bytes) -> None:
    """A file nobody else can read, in place at once or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    handle = os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    partial.replace(path)
