"""A certificate with its key, and how a TLS context comes to present it. Without the weight of what makes certificates."""

import ssl
import tempfile
from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


def load_into(context: ssl.SSLContext, pair: Pair) -> None:
    """Make a TLS context present this certificate from its next connection on."""
    with tempfile.NamedTemporaryFile() as file:  # OpenSSL reads from files only; mode 0600, gone at once
        file.write(pair.certificate + b"\n" + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
