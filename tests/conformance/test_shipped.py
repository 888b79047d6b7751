"""What we ship is what KServe ships: runtimes, storage container and central settings, object by object."""
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.compare import differences
from tests.conformance.recorded import GOLDEN, REPOSITORY
from tests.kit.api import documents

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no recorded cases in {GOLDEN} (set SERVEPLANE_GOLDEN)")
Json = dict[str, Any]


@pytest.mark.parametrize(("recorded", "folder"), [
    ("clusterservingruntimes", "runtimes"), ("clusterstoragecontainers", "storagecontainers")])
def test_shipped_objects_are_the_recorded_ones(recorded: str, folder: str) -> None:
    files = [file for file in (REPOSITORY / "config" / folder).glob("*.yaml") if file.name != "kustomization.yaml"]
    ours = [obj for file in files for obj in documents(file)]
    assert differences({"object": documents(GOLDEN / "baseline" / f"{recorded}.yaml")}, {"object": ours}) == []


def test_the_central_settings_are_the_recorded_ones() -> None:
    assert settings(REPOSITORY / "config" / "configmap" / "inferenceservice.yaml") == settings(GOLDEN / "baseline" / "configmaps.yaml")


def settings(file: Path) -> Json:
    [found] = [obj for obj in documents(file) if obj["metadata"]["name"] == "inferenceservice-config"]
    return {key: json.loads(text) for key, text in found["data"].items() if text.lstrip().startswith("{") and not key.startswith("_")}
