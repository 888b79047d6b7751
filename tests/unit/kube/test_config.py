"""Kubeconfigs and pods' files: read as kubectl reads them, and every fault told in one line that names the file."""

import base64
import os
import sys
from pathlib import Path

import pytest

from serveplane.http.origin import Origin
from serveplane.kube.config import load_config
from serveplane.kube.credentials import ExecCredentials, TokenFile
from serveplane.kube.errors import ConfigError
from serveplane.kube.proxies import is_excepted, proxy_for
from tests.unit.kube.clocks import FakeClock

GOOD = """
apiVersion: v1
kind: Config
current-context: one
contexts:
- name: one
  context: {cluster: c, user: u, namespace: team}
- name: two
  context: {cluster: c, user: cert}
clusters:
- name: c
  cluster: {server: "https://example:6443/", certificate-authority: ca.pem}
users:
- name: u
  user: {token: secret}
- name: cert
  user: {client-certificate-data: aGk=, client-key-data: aGk=}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ca.pem").write_text("not yet looked at")
    (tmp_path / "config").write_text(GOOD)
    return tmp_path


async def test_a_context_is_put_together(folder: Path) -> None:
    config = load_config(str(folder / "config"))
    assert (config.server, config.namespace, config.ca) == ("https://example:6443", "team", b"not yet looked at")
    assert config.credentials is not None
    assert await config.credentials.header() == "Bearer secret"
    other = load_config(str(folder / "config"), context="two")
    assert (other.client_certificate, other.namespace) == (b"hi", "default")


def test_a_proxy_may_stand_in_between(folder: Path) -> None:
    (folder / "proxied").write_text(GOOD.replace("certificate-authority: ca.pem", "proxy-url: 'https://me:word@proxy.acme'"))
    proxy = load_config(str(folder / "proxied")).proxy
    assert proxy is not None
    assert (proxy.host, proxy.port, proxy.tls, proxy.authorization) == ("proxy.acme", 443, True, "Basic bWU6d29yZA==")


@pytest.mark.parametrize(("environment", "proxy"), [
    ({"HTTPS_PROXY": "http://p:3128"}, ("p", 3128)), ({"https_proxy": "p:3128", "NO_PROXY": "other, 10.0.0.0/8"}, ("p", 3128)),
    ({"HTTP_PROXY": "http://p:3128"}, None), ({"HTTPS_PROXY": "http://p:3128", "no_proxy": "example"}, None),
    ({"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "*"}, None), ({"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "example:1"}, ("p", 3128)),
    ({"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "example:6443"}, None)])
def test_the_environment_may_name_a_proxy(folder: Path, environment: dict[str, str], proxy: tuple[str, int] | None) -> None:
    found = load_config(str(folder / "config"), environment=environment).proxy
    assert found[:2] == proxy if found else proxy is None


@pytest.mark.parametrize(("host", "exceptions", "expected"), [
    ("10.1.2.3", "10.0.0.0/8", True), ("11.1.2.3", "10.0.0.0/8", False), ("10.1.2.3", "10.1.2.3", True), ("10.1.2.3", "no/network", False),
    ("a.svc", ".svc", True), ("svc", ".svc", False), ("a.svc", "svc", True), ("asvc", "svc", False), ("a.svc", "*.svc", True),
    ("fd00::1", "[fd00::1]:443", True), ("fd00::1", "[fd00::1]:6443", False), ("fd00::1", "fd00::/8", True), ("fd00::1", "fd00::1", True)])
def test_exceptions_from_a_proxy(host: str, exceptions: str, expected: bool) -> None:
    assert is_excepted(host, 443, exceptions) is expected


def test_a_file_names_its_proxy_before_the_environment_does(folder: Path) -> None:
    (folder / "proxied").write_text(GOOD.replace("certificate-authority: ca.pem", "proxy-url: http://nearer:1"))
    found = load_config(str(folder / "proxied"), environment={"HTTPS_PROXY": "http://p:3128"}).proxy
    assert found is not None
    assert found.host == "nearer"


@pytest.mark.parametrize("server", ["https://127.0.0.1:6443", "https://localhost:6443", "https://[::1]:6443"])
def test_no_proxy_stands_before_this_machine(server: str) -> None:
    assert proxy_for(Origin.of(server), {"HTTPS_PROXY": "http://p:3128"}) is None


def test_a_proxy_that_cannot_be_used_is_named(folder: Path) -> None:
    with pytest.raises(ConfigError, match="HTTPS_PROXY"):
        load_config(str(folder / "config"), environment={"HTTPS_PROXY": "socks5://p"})


def test_the_first_of_several_files_wins(folder: Path) -> None:
    (folder / "second").write_text(
        GOOD.replace("current-context: one", "current-context: two").replace("namespace: team", "namespace: other")
    )
    paths = os.pathsep.join([str(folder / "config"), str(folder / "absent"), str(folder / "second")])
    assert load_config(environment={"KUBECONFIG": paths}).namespace == "team"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not a readable kubeconfig"),
        ("just words", "holds no mapping"),
        ("{}", "no current-context"),
        ("current-context: x", "there is no context 'x'"),
        (GOOD.replace("cluster: c,", "cluster: d,"), "there is no cluster 'd' (known: c)"),
        (GOOD.replace("ca.pem", "missing.pem"), "missing.pem cannot be read"),
        (
            GOOD.replace("client-certificate-data: aGk=", "client-certificate-data: '%%'").replace(
                "current-context: one", "current-context: two"
            ),
            "is not base64",
        ),
        (GOOD.replace("user: {token: secret}", "user: {auth-provider: {name: gcp}}"), "no longer supported"),
        (GOOD.replace("user: {token: secret}", "user: {tokenFile: nowhere}"), "nowhere cannot be read"),
        (GOOD.replace("certificate-authority: ca.pem", "proxy-url: socks5://p"), "proxy-url must be an http"),
        (GOOD.replace("https://example:6443", "example:6443"), "server: not an http(s) URL"),
        (GOOD.replace("contexts:\n- name", "contexts:\n- nom"), "list of named entries"),
    ],
)
def test_bad_files_are_told_in_one_line(folder: Path, text: str, says: str) -> None:
    (folder / "bad").write_text(text)
    with pytest.raises(ConfigError) as error:
        load_config(str(folder / "bad"))
    assert says in str(error.value)
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)


def test_bad_certificates_are_told_in_one_line(folder: Path) -> None:
    config = load_config(str(folder / "config"))
    with pytest.raises(ConfigError, match="not a PEM certificate"):
        config.ssl_context()


def test_nowhere_to_go_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="set KUBECONFIG"):
        load_config(environment={"HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match="No such file"):
        load_config(str(tmp_path / "none"))


async def test_a_pods_token_is_read_again(tmp_path: Path) -> None:
    for name, text in (("token", "first"), ("namespace", "here"), ("ca.crt", "x")):
        (tmp_path / name).write_text(text)
    environment = {
        "KUBERNETES_SERVICE_HOST": "fd00::1",
        "KUBERNETES_SERVICE_PORT": "443",
        "SERVEPLANE_POD_MOUNTS": f'{{"/var/run/secrets/kubernetes.io/serviceaccount": "{tmp_path}"}}',
    }
    config = load_config(environment=environment)
    assert (config.server, config.namespace) == ("https://[fd00::1]:443", "here")
    clock = FakeClock()
    token = TokenFile(tmp_path / "token", clock)
    assert await token.header() == "Bearer first"
    (tmp_path / "token").write_text("second")
    assert await token.header() == "Bearer first"
    clock.time += 61
    assert await token.header() == "Bearer second"
    (tmp_path / "token").unlink()
    assert await token.header(renew=True) == "Bearer second", "a bad moment is no reason to stop"


def plugin(folder: Path, body: str) -> ExecCredentials:
    script = folder / "plugin.py"
    script.write_text(body)
    spec = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script)],
        "env": [{"name": "EXTRA", "value": "e"}],
        "provideClusterInfo": True,
    }
    return ExecCredentials(spec, "https://example", base64.b64encode(b"ca"), "kubeconfig", FakeClock())


PRINTS = """
import json, os, pathlib
count = pathlib.Path(__file__).with_suffix(".count")
n = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(n))
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert info["spec"]["cluster"]["server"] == "https://example" and os.environ["EXTRA"] == "e"
print(json.dumps({"status": {"token": f"t{n}", "expirationTimestamp": "2026-01-01T00:01:00Z"}}))
"""


async def test_exec_plugins_are_run_when_a_token_is_due(tmp_path: Path) -> None:
    credentials = plugin(tmp_path, PRINTS)
    assert await credentials.header() == "Bearer t1"
    assert await credentials.header() == "Bearer t1"
    assert await credentials.header(renew=True) == "Bearer t2"
    credentials._clock.time = 55  # type: ignore[attr-defined]
    assert await credentials.header() == "Bearer t3"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("import sys; sys.exit('please log in')", "failed with 1: please log in"),
        ("print('hello')", "printed no ExecCredential"),
    ],
)
async def test_exec_plugins_that_fail_are_told(tmp_path: Path, body: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        await plugin(tmp_path, body).header()


async def test_a_missing_plugin_tells_its_install_hint() -> None:
    spec = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "no-such-plugin",
        "installHint": "get it at example.com",
    }
    with pytest.raises(ConfigError, match="get it at"):
        await ExecCredentials(spec, "", None, "kubeconfig").header()


def test_acting_as_someone_else(folder: Path) -> None:
    user = "user: {token: secret, as: ann, as-groups: [dev, ops], as-user-extra: {scope: [a]}}"
    (folder / "other").write_text(GOOD.replace("user: {token: secret}", user))
    assert load_config(str(folder / "other")).impersonation == (
        ("impersonate-user", "ann"),
        ("impersonate-group", "dev"),
        ("impersonate-group", "ops"),
        ("impersonate-extra-scope", "a"),
    )
