"""The definitions: equal to what is in config/, complete, small enough."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serveplane.api.crds import DEFINITIONS, Definition, Version, custom_resource_definitions, definition, object_schema
from serveplane.cli.crds import files

REPOSITORY = Path(__file__).resolve().parents[3]
PUBLISHED = json.loads((Path(__file__).parent / "kserve_fields.json").read_text())
FULL_LIMIT = 2_000_000
APPLY_LIMIT = 256 * 1024
VERSIONS = [(row, version) for row in DEFINITIONS for version in row.versions]
Json = dict[str, Any]


@pytest.mark.parametrize("full", [True, False], ids=["full", "minimal"])
def test_files_are_what_the_generator_writes(full: bool, accept: bool) -> None:
    folder = REPOSITORY / "config/crd" / ("" if full else "minimal")
    written = files(custom_resource_definitions(full))
    if accept:
        for name, text in written.items():
            (folder / name).write_text(text)
    found = {str(path.relative_to(folder)) for path in folder.rglob("*.yaml")}
    assert {name for name in found if not name.startswith("minimal/")} == set(written)
    for name, text in written.items():
        assert (folder / name).read_text() == text, f"{name}: run `serveplane crds --output config/crd`, or --accept"


def size(crd: Json) -> int:
    return len(json.dumps(crd, separators=(",", ":")))


def test_all_full_definitions_together_stay_small() -> None:
    assert sum(size(crd) for crd in custom_resource_definitions()) <= FULL_LIMIT


def test_each_minimal_definition_goes_through_client_side_apply() -> None:
    assert [
        crd["metadata"]["name"] for crd in custom_resource_definitions(full=False) if size(crd) >= APPLY_LIMIT
    ] == []


def published_fields(node: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Paths and types of KServe's schema, from the recorded table."""
    if isinstance(node, str):
        yield at, node
        return
    kind, inside = PUBLISHED["nodes"][node]
    yield at, kind
    if isinstance(inside, list):
        yield from published_fields(inside[0], f"{at}[]")
    else:
        for name, child in inside.items():
            yield from published_fields(child, f"{at}.{name}")


def our_fields(schema: Json, at: str = "") -> Iterator[tuple[str, str]]:
    yield at, schema.get("type") or ("int-or-string" if schema.get("x-kubernetes-int-or-string") else "any")
    for name, child in schema.get("properties", {}).items():
        yield from our_fields(child, f"{at}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from our_fields(schema["items"], f"{at}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from our_fields(schema["additionalProperties"], f"{at}.*")


@pytest.mark.parametrize(
    ("row", "version"), VERSIONS, ids=lambda item: getattr(item, "kind", getattr(item, "name", ""))
)
def test_every_field_of_kserve_is_there_with_its_type(row: Definition, version: Version) -> None:
    stored = next(item for item in definition(row)["spec"]["versions"] if item["name"] == version.name)
    ours = dict(our_fields(stored["schema"]["openAPIV3Schema"]))
    theirs = dict(published_fields(PUBLISHED["roots"][f"{version.name} {row.kind}"]))
    wrong = {path: (kind, ours.get(path)) for path, kind in theirs.items() if ours.get(path) != kind}
    assert len(theirs) > 10
    assert wrong == {}


def nodes(schema: Json) -> Iterator[Json]:
    yield schema
    for child in [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]:
        if isinstance(child, dict):
            yield from nodes(child)


@pytest.mark.parametrize(
    ("row", "version"), VERSIONS, ids=lambda item: getattr(item, "kind", getattr(item, "name", ""))
)
def test_lists_by_key_can_be_told_apart(row: Definition, version: Version) -> None:
    for node in nodes(object_schema(version.model)):
        for key in node.get("x-kubernetes-list-map-keys", ()):
            item = node["items"]
            assert key in item.get("required", ()) or "default" in item["properties"][key], (row.kind, key)


def test_exactly_one_version_is_stored() -> None:
    for row in DEFINITIONS:
        assert sum(version.storage for version in row.versions) == 1, row.kind
