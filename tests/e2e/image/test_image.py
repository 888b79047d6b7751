"""The image's file tree, run as an unprivileged user on a read-only root."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from serveplane.cli.manifests import objects
from tests.kit import image

# A target of the Dockerfile, what /manager is in it, and how that program answers to --help, or that it is still to come.
TARGETS = {
    "kserve-controller": ("kserve", "--leader-elect"),
    "llmisvc-controller": ("llmisvc", "llmisvc is not part of this release yet"),
    "kserve-localmodel-controller": ("localmodel", "localmodel is not part of this release yet"),
    "kserve-localmodelnode-agent": ("localmodelnode", "localmodelnode is not part of this release yet"),
}


def run(tree: Path, *arguments: str, handed: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(image.command(tree, *arguments, handed=handed), capture_output=True, text=True, timeout=60)


@contextmanager
def being(tree: Path, text: str) -> Iterator[None]:
    """The tree with another /manager: the targets differ in nothing else."""
    probe = tree / "manager"
    kept = probe.read_text()
    probe.write_text(text)
    try:
        yield
    finally:
        probe.write_text(kept)


def test_every_program_has_a_target_and_manifests_name_no_other() -> None:
    target = r"^FROM controller AS (\S+)\nCOPY --chmod=755 scripts/manager/(\S+) /manager$"
    found = re.findall(target, (image.ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert dict(found) == {target: program for target, (program, _) in TARGETS.items()}
    workloads = [obj for obj in [*objects("manager"), *objects("localmodelnodes")] if obj["kind"] in ("Deployment", "DaemonSet")]
    named = {obj["spec"]["template"]["spec"]["containers"][0]["image"] for obj in workloads}
    assert {name.removeprefix("serveplane/").split(":")[0] for name in named} <= set(TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_manager_is_that_program(tree: Path, target: str) -> None:
    program, told = TARGETS[target]
    is_here = told.startswith("--")
    with being(tree, (image.ROOT / "scripts/manager" / program).read_text()):
        result = run(tree, *(["--help"] if is_here else []))
    assert told in result.stdout + result.stderr
    assert (result.returncode == 0) is is_here, result.stderr


def test_the_root_is_read_only_and_the_user_nobody(tree: Path) -> None:
    with being(tree, "#!/bin/sh\n[ -w / ] && echo writable\necho x > /x && echo wrote\necho x > /tmp/x && echo tmp\n"):
        result = run(tree)
    assert result.stdout.split() == ["tmp"]


def test_the_storage_initializer_brings_a_model_as_nobody(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text("weights\n")
    fetch = "serveplane storage-initializer file:///tmp/model.json /tmp/out && read -r line < /tmp/out/model.json && echo $line"
    with being(tree, f"#!/bin/sh\n{fetch}\n"):
        result = run(tree, handed=tmp_path)
    assert result.stdout.splitlines()[-1:] == ["weights"], result.stderr
