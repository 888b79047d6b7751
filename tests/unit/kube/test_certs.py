"""When certificates and their authority are renewed, and that trust always comes before use."""

import asyncio
import datetime
from pathlib import Path

import pytest

from serveplane.kube import keypairs
from serveplane.kube.certs import (
    CertificateOptions,
    Material,
    MountedCertificates,
    SelfMadeCertificates,
    material_of,
    next_material,
)
from serveplane.kube.errors import ConfigError
from serveplane.kube.pair import Pair
from tests.unit.kube.clocks import START, FakeClock
from tests.unit.kube.fake_server import FakeServer

DAY = datetime.timedelta(days=1)
OPTIONS = CertificateOptions(
    "cert", "ns", ["hooks.ns.svc"], ca_life=100 * DAY, life=30 * DAY, settle_seconds=0, check_seconds=1
)


def test_nothing_changes_before_it_is_due() -> None:
    first = next_material(Material(), OPTIONS, START)
    assert next_material(first, OPTIONS, START + 10 * DAY) == first
    assert keypairs.is_for(first.pair.certificate, OPTIONS.names)


def test_a_certificate_is_renewed_under_the_same_authority() -> None:
    first = next_material(Material(), OPTIONS, START)
    later = next_material(first, OPTIONS, START + 21 * DAY)
    assert later.pair != first.pair
    assert later.bundle == first.bundle


@pytest.mark.parametrize("days", [1, 5, 10, 20])
def test_a_new_authority_is_trusted_before_it_signs(days: int) -> None:
    """Also where certificate and authority are due at once."""
    moment, state, authorities = START, next_material(Material(), OPTIONS, START), set[bytes]()
    for _ in range(400 // days):
        before, moment = state, moment + days * DAY
        state = next_material(state, OPTIONS, moment)
        assert any(keypairs.is_signed_by(state.pair.certificate, ca) for ca in before.bundle)
        assert keypairs.spent(state.pair.certificate, moment) < 1
        if state.bundle[0] not in before.bundle:
            assert state.pair == before.pair
            assert next_material(state, OPTIONS, moment) == state, "nor does a replica that has just started sign"
            assert next_material(state, OPTIONS, moment + 70 * DAY, sign=True).bundle[0] == state.bundle[0], "due, yet no other is made"
            state = next_material(state, OPTIONS, moment, sign=True)
        assert keypairs.is_signed_by(state.pair.certificate, state.bundle[0])
        assert all(keypairs.spent(ca, moment) < 1 for ca in state.bundle)
        authorities.update(state.bundle)
    assert len(authorities) > 4


def test_damaged_secrets_are_made_anew() -> None:
    good = next_material(Material(), OPTIONS, START)
    other = next_material(Material(), OPTIONS, START)
    for broken in (
        Material(good.bundle, b"garbage", good.pair),
        Material(good.bundle, other.ca_key, good.pair),
        Material(good.bundle, good.ca_key, Pair(good.pair.certificate, other.pair.key)),
        Material(good.bundle, good.ca_key, other.pair),
        Material((), b"", good.pair),
        material_of({"data": {"ca.crt": "%%%", "tls.crt": "aGk="}}),
    ):
        mended = next_material(broken, OPTIONS, START)
        assert keypairs.fits(mended.pair)
        assert keypairs.fits(mended.ca)
        assert any(keypairs.is_signed_by(mended.pair.certificate, ca) for ca in mended.bundle)


def test_other_names_need_another_certificate() -> None:
    first = next_material(Material(), OPTIONS, START)
    moved = CertificateOptions("cert", "ns", ["elsewhere.ns.svc"], ca_life=OPTIONS.ca_life, life=OPTIONS.life)
    assert keypairs.is_for(next_material(first, moved, START).pair.certificate, ["elsewhere.ns.svc"])


async def test_replicas_that_start_together_agree() -> None:
    server, clock = FakeServer(), FakeClock()
    published: list[bytes] = []

    async def publish(bundle: bytes) -> None:
        published.append(bundle)

    used: list[Pair] = []

    async def use(pair: Pair) -> None:
        used.append(pair)

    replicas = [SelfMadeCertificates(server.client(clock), OPTIONS, use, clock, publish) for _ in range(3)]
    loading = asyncio.gather(*(replica.load() for replica in replicas))
    for _ in range(30):
        await clock.advance(0.5)
    await loading
    assert {replica.material.pair.certificate for replica in replicas} == {pair.certificate for pair in used}
    assert len({pair.certificate for pair in used}) == 1


async def test_mounted_certificates_are_used_as_they_change(tmp_path: Path) -> None:
    """Two files change one after the other, and may be gone for a moment: what does not fit together is not used."""
    first, second = (next_material(Material(), OPTIONS, START).pair for _ in range(2))
    used: list[Pair] = []

    async def use(pair: Pair) -> None:
        if not keypairs.fits(pair):
            raise ConfigError("they do not fit")
        used.append(pair)

    clock = FakeClock()
    mounted = MountedCertificates(str(tmp_path), use, clock)
    with pytest.raises(ConfigError, match="cannot be used"):
        await mounted.load()
    _write(tmp_path, first.certificate, first.key)
    await mounted.load()
    running = asyncio.create_task(mounted.run())
    for certificate, key in ((first.certificate, first.key), (second.certificate, first.key), (None, first.key)):
        _write(tmp_path, certificate, key)
        await clock.advance(10)
        assert used == [first]
    _write(tmp_path, second.certificate, second.key)
    await clock.advance(10)
    assert used == [first, second]
    running.cancel()


def _write(folder: Path, certificate: bytes | None, key: bytes) -> None:
    (folder / "tls.key").write_bytes(key)
    if certificate is None:
        (folder / "tls.crt").unlink()
    else:
        (folder / "tls.crt").write_bytes(certificate)
