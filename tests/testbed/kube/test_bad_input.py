"""What a person sees when something is wrong from the start: one line, saying what to do."""

import asyncio
import datetime
import sys
from pathlib import Path

import pytest
import yaml

from serveplane.kube import Client, Kind, keypairs
from serveplane.kube.config import load_config
from serveplane.kube.controller import Controller
from serveplane.kube.errors import KubeError, NoSuchKind, Unauthorized, Unreachable, one_line
from serveplane.kube.http_transport import HttpTransport
from serveplane.kube.kind import Key
from serveplane.kube.manager import Manager, ManagerOptions
from serveplane.kube.watches import Primary
from tests.kit.processes import free_ports
from tests.kit.testbed import Testbed

pytestmark = pytest.mark.testbed
POD = Kind("v1", "Pod")


def edited(testbed: Testbed, path: Path, **changes: object) -> Path:
    config = yaml.safe_load(testbed.kubeconfig.read_text())
    config["clusters"][0]["cluster"] |= changes.get("cluster", {})
    config["users"][0]["user"] |= changes.get("user", {})
    path.write_text(yaml.safe_dump(config))
    return path


async def line(kubeconfig: Path, kind: Kind = POD, sync: float = 6.0) -> str:
    """What a manager for a kind says when it cannot start."""

    async def reconcile(key: Key) -> None:
        return None

    transport = HttpTransport(load_config(str(kubeconfig)))
    manager = Manager(transport, ManagerOptions(sync_seconds=sync))
    manager.add(Controller("test", reconcile, [Primary(kind)]))
    with pytest.raises(KubeError) as error:
        await asyncio.wait_for(manager.run(), 120)
    await transport.close()
    text = one_line(error.value)
    assert "\n" not in text
    return text


async def test_a_wrong_ca(testbed: Testbed, tmp_path: Path) -> None:
    other = tmp_path / "other.crt"
    now = datetime.datetime.now(datetime.UTC)
    other.write_bytes(keypairs.authority("somebody else", now, datetime.timedelta(hours=1)).certificate)
    bad = edited(
        testbed, tmp_path / "config", cluster={"certificate-authority": str(other), "certificate-authority-data": None}
    )
    said = await line(bad)
    assert "its certificate is not trusted" in said
    assert "certificate-authority" in said


async def test_nobody_listens(testbed: Testbed, tmp_path: Path) -> None:
    said = await line(edited(testbed, tmp_path / "config", cluster={"server": f"https://127.0.0.1:{free_ports(1)[0]}"}))
    assert "cannot be reached" in said


async def test_an_expired_token(testbed: Testbed, tmp_path: Path) -> None:
    assert "log in again or renew" in await line(
        edited(testbed, tmp_path / "config", user={"token": "no longer valid"})
    )


async def test_a_missing_permission(testbed: Testbed, namespace: str) -> None:
    said = await line(testbed.service_account(namespace, "powerless"))
    assert "cannot list resource" in said
    assert "grant the named permission" in said


async def test_an_absent_crd(testbed: Testbed) -> None:
    said = await line(testbed.kubeconfig, Kind("nowhere.example/v1", "Nothing"))
    assert "does not serve Nothing in nowhere.example/v1" in said
    assert "install the CustomResourceDefinition" in said


async def test_a_program_prints_that_line_and_fails(testbed: Testbed, tmp_path: Path, namespace: str) -> None:
    bad = edited(testbed, tmp_path / "config", user={"token": "no longer valid"})
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.testbed.kube.example",
        str(bad),
        "me",
        namespace,
        "15",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    _, stderr = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 1
    assert [text[:7] for text in stderr.decode().splitlines()] == ["error: "]


async def test_single_requests_say_the_same(testbed: Testbed, tmp_path: Path) -> None:
    client = Client(HttpTransport(load_config(str(edited(testbed, tmp_path / "config", user={"token": "x"})))))
    with pytest.raises(Unauthorized):
        await client.list(POD)
    await client.close()
    assert issubclass(NoSuchKind, KubeError)
    assert issubclass(Unreachable, KubeError)
