"""Certificates of our own making: a small authority, and server certificates signed by it. ECDSA P-256 throughout."""

import datetime
import ipaddress
from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from serveplane.kube.pair import Pair

BACKDATED = datetime.timedelta(hours=1)  # the API server's clock may be behind ours
PEM = serialization.Encoding.PEM


def authority(name: str, now: datetime.datetime, life: datetime.timedelta) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, name), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "serveplane")]
    )
    builder = _builder(subject, subject, key.public_key(), now, life)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True).add_extension(
        usage, critical=True
    )
    return _signed(builder, key, key)


def server_pair(ca: Pair, names: Sequence[str], now: datetime.datetime, life: datetime.timedelta) -> Pair:
    """A certificate for these DNS names, never outliving its authority."""
    return issued(ca, names[0][:64], now, life, hosts=names)


def issued(
    ca: Pair,
    name: str,
    now: datetime.datetime,
    life: datetime.timedelta,
    *,
    organizations: Sequence[str] = (),
    hosts: Sequence[str] = (),
    usages: Sequence[x509.ObjectIdentifier] = (ExtendedKeyUsageOID.SERVER_AUTH,),
) -> Pair:
    """A certificate for a name, its groups and the hosts (names or addresses) it may answer for."""
    issuer, issuer_key = x509.load_pem_x509_certificate(ca.certificate), _ec_key(ca.key)
    key = ec.generate_private_key(ec.SECP256R1())
    life = min(life, issuer.not_valid_after_utc - now)
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    subject = x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, issuer.subject, key.public_key(), now, life)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
    return _signed(builder, key, issuer_key)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def bundle(text: bytes) -> list[bytes]:
    """The certificates of a PEM bundle, one by one; whatever else is in it is left out."""
    try:
        return [certificate.public_bytes(PEM) for certificate in x509.load_pem_x509_certificates(text)]
    except ValueError:
        return []


def expiry(certificate: bytes) -> datetime.datetime:
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def spent(certificate: bytes, now: datetime.datetime) -> float:
    """How much of a certificate's life is over, as a share; above 1 it has expired."""
    parsed = x509.load_pem_x509_certificate(certificate)
    life = parsed.not_valid_after_utc - parsed.not_valid_before_utc
    return (now - parsed.not_valid_before_utc) / life


def is_signed_by(certificate: bytes, ca: bytes) -> bool:
    try:
        x509.load_pem_x509_certificate(certificate).verify_directly_issued_by(x509.load_pem_x509_certificate(ca))
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def is_for(certificate: bytes, names: Sequence[str]) -> bool:
    try:
        extension = x509.load_pem_x509_certificate(certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except (ValueError, x509.ExtensionNotFound):
        return False
    return set(names) <= set(extension.value.get_values_for_type(x509.DNSName))


def fits(pair: Pair) -> bool:
    """Whether the key is the certificate's own."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        return certificate.public_key() == _ec_key(pair.key).public_key()
    except (ValueError, TypeError):
        return False


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    life: datetime.timedelta,
) -> x509.CertificateBuilder:
    backdated = min(BACKDATED, life)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - backdated)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, issuer_key: ec.EllipticCurvePrivateKey
) -> Pair:
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    certificate = builder.add_extension(identifier, critical=False).sign(issuer_key, hashes.SHA256())
    private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair(certificate.public_bytes(PEM), private)


def _ec_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not an elliptic-curve key")
    return key
