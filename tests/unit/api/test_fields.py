"""No field is ignored: every leaf of every kind is applied, refused or warned of; docs/fields.md says which.

A run looks at a sample of the leaves (all of them in a soak, and with --accept, which rewrites the page).
"""

from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from serveplane.api.admission import SCHEMAS
from tests.counts import COUNTS, SEED
from tests.unit.api import fields
from tests.unit.api.fields import (
    APPLIED,
    FIXED,
    FRAMEWORKS,
    IGNORED,
    PENDING,
    REFUSED,
    WARNED,
    leaves,
    readable,
    service,
    with_leaf,
)

Json = dict[str, Any]
MOSTLY = 0.7
"""The share of a part that decides its row."""
PAGE = Path(__file__).resolve().parents[3] / "docs/fields.md"
MODEL: Json = {"modelFormat": {"name": "sklearn"}, "storageUri": "gs://a/b"}
BARE: Json = {"modelFormat": {"name": "sklearn"}}
SERVER: Json = {"name": "kserve-container", "image": "acme/a:1"}
LOGGER: Json = {"mode": "all", "url": "http://a/", "storage": {"path": "a", "parameters": {"b": "c"}, "key": "d"}}
SECRET: Json = {"confidential": {"enabled": True}}
PROMETHEUS: Json = {
    "type": "External",
    "external": {"metric": {"backend": "prometheus", "query": "q", "serverAddress": "s"}, "target": {"value": "1"}},
}
EXTERNAL: Json = {
    "type": "External",
    "external": {"metric": {"backend": "graphite", "query": "q", "serverAddress": "s"}, "target": {"value": "1"}},
}
POD_METRIC: Json = {
    "type": "PodMetric",
    "podmetric": {"metric": {"backend": "opentelemetry", "query": "q", "metricNames": ["m"]}, "target": {"value": "1"}},
}
SHARE: Json = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
RESOURCE: Json = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
}


def component(kind: str, change: Json) -> Json:
    """A service whose predictor, transformer or explainer has these fields."""
    if kind == "predictor":
        return service({"model": MODEL} | change)
    return service({"model": MODEL}, {kind: {"containers": [SERVER]} | change})


def scaled(kind: str, metric: Json, chosen: str = "keda") -> Json:
    obj = component(kind, {"autoScaling": {"metrics": [metric]}, "minReplicas": 1, "maxReplicas": 3})
    obj["metadata"]["annotations"]["serving.kserve.io/autoscalerClass"] = chosen
    return obj


def canaries(predictor: Json) -> Json:
    canary = {"predictor": {"name": "next"} | predictor, "trafficPercent": 10}
    return service({"model": MODEL, "minReplicas": 9}, {"canary": [canary]}, deploymentMode="Standard")


def service_bases(path: tuple[str, ...]) -> list[Json]:
    """Services in which this leaf could matter."""
    kind, field = path[1], path[2] if len(path) > 2 else ""
    if kind == "canary":
        block = next((step for step in path if step in FRAMEWORKS), "")
        source = {block: {"storageUri": "gs://c/d"} | SECRET} if block else {"model": MODEL | SECRET}
        return [
            canaries(source | {"logger": LOGGER}),
            canaries(source | {"batcher": {}}),
            canaries({"containers": [SERVER]}),
        ]
    if field in FRAMEWORKS:
        return [service({field: {"storageUri": "gs://a/b"} | SECRET}), service({field: {}})]
    if field == "workerSpec":
        many: Json = {
            "runtime": "kserve-huggingfaceserver-multinode",
            "modelFormat": {"name": "huggingface"},
            "storageUri": "pvc://a/b",
        }
        return [service({"model": many, "workerSpec": {}}, autoscalerClass="none")]
    if field == "art":
        return [service({"model": MODEL}, {"explainer": {"art": {"type": "a", "storageUri": "s3://a/b"}}})]
    if field == "logger":
        return [component(kind, {"logger": LOGGER})]
    if field == "autoScaling":
        return [scaled(kind, metric) for metric in (PROMETHEUS, EXTERNAL, POD_METRIC, RESOURCE, SHARE)] + [
            scaled(kind, RESOURCE, "hpa")
        ]
    if field.startswith("scale"):
        return [component(kind, {"scaleTarget": 50, "scaleMetric": "cpu"})]
    if field == "storageUris":
        return [service({"model": BARE}) if kind == "predictor" else component(kind, {})]
    bases = [component(kind, {}), component(kind, {"batcher": {"maxLatency": 1}})]
    if kind == "predictor":
        bases += [service({"containers": [SERVER]}), service({"model": BARE}), service({"model": MODEL | SECRET})]
    return bases


SCALED: Json = {"minReplicas": 8, "maxReplicas": 9}
KEDA: Json = {"triggers": [{"type": "cpu", "metadata": {}}]}
RUNTIME: Json = {
    "supportedModelFormats": [{"name": "acme", "autoSelect": True}],
    "containers": [{"name": "kserve-container", "image": "a"}],
}
CACHE: Json = {"sourceModelUri": "gs://a", "modelSize": "1Gi", "nodeGroups": ["cpu"]}
CONTAINER: Json = {
    "container": {"name": "storage-initializer", "image": "a"},
    "supportedUriFormats": [{"prefix": "hub://"}],
}
LLM: list[Json] = [
    {},
    {"worker": {}, "parallelism": {"pipeline": 2}, "prefill": {"worker": {}, "parallelism": {"pipeline": 2}}},
    {"parallelism": {"data": 7, "dataLocal": 7}, "prefill": {"parallelism": {"data": 7, "dataLocal": 7}}},
    {"scaling": SCALED | {"keda": KEDA}, "prefill": {"scaling": SCALED | {"keda": KEDA}}},
    {"scaling": SCALED | {"wva": {"keda": {}}}, "prefill": {"scaling": SCALED | {"wva": {"keda": {}}}}},
    {"scaling": SCALED | {"wva": {"hpa": {}}}, "prefill": {"scaling": SCALED | {"wva": {"hpa": {}}}}},
    {"model": {"uri": "hf://a/b", "lora": {"adapters": [{"name": "legal", "uri": "hf://c"}]}}},
    {"router": {"route": {"group": "g", "weight": 1}, "scheduler": {"config": {"ref": {"name": "a", "key": "b"}}}}},
]
SPECS: dict[str, list[Json]] = {
    "ServingRuntime": [RUNTIME, RUNTIME | {"workerSpec": {"containers": [{"name": "worker-container", "image": "b"}]}}],
    "ClusterStorageContainer": [
        CONTAINER,
        CONTAINER | {"supportsMultiModelDownload": True},
        CONTAINER | {"supportedUriFormats": [{}]},
    ],
    "TrainedModel": [{"inferenceService": "a", "model": {"storageUri": "gs://a", "framework": "b", "memory": "1Gi"}}],
    "InferenceGraph": [
        {"nodes": {"root": {"routerType": "Sequence", "steps": steps}, "sample": {"routerType": "Sequence"}}}
        for steps in ([{"serviceName": "a"}], [{}])
    ],
    "LocalModelCache": [CACHE],
    "LocalModelNamespaceCache": [CACHE],
    "LLMInferenceService": [{"model": {"uri": "hf://a/b"}} | spec for spec in LLM],
}
CLUSTER = (
    "ClusterServingRuntime",
    "ClusterStorageContainer",
    "LocalModelCache",
    "LocalModelNode",
    "LocalModelNodeGroup",
)


def other_bases(version: str, kind: str) -> list[Json]:
    place = {} if kind in CLUSTER else {"namespace": "default"}
    meta = {"apiVersion": version, "kind": kind, "metadata": {"name": "mine"} | place}
    least = fields.minimal(SCHEMAS[version, kind]()["properties"]["spec"])
    return [
        meta | {"spec": spec}
        for spec in SPECS.get(kind.removeprefix("Cluster") if "Runtime" in kind else kind, [least])
    ]


@cache
def all_leaves(version: str, kind: str) -> tuple[tuple[str, ...], ...]:
    paths = (path for path, _ in leaves(SCHEMAS[version, kind]()))
    return tuple(path for path in paths if path[0] not in ("apiVersion", "kind", "metadata", "status"))


class Section(NamedTuple):
    """A part of the page."""

    version: str
    kind: str
    knative: bool = False

    @property
    def title(self) -> str:
        return f"{self.kind} {self.version.split('/')[1]}{' in Knative mode' if self.knative else ''}"


SECTIONS = sorted(
    [*(Section(version, kind) for version, kind in SCHEMAS), Section("serving.kserve.io/v1beta1", "InferenceService", knative=True)],
    key=lambda section: section.title,
)


def judged(section: Section, path: tuple[str, ...]) -> str:
    """The best that happens to the leaf in any object where it could matter."""
    schema, found = SCHEMAS[section.version, section.kind](), set[str]()
    bases = service_bases(path) if section.kind == "InferenceService" else other_bases(section.version, section.kind)
    for base in map(fields.in_knative_mode, bases) if section.knative else bases:
        for flipped in (False, True):
            found.add(fields.outcome(*with_leaf(base, schema, path, flipped), path, is_rendered=not section.knative))
            if APPLIED in found or PENDING in found:
                return APPLIED if APPLIED in found else PENDING
    return next(word for word in (WARNED, IGNORED, FIXED, REFUSED) if word in found)


def condensed(
    outcomes: dict[tuple[str, ...], str], at: tuple[str, ...] = (), around: str = ""
) -> list[tuple[str, int, str]]:
    """Rows of the page: a part has one row with what becomes of most of it, and further rows for what fares otherwise.
    """
    counts = Counter(outcomes.values())
    word, most = counts.most_common(1)[0]
    rows = []
    if () in outcomes or (len(at) > 1 and most >= MOSTLY * len(outcomes)):
        rows = [(readable(at), len(outcomes), word)] if word != around else []
        around = word
    if set(counts) != {around}:
        for step in dict.fromkeys(path[0] for path in outcomes):
            inside = {path[1:]: told for path, told in outcomes.items() if path[0] == step}
            rows += condensed(inside, (*at, step), around)
    return rows


def page() -> str:
    lines = [
        "# Every field, and what becomes of it",
        "",
        "*applied*: it changes a child object. *refused*: no object with it is accepted. *warned*: it is accepted and has no effect,",
        "which the API says when the object is applied. *fixed*: defaults always write the one value it can have.",
        "*pending*: the controller of the kind does not act on it yet. InferenceServices in Knative mode, whose children are not made",
        "yet, have a part of their own.",
        "`part (n)` stands for its n fields, but for those that have a row of their own below it.",
        "Written by `tests/unit/api/test_fields.py --accept`.",
    ]
    for section in SECTIONS:
        outcomes = {path: judged(section, path) for path in all_leaves(section.version, section.kind)}
        counts = ", ".join(f"{number} {word}" for word, number in sorted(Counter(outcomes.values()).items()))
        lines += ["", f"## {section.title}", "", counts, "", "| field | |", "|---|---|"]
        lines += [
            f"| `{name}`{f' ({number})' if number > 1 else ''} | {word} |" for name, number, word in condensed(outcomes)
        ]
    return "\n".join(lines) + "\n"


def rows_of(text: str) -> dict[str, dict[str, str]]:
    """Kind -> field -> word, as the page has it."""
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if line.startswith("## "):
            current = found.setdefault(line[3:], {})
        elif line.startswith("| `"):
            name, word = line.strip("| ").split(" | ")
            current[name.split("`")[1]] = word
    return found


def written(rows: dict[str, str], path: tuple[str, ...]) -> str:
    """What the page says about a leaf: its own row, or that of the part around it."""
    for length in range(len(path), 0, -1):
        word = rows.get(readable(path[:length]))
        if word is not None:
            return word
    return "missing"


def test_the_page_is_complete_and_ignores_nothing(accept: bool) -> None:
    if accept:
        PAGE.write_text(page())
    rows = rows_of(PAGE.read_text())
    for section in SECTIONS:
        found = rows[section.title]
        words = {path: written(found, path) for path in all_leaves(section.version, section.kind)}
        assert {readable(path) for path, word in words.items() if word in ("missing", IGNORED)} == set()


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title.replace(" ", "-"))
def test_every_leaf_fares_as_the_page_says(section: Section) -> None:
    rows = rows_of(PAGE.read_text())[section.title]
    paths = all_leaves(section.version, section.kind)
    chosen = Random(SEED).sample(paths, min(len(paths), COUNTS.fuzzed_objects // 25))
    wrong = {readable(path): (judged(section, path), written(rows, path)) for path in chosen}
    assert {name: words for name, words in wrong.items() if words[0] != words[1]} == {}
