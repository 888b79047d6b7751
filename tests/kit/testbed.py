"""A real Kubernetes control plane for one test run: etcd, kube-apiserver and kube-controller-manager, started in seconds.

    bed = start()                   the programs come from $KUBEBUILDER_ASSETS, else from testbed/build
    bed.kubeconfig                  an administrator with a token
    bed.service_account(…)          a kubeconfig with the rights of a ServiceAccount and nothing more
    bed.audit                       every request the API server answered
    bed.expose("ns", "svc", port)   what the API server calls the Service `svc` (webhooks!) is this port of this machine
    bed.stop()

Nothing runs pods: `tests.kit.world` plays that part, or a node joins. With $KUBECONFIG set, that cluster is used as it is.
"""
import contextlib
import fcntl
import os
import secrets
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec
import yaml

from tests.kit import credentials
from tests.kit.audit import POLICY, AuditLog
from tests.kit.network import ServiceNetwork
from tests.kit.processes import free_ports, start, stop, tail

BUILD = Path(__file__).resolve().parents[2] / "testbed" / "build"
REQUIRED = ("etcd", "kube-apiserver", "kube-controller-manager")
START_SECONDS = 120.0  # on an idle machine it takes four; two cores shared by many may need far more
ATTEMPTS = 3           # a port found free may be taken by the time the server wants it
ADMISSION = "ServiceAccount,PodSecurity,OwnerReferencesPermissionEnforcement"
MEMORY = Path("/dev/shm")
PREFIX, CLAIM, CLAIM_SECONDS = "serveplane-testbed-", "claim", 60.0

Json = dict[str, Any]


class Unavailable(Exception):
    """Why there is no real control plane here, in one sentence; tests that need one are skipped with it."""


class RequestFailed(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


@dataclass
class Testbed:
    """A running control plane. Knows how to reach it, whom to trust and how to end it."""
    __test__ = False

    url: str
    token: str
    ca: Path | None
    kubeconfig: Path
    folder: Path                     # everything written during the run; gone when it ends
    audit: AuditLog | None = None          # None on a cluster that is not ours
    network: ServiceNetwork | None = None
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    claim: IO[bytes] | None = None               # open and locked while we live; the kernel lets go of it when we do not

    def call(self, method: str, path: str, body: Json | None = None, content_type: str = "application/json") -> Json:
        """One request as the administrator; for set-up code that has no event loop yet."""
        return call(self.url, self.token, self.ca, method, path, body, content_type)

    def service_account(self, namespace: str, name: str, seconds: int = 86_400) -> Path:
        """A kubeconfig for a ServiceAccount, which is created if need be; what it may do is up to its role bindings."""
        self.ensure(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        wish = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
        token = self.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", wish)["status"]["token"]
        path = self.folder / f"{namespace}-{name}-{secrets.token_hex(4)}.kubeconfig"
        return credentials.write_kubeconfig(path, self.url, self.ca, token)

    def ensure(self, collection: str, body: Json) -> None:
        """Create an object unless it exists."""
        try:
            self.call("POST", collection, body)
        except RequestFailed as problem:
            if problem.status != 409:
                raise

    def expose(self, namespace: str, service: str, port: int) -> None:
        """Let the API server find this Service at a port of this machine, as it would through the cluster's network."""
        if self.network is None:
            raise Unavailable("Services can only be exposed on a control plane that the tests started themselves")
        self.network.expose(namespace, service, port)

    def program(self, name: str) -> Path:
        """The path of kubectl, helm, kube-scheduler …, built now if it is not there yet."""
        return program(name)

    @contextmanager
    def scheduler(self) -> Iterator[None]:
        """The real kube-scheduler, for the time of the block. It also judges pods that the world would play."""
        config = self.folder / "scheduler.log"
        process = start([program("kube-scheduler"), "--kubeconfig", self.kubeconfig, "--leader-elect=false", "--secure-port=0"], config)
        try:
            yield
        finally:
            stop(process)

    def stop_program(self, name: str) -> None:
        """End one program now, without warning it."""
        self.processes[name].kill()
        self.processes[name].wait()

    def stop(self) -> None:
        for process in reversed(list(self.processes.values())):
            stop(process)
        if self.network:
            self.network.close()
        if self.claim:
            self.claim.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def start_testbed() -> Testbed:
    """A control plane that answers and has its default ServiceAccount, so pods can be created at once."""
    if os.environ.get("KUBECONFIG"):
        return _existing(Path(os.environ["KUBECONFIG"]))
    programs = {name: program(name) for name in REQUIRED}
    for attempt in range(ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_fast_folder()))
        _sweep(folder.parent)
        try:
            return _launch(programs, folder)
        except RuntimeError:
            if attempt + 1 == ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def program(name: str) -> Path:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and (Path(assets) / name).exists():
        return Path(assets) / name
    with subprocess.Popen([sys.executable, BUILD, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as build:
        assert build.stdout
        assert build.stderr
        told = [_say(line) for line in build.stderr]
        folder = build.stdout.read().strip()
    if build.returncode:
        raise Unavailable("".join(told[-5:]).strip())
    return Path(folder) / name


def _say(line: str) -> str:
    sys.stderr.write(line)
    sys.stderr.flush()
    return line


def call(url: str, token: str, ca: Path | None, method: str, path: str, body: Json | None = None,
         content_type: str = "application/json", timeout: float = 10) -> Json:
    trust = ssl.create_default_context(cafile=ca) if ca else ssl._create_unverified_context()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": content_type, "User-Agent": "testbed"}
    data = msgspec.json.encode(body) if body is not None else None
    request = urllib.request.Request(url + path, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, context=trust, timeout=timeout) as answer:
            text = answer.read()
    except urllib.error.HTTPError as problem:
        raise RequestFailed(problem.code, problem.read().decode(errors="replace")[:1000]) from None
    return msgspec.json.decode(text) if text.startswith(b"{") else {}


def _fast_folder() -> Path | None:
    """Memory, where there is enough of it: etcd then never waits for a disk that others keep busy."""
    return MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 2 << 30 else None


def _claim(folder: Path) -> IO[bytes]:
    claim = (folder / CLAIM).open("wb")
    fcntl.flock(claim, fcntl.LOCK_EX)
    return claim


def _sweep(parent: Path) -> None:
    """Remove what killed test runs left behind: folders that were claimed, and whose claim nobody holds any more."""
    for claim in parent.glob(f"{PREFIX}*/{CLAIM}"):
        with contextlib.suppress(OSError), claim.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - claim.stat().st_mtime > CLAIM_SECONDS:      # not one that is being claimed right now
                shutil.rmtree(claim.parent, ignore_errors=True)


def _existing(kubeconfig: Path) -> Testbed:
    content = yaml.safe_load(kubeconfig.read_text())
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    if "token" not in user:
        raise Unavailable(f"KUBECONFIG={kubeconfig} has no token user, which the tests need")
    folder = Path(tempfile.mkdtemp(prefix="serveplane-testbed-"))
    ca = Path(cluster["certificate-authority"]) if "certificate-authority" in cluster else None
    bed = Testbed(cluster["server"], user["token"], ca, kubeconfig, folder)
    try:
        services = bed.call("GET", "/apis/serving.kserve.io/v1beta1/inferenceservices")["items"]
    except RequestFailed:
        services = []
    if services:
        raise Unavailable(f"the cluster of KUBECONFIG={kubeconfig} has InferenceServices: it is in use, tests would disturb it")
    return bed


def _launch(programs: dict[str, Path], folder: Path) -> Testbed:
    """Everything running and ready, or nothing at all."""
    etcd_port, peer_port, port = free_ports(3)
    authority, tokens = credentials.Authority(folder), credentials.signing_key(folder)
    token = secrets.token_hex(16)
    credentials.write_secret(folder / "tokens.csv", f'{token},admin,admin,"system:masters"\n'.encode())
    url = f"https://127.0.0.1:{port}"
    kubeconfig = credentials.write_kubeconfig(folder / "admin.kubeconfig", url, authority.certificate, token)
    bed = Testbed(url, token, authority.certificate, kubeconfig, folder, AuditLog(folder / "audit.log"), claim=_claim(folder))
    bed.network = ServiceNetwork(lambda path: bed.call("GET", path))
    commands = {
        "etcd": _etcd(folder, etcd_port, peer_port),
        "kube-apiserver": _apiserver(folder, port, etcd_port, authority, tokens, bed.network),
        "kube-controller-manager": _controller_manager(folder, kubeconfig, authority, tokens),
    }
    try:
        for name in ("etcd", "kube-apiserver"):
            bed.processes[name] = start([programs[name], *commands[name]], folder / f"{name}.log")
        _await(lambda: bed.call("GET", "/readyz"), bed)
        last = "kube-controller-manager"      # it gives up if the API server is not there yet
        bed.processes[last] = start([programs[last], *commands[last]], folder / f"{last}.log")
        _await(lambda: bed.call("GET", "/api/v1/namespaces/default/serviceaccounts/default"), bed)
    except BaseException:
        bed.stop()
        raise
    return bed


def _etcd(folder: Path, port: int, peer_port: int) -> list[str | Path]:
    address, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return ["--data-dir", folder / "etcd", "--unsafe-no-fsync", "--listen-client-urls", address, "--advertise-client-urls", address,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
            "--log-level", "warn", "--quota-backend-bytes", str(4 << 30)]


def _apiserver(folder: Path, port: int, etcd_port: int, authority: credentials.Authority, tokens: credentials.KeyPair,
               network: ServiceNetwork) -> list[str | Path]:
    serving = authority.server("kube-apiserver", ["127.0.0.1", "localhost", "kubernetes.default.svc", "10.0.0.1"])
    to_nodes = authority.client("kube-apiserver-kubelet-client", ["system:masters"])
    return [
        "--etcd-servers", f"http://127.0.0.1:{etcd_port}", "--bind-address", "127.0.0.1", "--secure-port", str(port),
        "--tls-cert-file", serving.certificate, "--tls-private-key-file", serving.key, "--client-ca-file", authority.certificate,
        "--kubelet-client-certificate", to_nodes.certificate, "--kubelet-client-key", to_nodes.key,
        "--token-auth-file", folder / "tokens.csv", "--authorization-mode", "Node,RBAC",
        "--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", tokens.certificate,
        "--service-account-signing-key-file", tokens.key, "--service-cluster-ip-range", "10.0.0.0/16",
        "--enable-admission-plugins", ADMISSION, "--allow-privileged", "--endpoint-reconciler-type", "none",
        "--audit-log-path", folder / "audit.log", "--audit-log-maxsize", "8192",   # in MB: readers follow one file
        "--audit-policy-file", _written(folder / "audit.json", POLICY),
        "--egress-selector-config-file", _written(folder / "egress.json", network.egress_selection()),
        "--profiling=false", "--v=0",
    ]


def _controller_manager(folder: Path, kubeconfig: Path, authority: credentials.Authority, tokens: credentials.KeyPair) -> list[str | Path]:
    return ["--kubeconfig", kubeconfig, "--root-ca-file", authority.certificate, "--service-account-private-key-file", tokens.key,
            "--leader-elect=false", "--secure-port=0", "--kube-api-qps=2000", "--kube-api-burst=4000",
            "--concurrent-deployment-syncs=16", "--concurrent-replicaset-syncs=16", "--concurrent-namespace-syncs=16",
            "--min-resync-period=12h", "--profiling=false", "--v=0"]


def _written(path: Path, content: Json) -> Path:
    path.write_bytes(msgspec.json.encode(content))    # JSON is YAML, so every Kubernetes program reads it
    return path


def _await(question: Any, bed: Testbed) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            question()
            return
        except (OSError, RequestFailed) as problem:
            ended = [name for name, process in bed.processes.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "\n".join(f"{name}: {tail(bed.folder / f'{name}.log')}" for name in ended or bed.processes)
                raise RuntimeError(f"the control plane did not come up ({problem})\n{logs}") from problem
            time.sleep(0.05)
