"""What listens on loopback answers only to its own names, and keeps its keys to itself."""

import ssl
from pathlib import Path

import pytest

from serveplane.embedded.apiserver import ADMIN
from serveplane.embedded.apiserver.pki import Authority
from serveplane.embedded.testing import api_server
from serveplane.http import Client
from serveplane.kube.client import Client as KubeClient
from serveplane.kube.config import load_config
from serveplane.kube.http_transport import HttpTransport
from serveplane.kube.keypairs import is_signed_by


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1", 200), ("localhost", 200), ("[::1]", 200), ("rebound.example.com", 421)])
async def test_only_own_names_are_answered(tmp_path: Path, host: str, status: int) -> None:
    async with api_server(tmp_path / "data", https=True) as server:
        assert server.endpoint is not None
        client = Client(tls=ssl.create_default_context(cafile=str(server.endpoint.ca_file)))
        try:
            response = await client.request("GET", f"{server.url}/version", headers={"Host": host})
            await response.read()
        finally:
            await client.close()
    assert response.status == status


async def test_the_folder_and_the_kubeconfig_are_private(tmp_path: Path) -> None:
    async with api_server(tmp_path / "data", https=True) as server:
        assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
        assert server.kubeconfig.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("missing", ["ca.crt", "ca.key", "server.crt", "server.key"])
def test_a_pair_of_which_one_file_is_missing_is_made_anew(tmp_path: Path, missing: str) -> None:
    Authority(tmp_path).issue("server", "localhost", server=True)
    (tmp_path / missing).unlink()
    again = Authority(tmp_path)
    assert is_signed_by(again.issue("server", "localhost", server=True).certificate.read_bytes(), again.pair.certificate.read_bytes())


async def test_a_warning_can_say_anything(tmp_path: Path) -> None:
    """The object is stored, so the answer has to come, whatever is wrong with its fields."""
    heard: list[str] = []
    async with api_server(tmp_path / "data", https=True) as server:
        client = KubeClient(HttpTransport(load_config(str(server.kubeconfig))))
        client.rest.warn = heard.append
        odd = {"поле": 1, "x, 299 - y": 1, 'back\\slash"': 1, "two\nlines": 1}
        await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd", "namespace": "default"}, **odd})
        await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "many", "namespace": "default"},
                             **{f"field{number}" * 30: 1 for number in range(300)}})
        await client.close()
    assert heard[:3] == ['unknown field "поле"', 'unknown field "x, 299 - y"', 'unknown field "back\\slash""']
    assert 10 < len(heard) < 30


async def test_somebody_may_be_in_several_groups(tmp_path: Path) -> None:
    async with api_server(tmp_path / "data", https=True) as server:
        server.core.authenticator.add_static("secret", ADMIN)
        assert server.endpoint is not None
        client = Client(tls=ssl.create_default_context(cafile=str(server.endpoint.ca_file)))
        headers = [("Authorization", "Bearer secret"), ("Content-Type", "application/json"), ("Impersonate-User", "jane"),
                   ("Impersonate-Group", "one"), ("Impersonate-Group", "two")]  # fmt: skip
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        try:
            response = await client.request("POST", server.url + path, headers=headers, body=b"{}")
            who = (await response.json())["status"]["userInfo"]
        finally:
            await client.close()
    assert (who["username"], {"one", "two"} <= set(who["groups"])) == ("jane", True)
