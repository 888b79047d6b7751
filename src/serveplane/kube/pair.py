"""A certificate with its key, and how a TLS context comes to present it. Without the weight of what makes certificates."""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

OPEN_FILES = "/proc/self/fd"


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


def load_into(context: ssl.SSLContext, pair: Pair) -> None:
    """Make a TLS context present this certificate from its next connection on."""
    with as_file(pair.certificate + b"\n" + pair.key) as path:
        context.load_cert_chain(path)


@contextmanager
def as_file(content: bytes) -> Iterator[str]:
    """A path to read this from while the block lasts, for us alone: OpenSSL reads key pairs from files only.

    In memory where the system can, for a pod may have no folder that it can write to (KServe's own manifests give it none).
    """
    if hasattr(os, "memfd_create") and os.path.isdir(OPEN_FILES):
        with open(os.memfd_create("pair"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"{OPEN_FILES}/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as named:
            named.write(content)
            named.flush()
            yield named.name
