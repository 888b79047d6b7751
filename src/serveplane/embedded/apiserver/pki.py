"""The cluster's own certificate authority: P-256 keys, files of mode 0600 in a folder of mode 0700."""

import datetime
import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from serveplane.clock import SYSTEM, Clock

YEAR = datetime.timedelta(days=365)
SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
    "10.96.0.1",
)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM and as files."""

    certificate: Path
    key: Path

    def texts(self) -> tuple[str, str]:
        return self.certificate.read_text(), self.key.read_text()


class Authority:
    """Opened from `folder`, or made there."""

    def __init__(self, folder: Path, clock: Clock = SYSTEM) -> None:
        self.folder = folder
        self._clock = clock
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.pair = Pair(folder / "ca.crt", folder / "ca.key")
        if not self.pair.key.exists():
            self._create()
        self._certificate = x509.load_pem_x509_certificate(self.pair.certificate.read_bytes())
        self._key = _load_key(self.pair.key)

    @property
    def certificate(self) -> str:
        return self.pair.certificate.read_text()

    def _create(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("serveplane-ca", ())
        builder = self._builder(name, name, key.public_key(), 10 * YEAR)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signing=True), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        _write(self.pair, builder.sign(key, hashes.SHA256()), key)

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, life: datetime.timedelta
    ) -> x509.CertificateBuilder:
        now = self._clock.now()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + life)
        )

    def issue(
        self,
        file: str,
        common_name: str,
        organizations: Iterable[str] = (),
        hosts: Iterable[str] = (),
        server: bool = False,
        client: bool = True,
    ) -> Pair:
        """A certificate `file`.crt with its key, made anew unless it is there and good for another month."""
        pair = Pair(self.folder / f"{file}.crt", self.folder / f"{file}.key")
        if pair.key.exists() and self._is_fresh(pair, set(hosts)):
            return pair
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_name(common_name, organizations), self._certificate.subject, key.public_key(), YEAR)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signing=False), critical=True)
        uses = [ExtendedKeyUsageOID.SERVER_AUTH] * server + [ExtendedKeyUsageOID.CLIENT_AUTH] * client
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        _write(pair, builder.sign(self._key, hashes.SHA256()), key)
        return pair

    def _is_fresh(self, pair: Pair, hosts: set[str]) -> bool:
        certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
        if (
            certificate.not_valid_after_utc - self._clock.now() < YEAR / 12
            or certificate.issuer != self._certificate.subject
        ):
            return False
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return not hosts
        known = {str(name.value) for name in names}
        return hosts <= known


def _usage(signing: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signing,
        crl_sign=signing,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str, organizations: Iterable[str]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} is no EC key")
    return key


def _write(pair: Pair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_private(pair.key, private)
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def write_private(path: Path, data: bytes) -> None:
    """A file nobody else can read, in place at once or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    handle = os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    partial.replace(path)
