"""Leader election on a Lease: of several replicas one works, and a replica that lost the lease sends nothing more.

Three durations make that sure. Others take over when they have seen no renewal for `duration`. The holder gives up when
it could not renew for `renew_deadline`, counted from the moment it *sent* its last successful renewal. `guard` refuses
every write after that moment, and a write sent just before it is given up within `write_timeout`, which is shorter than
what is left of `duration`. Only monotonic time and own observations are used; the clocks of other machines do not
matter.
"""

import asyncio
import logging
from dataclasses import dataclass

from serveplane.clock import Clock, micro_timestamp
from serveplane.kube.client import Client
from serveplane.kube.errors import AlreadyExists, Conflict, KubeError, LeaseLost
from serveplane.kube.kind import Kind
from serveplane.kube.metrics import Registry
from serveplane.objects import Json

LOG = logging.getLogger(__name__)
LEASE = Kind("coordination.k8s.io/v1", "Lease")


@dataclass(frozen=True)
class LeaseOptions:
    """Which lease, and its times in seconds."""

    name: str
    namespace: str
    identity: str
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry_period > 0:
            raise ValueError("leader election needs lease duration > renew deadline > retry period > 0")

    @property
    def write_timeout(self) -> float:
        """How long a write may take at most, so that it is over before anyone else can hold the lease."""
        return (self.duration - self.renew_deadline) * 0.9


@dataclass
class _Seen:
    """The lease as last observed, and when that was by our own clock."""

    record: tuple[str, str, int] = ("", "", 0)
    at: float = 0.0
    lease: Json | None = None


class LeaderElection:
    """One replica's part in the election. The client given must not be guarded by this very election."""

    def __init__(self, client: Client, options: LeaseOptions, clock: Clock, registry: Registry | None = None) -> None:
        self.options = options
        self._client = client
        self._clock = clock
        self._seen = _Seen()
        self._deadline = float("-inf")
        self._master = (registry or Registry()).gauge(
            "leader_election_master_status", "1 while this process holds the lease, by lease name.", "name"
        )
        self._master.set(0, options.name)

    @property
    def is_leader(self) -> bool:
        return self._clock.monotonic() < self._deadline

    @property
    def holder(self) -> str:
        return self._seen.record[0]

    def guard(self) -> None:
        """Called as each write is sent; raises once the lease may no longer be ours."""
        if not self.is_leader:
            raise LeaseLost(
                f"lease {self.options.namespace}/{self.options.name} is not held by {self.options.identity}"
            )

    async def acquire(self) -> None:
        """Wait until the lease is ours."""
        told = ""
        while not await self._attempt():
            if self.holder and self.holder != told:
                told = self.holder
                LOG.info("waiting: %s leads", told, extra={"lease": self.options.name})
            await self._clock.sleep(self.options.retry_period * (1 + 0.2 * self._clock.random()))
        LOG.info("leading", extra={"lease": self.options.name, "identity": self.options.identity})
        self._master.set(1, self.options.name)

    async def keep(self) -> None:
        """Renew until cancelled. Raises `LeaseLost` when the deadline passed or someone else holds the lease."""
        try:
            while True:
                await self._clock.sleep(self.options.retry_period)
                self.guard()
                if not await self._attempt() and self.holder not in ("", self.options.identity):
                    raise LeaseLost(f"lease {self.options.namespace}/{self.options.name} was taken by {self.holder}")
        finally:
            self._master.set(0, self.options.name)

    async def release(self) -> None:
        """Hand the lease back, so that another replica need not wait for it to run out."""
        self._deadline, held = float("-inf"), self.is_leader
        self._master.set(0, self.options.name)
        if not held:
            return
        try:
            # Read first: a renewal may have been on its way when it was cancelled.
            lease = await self._client.get(LEASE, self.options.name, self.options.namespace)
            if lease["spec"].get("holderIdentity") != self.options.identity:
                return
            now = self._now()
            spec = {
                **lease["spec"],
                "holderIdentity": "",
                "leaseDurationSeconds": 1,
                "renewTime": now,
                "acquireTime": now,
            }
            await self._client.update({**lease, "spec": spec})
            LOG.info("released the lease", extra={"lease": self.options.name})
        except KubeError as error:
            LOG.warning("could not release the lease: %s", error, extra={"lease": self.options.name})

    # ---- one attempt

    async def _attempt(self) -> bool:
        """Take or renew the lease if it is free, ours, or run out. Trouble is a no: time decides whether it matters."""
        started = self._clock.monotonic()
        patience = self.options.renew_deadline / 2  # so that a dead connection leaves time for another attempt
        try:
            async with asyncio.timeout(patience):
                won = await self._try()
        except TimeoutError:
            LOG.warning("no answer about the lease within %.1f s", patience, extra={"lease": self.options.name})
            return False
        except Conflict:
            self._seen.lease = None  # someone wrote in between: read it again next time
            return False
        except KubeError as error:
            LOG.warning("cannot renew the lease: %s", error, extra={"lease": self.options.name})
            return False
        if won:
            self._deadline = started + self.options.renew_deadline
        return won

    async def _try(self) -> bool:
        """The holder knows the lease and writes at once. Where that fails it may have been carried out all the same: so it looks."""
        if self._seen.lease is not None and self.holder == self.options.identity and self.is_leader:
            try:
                return await self._claim(self._seen.lease)
            except KubeError as error:
                LOG.debug("renewing at once failed, reading the lease: %s", error, extra={"lease": self.options.name})
        lease = await self._client.find(LEASE, self.options.name, self.options.namespace)
        if lease is None:
            return await self._create()
        self._observe(lease)
        if self.holder not in ("", self.options.identity) and not self._has_run_out(lease):
            return False
        return await self._claim(lease)

    async def _claim(self, lease: Json) -> bool:
        self._observe(await self._client.update(self._claimed(lease)))
        return True

    async def _create(self) -> bool:
        metadata = {"name": self.options.name, "namespace": self.options.namespace}
        spec = {**self._times(), "acquireTime": self._now(), "leaseTransitions": 0}
        try:
            self._observe(
                await self._client.create(
                    {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}
                )
            )
        except AlreadyExists:
            return False
        return True

    def _observe(self, lease: Json) -> None:
        spec = lease.get("spec") or {}
        record = (spec.get("holderIdentity") or "", str(spec.get("renewTime")), int(spec.get("leaseTransitions") or 0))
        if record != self._seen.record or self._seen.at == 0.0:
            self._seen = _Seen(record, self._clock.monotonic())
        self._seen.lease = lease

    def _has_run_out(self, lease: Json) -> bool:
        duration = float((lease.get("spec") or {}).get("leaseDurationSeconds") or self.options.duration)
        return self._clock.monotonic() >= self._seen.at + duration

    def _claimed(self, lease: Json) -> Json:
        spec = dict(lease.get("spec") or {})
        if spec.get("holderIdentity") != self.options.identity:
            spec |= {"acquireTime": self._now(), "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1}
        return {**lease, "spec": {**spec, **self._times()}}

    def _times(self) -> Json:
        return {
            "holderIdentity": self.options.identity,
            "leaseDurationSeconds": round(self.options.duration),
            "renewTime": self._now(),
        }

    def _now(self) -> str:
        return micro_timestamp(self._clock.now())
