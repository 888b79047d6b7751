"""The samples of every kind: valid as they stand, and nothing in them is misspelt."""

from pathlib import Path
from typing import Any

import pytest

from serveplane.api.admission import SCHEMAS, Context, stored, validate
from serveplane.api.mode import Mode
from serveplane.api.policy import Policy
from serveplane.api.structure import unknown_fields
from serveplane.objects.yamlio import load_all

FOLDER = Path(__file__).resolve().parents[3] / "examples/kinds"
FILES = sorted(FOLDER.rglob("*.yaml"))
Json = dict[str, Any]
ALL = {file: load_all(file.read_text())[0] for file in FILES}


def everything(kind: str, _namespace: str) -> list[Json]:
    return [obj for obj in ALL.values() if obj["kind"] == kind]


def test_there_are_samples_of_every_kind() -> None:
    assert len(FILES) >= 60
    assert {obj["kind"] for obj in ALL.values()} == {kind for _, kind in SCHEMAS}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_sample_is_valid(file: Path) -> None:
    obj, context = ALL[file], Context(Policy(default_mode=Mode.STANDARD), everything)
    schema = SCHEMAS[obj["apiVersion"], obj["kind"]]()
    assert unknown_fields({key: value for key, value in obj.items() if key != "metadata"}, schema) == []
    assert validate(stored(obj, context), None, context).errors == ()
    assert file.parent.name == obj["kind"].lower()
