"""Keys, certificates and kubeconfigs of a throw-away cluster. Everything is P-256: an RSA key would cost a second of start-up."""
import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=2)
CLOCK_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class KeyPair:
    certificate: Path
    key: Path


class Authority:
    """A certificate authority whose files all lie in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "testbed")])
        certificate = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(True, None), critical=True)
        self.certificate = self._write("ca.crt", certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def server(self, name: str, hosts: list[str]) -> KeyPair:
        names: list[x509.GeneralName] = [_general_name(host) for host in hosts]
        return self._issue(name, [], ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, user: str, groups: list[str]) -> KeyPair:
        """A certificate that logs `user` in, as a member of `groups`."""
        return self._issue(user, groups, ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def _issue(self, name: str, groups: list[str], usage: x509.ObjectIdentifier, hosts: list[x509.GeneralName]) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, name), *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, g) for g in groups)]
        certificate = self._builder(x509.Name(subject), key).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if hosts:
            certificate = certificate.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        pem = certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        file = name.replace(":", "-")
        return KeyPair(self._write(f"{file}.crt", pem), self._write(f"{file}.key", private_pem(key)))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
                .serial_number(x509.random_serial_number()).not_valid_before(now - CLOCK_SKEW).not_valid_after(now + LIFETIME))

    def _write(self, name: str, content: bytes) -> Path:
        return write_secret(self.folder / name, content)


def signing_key(folder: Path) -> KeyPair:
    """The key that signs ServiceAccount tokens; `certificate` is its public half."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return KeyPair(write_secret(folder / "tokens.pub", public), write_secret(folder / "tokens.key", private_pem(key)))


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def write_kubeconfig(path: Path, server: str, ca: Path | None, token: str) -> Path:
    """A kubeconfig with one user, who has a token."""
    cluster = {"server": server} | ({"certificate-authority": str(ca)} if ca else {"insecure-skip-tls-verify": True})
    content = {
        "apiVersion": "v1", "kind": "Config", "current-context": "testbed",
        "clusters": [{"name": "testbed", "cluster": cluster}],
        "users": [{"name": "testbed", "user": {"token": token}}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "testbed"}}],
    }
    return write_secret(path, yaml.safe_dump(content).encode())


def write_secret(path: Path, content: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
