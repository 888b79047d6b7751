"""The recorded cases: what a user did, and everything that KServe's control plane was seen to make of it.

A case is a folder AREA/NAME with `input.yaml` or `step-1.yaml`, `step-2.yaml` …, and the observation after the last step;
those after the steps before are in `after-1`, `after-2` … The README beside them has the details.
"""
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.kit.api import documents

Json = dict[str, Any]
Observation = dict[str, list[Json]]        # "children", "object", "status", "gone", "pods" -> documents

REPOSITORY = Path(__file__).resolve().parents[2]
GOLDEN = Path(os.environ.get("SERVEPLANE_GOLDEN") or REPOSITORY.parent / "shared" / "golden")
PARTS = ("children", "object", "status", "gone", "pods")


@dataclass(frozen=True)
class Step:
    objects: list[Json]
    is_delete: bool
    expected: Observation


@dataclass(frozen=True)
class Case:
    folder: Path

    @property
    def area(self) -> str:
        return self.folder.parent.name

    @property
    def name(self) -> str:
        """Also the namespace it plays in."""
        return self.folder.name

    def __str__(self) -> str:
        return f"{self.area}/{self.name}"

    @cached_property
    def settings(self) -> Json:
        """What is merged into the JSON values of the central ConfigMap while the case runs."""
        file = self.folder / "config.yaml"
        return documents(file)[0] if file.exists() else {}

    @cached_property
    def steps(self) -> list[Step]:
        files = sorted(self.folder.glob("step-*.yaml"), key=_number) or [self.folder / "input.yaml"]
        folders = [self.folder / f"after-{n}" for n in range(1, len(files))] + [self.folder]
        return [Step(documents(file), file.name.endswith(".delete.yaml"), _observation(folder))
                for file, folder in zip(files, folders, strict=True)]

    @property
    def accounts(self) -> set[str]:
        """ServiceAccounts that the case speaks of but does not bring: the cases were recorded on a server that did not ask for them."""
        if self.area == "llmisvc":         # there the controller makes them
            return set()
        brought = {obj["metadata"]["name"] for step in self.steps for obj in step.objects if obj["kind"] == "ServiceAccount"}
        return set(_named(self.steps, "serviceAccountName")) - brought - {"default"}

    @property
    def is_refused(self) -> bool:
        """Whether the API refused the last request."""
        return (self.folder / "rejected.txt").exists()

    @property
    def never_settled(self) -> bool:
        return (self.folder / "unsettled.txt").exists()


def cases() -> list[Case]:
    return [Case(folder) for folder in sorted(GOLDEN.glob("*/*")) if (folder / "input.yaml").exists() or (folder / "step-1.yaml").exists()]


def _named(value: Any, field: str) -> Iterator[str]:
    """Every text under a field of that name, however deep."""
    if isinstance(value, Step):
        yield from _named(value.objects, field)
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner, field)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key == field and isinstance(inner, str):
                yield inner
            else:
                yield from _named(inner, field)


def _number(step: Path) -> int:
    found = re.match(r"step-(\d+)", step.name)
    assert found
    return int(found[1])


def _observation(folder: Path) -> Observation:
    return {part: documents(folder / f"{part}.yaml") for part in PARTS if (folder / f"{part}.yaml").exists()}
