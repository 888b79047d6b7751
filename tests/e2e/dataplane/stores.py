"""Object stores that others wrote, as processes: moto for S3, gcp-storage-emulator for Google's, Azurite for Azure's, the reference
registry of container images.

They are filled by the makers' own clients, so nothing here shares a misunderstanding with what is tested. Installed once into the
user's cache folder; None where that cannot be done.
"""
import base64
import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from bench import peers

from tests.kit.processes import free_ports, start, stop, tail

PACKAGES = ("moto[server]==5.2.5", "gcp-storage-emulator==2026.7.19", "azure-storage-blob==12.27.1")
AZURITE = "azurite@3.35.0"
REGISTRY, CRANE = "github.com/distribution/distribution/v3/cmd/registry@v3.1.2", "github.com/google/go-containerregistry/cmd/crane@v0.22.1"
LOGIN = "user:hidden-password"
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = base64.b64encode(b"a key of this test alone").decode()

FILL_S3 = """
import os, sys, boto3
from boto3.s3.transfer import TransferConfig
from pathlib import Path
client = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="s")
client.create_bucket(Bucket="bucket")
parts = TransferConfig(multipart_threshold=6 << 20, multipart_chunksize=5 << 20)
for path in Path(sys.argv[2]).rglob("*"):
    if path.is_file():
        client.upload_file(str(path), "bucket", str(path.relative_to(sys.argv[2])), Config=parts)
client.put_object(Bucket="bucket", Key="models/iris/folder/", Body=b"")
"""
FILL_AZURE = """
import datetime, sys
from pathlib import Path
from azure.storage.blob import ContainerClient, ContainerSasPermissions, generate_container_sas
account, key = sys.argv[3:5]
client = ContainerClient(f"{sys.argv[1]}/{account}", "bucket", credential={"account_name": account, "account_key": key})
client.create_container()
for path in Path(sys.argv[2]).rglob("*"):
    if path.is_file():
        client.upload_blob(str(path.relative_to(sys.argv[2])), path.read_bytes())
expiry = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
print(generate_container_sas(account, "bucket", account_key=key, expiry=expiry, permission=ContainerSasPermissions(read=True, list=True)))
"""


def python() -> Path | None:
    return peers.environment(PACKAGES)


def azurite() -> Path | None:
    """The program, installed once."""
    folder = peers.CACHE / AZURITE.replace("@", "-")
    program = folder / "node_modules" / ".bin" / "azurite-blob"
    if not program.exists() and shutil.which("npm"):
        folder.mkdir(parents=True, exist_ok=True)
        words = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder), AZURITE]
        with contextlib.suppress(subprocess.SubprocessError, OSError):
            subprocess.run(words, check=True, capture_output=True, timeout=300)
    return program if program.exists() else None


@contextlib.contextmanager
def running(words: list[str | Path], port: int, log: Path, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of a store once it answers."""
    process = start(words, log, environment)
    try:
        deadline = time.monotonic() + 120
        while not answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the store does not answer:\n{tail(log)}")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        stop(process)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def s3(python: Path, content: Path, log: Path) -> Iterator[str]:
    [port] = free_ports(1)
    with running([python.with_name("moto_server"), "-H", "127.0.0.1", "-p", str(port)], port, log) as url:
        filled(python, FILL_S3, url, content)
        yield url


@contextlib.contextmanager
def gcs(python: Path, content: Path, log: Path) -> Iterator[str]:
    import urllib.parse
    import urllib.request

    [port] = free_ports(1)
    program = python.with_name("gcp-storage-emulator")
    words = [program, "start", "--host", "127.0.0.1", "--port", str(port), "-M", "--default-bucket", "bucket"]
    with running(words, port, log) as url:
        for path in content.rglob("*"):
            if path.is_file():
                name = urllib.parse.quote(str(path.relative_to(content)), safe="")
                request = urllib.request.Request(f"{url}/upload/storage/v1/b/bucket/o?uploadType=media&name={name}", path.read_bytes())
                urllib.request.urlopen(request, timeout=30).close()
        yield url


@contextlib.contextmanager
def azure(python: Path, program: Path, content: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """The address, and a signature that allows reading."""
    [port] = free_ports(1)
    words = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", folder / "azurite", "--skipApiVersionCheck",
             "--disableTelemetry"]
    with running(words, port, folder / "azurite.log", {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}) as url:
        yield url, filled(python, FILL_AZURE, url, content, ACCOUNT, ACCOUNT_KEY)


def go_program(package: str, build: bool = True) -> Path | None:
    """A Go program at a version, built once if it may be."""
    folder = peers.CACHE / package.removeprefix("github.com/").replace("/", "-").replace("@", "-")
    program = folder / package.partition("@")[0].rpartition("/")[2]
    if build and not program.exists() and shutil.which("go"):
        with contextlib.suppress(subprocess.SubprocessError, OSError):
            subprocess.run(["go", "install", package], check=True, capture_output=True, timeout=600, cwd="/",
                           env={**os.environ, "GOBIN": str(folder)})
    return program if program.exists() else None


@contextlib.contextmanager
def registry(program: Path | None, crane: Path, folder: Path) -> Iterator[str]:
    """The reference registry, which lets nobody in without LOGIN; without it that of `crane`, which asks nobody."""
    [port] = free_ports(1)
    folder.mkdir()
    if program is None:
        with running([crane, "registry", "serve", "--address", f"127.0.0.1:{port}"], port, folder / "log") as url:
            yield url.removeprefix("http://")
        return
    (folder / "passwords").write_text("user:$2b$04$2xWITBene3sjuJqspHuWMeBH0fGlde/s90xnEW9IliwdYDx9jl2.m\n")   # bcrypt of LOGIN's
    (folder / "config.yaml").write_text(msgspec.json.encode({
        "version": "0.1", "storage": {"filesystem": {"rootdirectory": str(folder / "data")}}, "http": {"addr": f"127.0.0.1:{port}"},
        "auth": {"htpasswd": {"realm": "here", "path": str(folder / "passwords")}}}).decode())
    with running([program, "serve", folder / "config.yaml"], port, folder / "log") as url:
        yield url.removeprefix("http://")


def fileserver(folder: Path) -> Path | None:
    """Go's own HTTP server, built here."""
    program = folder / "fileserver"
    words = ["go", "build", "-o", str(program), str(Path(__file__).with_name("fileserver") / "main.go")]
    if not shutil.which("go") or subprocess.run(words, capture_output=True, check=False, timeout=300, cwd=folder).returncode:
        return None
    return program


@contextlib.contextmanager
def web(program: Path, content: Path, log: Path, *tls: Path) -> Iterator[str]:
    [port] = free_ports(1)
    with running([program, content, f"127.0.0.1:{port}", *tls], port, log) as url:
        yield url.replace("http:", "https:") if tls else url


def filled(python: Path, script: str, *words: str | Path) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY")}
    done = subprocess.run([python, "-c", script, *words], capture_output=True, text=True, timeout=120, check=False, env=clean)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()
