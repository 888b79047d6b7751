"""The webhook certificate: made, shared by replicas in a Secret, renewed in time, and trusted by the API server throughout.

The Secret holds `ca.crt` (the authority in use first, older ones after it), `ca.key`, `tls.crt` and `tls.key`. Renewing the
server certificate changes nothing for the API server. Renewing the authority takes two steps: first the new one is added to
every caBundle while the old certificate is still served; only then is a certificate of the new authority made.
"""

import asyncio
import base64
import binascii
import datetime
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from serveplane import pod
from serveplane.clock import Clock
from serveplane.kube import keypairs
from serveplane.kube.client import Client
from serveplane.kube.errors import AlreadyExists, ConfigError, Conflict, KubeError
from serveplane.kube.kind import Kind
from serveplane.kube.pair import Pair
from serveplane.objects import Json

LOG = logging.getLogger(__name__)
SECRET = Kind("v1", "Secret")
DAY = datetime.timedelta(days=1)
NO_PAIR = Pair(b"", b"")


@dataclass(frozen=True)
class CertificateOptions:
    secret: str
    namespace: str
    names: Sequence[str]
    """The DNS names the API server uses: `<service>.<namespace>.svc`."""
    ca_life: datetime.timedelta = 3650 * DAY
    life: datetime.timedelta = 365 * DAY
    renew_at: float = 2 / 3
    """The share of a certificate's life after which it is renewed."""
    check_seconds: float = 60.0
    settle_seconds: float = 60.0
    """How long API servers get to notice a new caBundle before a certificate of the new authority is served.

    A call that began with the old bundle may still be connecting as long as its webhook's timeout lasts, which is 30 s at most.
    """


@dataclass(frozen=True)
class Material:
    """What the Secret holds."""

    bundle: tuple[bytes, ...] = ()
    ca_key: bytes = b""
    pair: Pair = NO_PAIR

    @property
    def ca(self) -> Pair:
        return Pair(self.bundle[0] if self.bundle else b"", self.ca_key)

    @property
    def trusted(self) -> bytes:
        """What the API server has to trust."""
        return b"".join(self.bundle)


Publish = Callable[[bytes], Awaitable[None]]
"""Puts a bundle into every caBundle that leads here, and returns when it is there."""
Use = Callable[[Pair], Awaitable[None]]
"""Has the server present a certificate, and returns when every new connection gets it."""


class SelfMadeCertificates:
    """Keeps the Secret, the server and the caBundles in step. Every replica runs one; the Secret's version settles races."""

    def __init__(
        self, client: Client, options: CertificateOptions, use: Use, clock: Clock, publish: Publish
    ) -> None:
        self._client = client
        self._options = options
        self._use = use
        self._clock = clock
        self._publish = publish
        self._served: Pair | None = None
        self.material = Material()
        self.ready = asyncio.Event()

    async def load(self) -> None:
        """Have a usable certificate in use."""
        await self._advance()
        await self._serve(self.material.pair)

    async def run(self) -> None:
        """Publish the bundle, then renew in time, for ever. `ready` is set once the API server can call us."""
        while True:
            try:
                await self._step()
                self.ready.set()
            except KubeError as error:
                LOG.warning("certificates: %s", error)
                await self._clock.sleep(1.0)
                continue
            await self._clock.sleep(self._options.check_seconds)

    async def _step(self) -> None:
        """Trust before use: the bundle is out before a certificate signed by its newest authority is served."""
        await self._advance()
        await self._publish(self.material.trusted)
        if self.material.pair != self._served:
            await self._serve(self.material.pair)
        if not keypairs.is_signed_by(self.material.pair.certificate, self.material.ca.certificate):
            await self._clock.sleep(self._options.settle_seconds)
            await self._advance(sign=True)
            await self._serve(self.material.pair)

    async def _advance(self, *, sign: bool = False) -> None:
        """Read the Secret and, where something in it is due, write the next state. Losing a race means reading again."""
        for _ in range(10):
            secret = await self._client.find(SECRET, self._options.secret, self._options.namespace)
            now = material_of(secret or {})
            wanted = next_material(now, self._options, self._clock.now(), sign=sign)
            try:
                if wanted != now:
                    await self._write(secret, wanted)
                self.material = wanted
                return
            except (Conflict, AlreadyExists):
                await self._clock.sleep(0.05 + 0.2 * self._clock.random())
        raise KubeError(f"Secret {self._options.namespace}/{self._options.secret} keeps being changed by others")

    async def _write(self, secret: Json | None, material: Material) -> None:
        data = {
            "ca.crt": material.trusted,
            "ca.key": material.ca_key,
            "tls.crt": material.pair.certificate,
            "tls.key": material.pair.key,
        }
        encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
        if secret is None:
            metadata = {"name": self._options.secret, "namespace": self._options.namespace}
            await self._client.create(
                {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": encoded}
            )
        else:
            await self._client.update({**secret, "data": {**(secret.get("data") or {}), **encoded}})
        LOG.info(
            "certificate written",
            extra={"secret": self._options.secret, "expires": str(keypairs.expiry(material.pair.certificate))},
        )

    async def _serve(self, pair: Pair) -> None:
        if pair != self._served:
            await self._use(pair)
            self._served = pair


class MountedCertificates:
    """Certificates that someone else (cert-manager) puts into a folder and renews there; caBundles are theirs too."""

    def __init__(self, folder: str, use: Use, clock: Clock, check_seconds: float = 10.0) -> None:
        self._folder = Path(pod.real_path(folder))
        self._use = use
        self._clock = clock
        self._check_seconds = check_seconds
        self._served: Pair | None = None
        self.ready = asyncio.Event()

    async def load(self) -> None:
        await self._look()
        self.ready.set()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._check_seconds)
            try:
                await self._look()
            except ConfigError as error:  # between two files of a rotation
                LOG.warning("%s; keeping the certificate in use", error)

    async def _look(self) -> None:
        try:
            pair = Pair((self._folder / "tls.crt").read_bytes(), (self._folder / "tls.key").read_bytes())
        except OSError as error:
            raise ConfigError(f"the certificate in {self._folder} cannot be used: {error}") from None
        if pair != self._served:
            await self._use(pair)
            self._served = pair


def material_of(secret: Json) -> Material:
    """What a Secret holds; anything unreadable in it counts as absent and is made anew."""

    def part(name: str) -> bytes:
        try:
            return base64.b64decode((secret.get("data") or {}).get(name) or "", validate=True)
        except (binascii.Error, ValueError):
            return b""

    return Material(tuple(keypairs.bundle(part("ca.crt"))), part("ca.key"), Pair(part("tls.crt"), part("tls.key")))


def next_material(
    now: Material, options: CertificateOptions, moment: datetime.datetime, *, sign: bool = False
) -> Material:
    """What the Secret should hold now. Pure but for the making of keys; the same material comes back when nothing is due.

    `sign` says that the newest authority is trusted everywhere by now; it signs, and none is made that nobody has heard of.
    """
    bundle = tuple(ca for ca in now.bundle if keypairs.spent(ca, moment) < 1)
    ca_key = now.ca_key
    is_usable = bool(bundle) and bundle[:1] == now.bundle[:1] and keypairs.fits(Pair(bundle[0], ca_key))
    if not is_usable or (not sign and keypairs.spent(bundle[0], moment) > options.renew_at):
        made = keypairs.authority(f"{options.secret}-ca", moment, options.ca_life)
        bundle, ca_key = (made.certificate, *bundle), made.key
    ca = Pair(bundle[0], ca_key)
    if _is_kept(now.pair, bundle, options, moment, sign=sign):
        return Material(bundle, ca_key, now.pair)
    return Material(bundle, ca_key, keypairs.server_pair(ca, options.names, moment, options.life))


def _is_kept(pair: Pair, bundle: Sequence[bytes], options: CertificateOptions, moment: datetime.datetime, *, sign: bool) -> bool:
    """A certificate that is due for renewal still serves while API servers learn of the authority that will sign the next one."""
    spent = keypairs.spent(pair.certificate, moment) if keypairs.fits(pair) else 1.0
    if spent >= 1 or not keypairs.is_for(pair.certificate, options.names) or not _is_trusted(pair, bundle):
        return False
    return spent <= options.renew_at if keypairs.is_signed_by(pair.certificate, bundle[0]) else not sign


def _is_trusted(pair: Pair, bundle: Sequence[bytes]) -> bool:
    return any(keypairs.is_signed_by(pair.certificate, ca) for ca in bundle)
