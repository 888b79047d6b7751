"""Reading the observed cases: what users applied, the surroundings, and what KServe made of it."""
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from serveplane.api.inferenceservice.defaults import defaulted
from serveplane.api.localmodel.types import LocalModelCache
from serveplane.api.model import read
from serveplane.api.servingruntime import ServingRuntime
from serveplane.api.storagecontainer import ClusterStorageContainer
from serveplane.objects import Json
from serveplane.objects.yamlio import load_all
from serveplane.render.facts import Facts
from serveplane.settings import Settings, settings_from

REPOSITORY = Path(__file__).parents[2]
ROOT = Path(os.environ.get("SERVEPLANE_GOLDEN") or REPOSITORY.parent / "shared" / "golden")


def cases(area: str) -> list[Path]:
    folder = ROOT / area
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def documents(path: Path) -> list[Json]:
    return [document for document in load_all(path.read_text()) if document] if path.is_file() else []


@dataclass
class Case:
    """One observed case at its last step."""
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def inputs(self) -> list[Json]:
        """What the user had applied in the end: later steps replace what earlier ones said."""
        steps = sorted(self.folder.glob("step-*.yaml")) or [self.folder / "input.yaml"]
        known: dict[tuple[str, str], Json] = {}
        for step in steps:
            for document in documents(step):
                key = (document["kind"], document["metadata"]["name"])
                if step.name.endswith(".delete.yaml"):
                    known.pop(key, None)
                else:
                    document["metadata"].setdefault("namespace", self.name)
                    known[key] = document
        return list(known.values())

    @property
    def settings(self) -> Settings:
        config = next(item for item in documents(ROOT / "baseline" / "configmaps.yaml")
                      if item["metadata"]["name"] == "inferenceservice-config")
        data = dict(config["data"])
        for key, changes in (documents(self.folder / "config.yaml") or [{}])[0].items():
            merged = _merged(msgspec.json.decode(data.get(key, "{}")), changes)
            data[key] = msgspec.json.encode(merged).decode()
        return settings_from({"data": data})

    def facts(self) -> Facts:
        by_kind: dict[str, list[Json]] = {}
        for item in self.inputs:
            by_kind.setdefault(item["kind"], []).append(item)
        runtimes = [*documents(ROOT / "baseline" / "clusterservingruntimes.yaml"), *by_kind.get("ClusterServingRuntime", [])]
        containers = [*documents(ROOT / "baseline" / "clusterstoragecontainers.yaml"), *by_kind.get("ClusterStorageContainer", [])]
        containers.sort(key=lambda item: str(item["metadata"]["name"]))
        for item in by_kind.get("ClusterServingRuntime", []) + by_kind.get("ClusterStorageContainer", []):
            item["metadata"].pop("namespace", None)
        return Facts(
            settings=self.settings,
            runtimes=[read(ServingRuntime, item) for item in by_kind.get("ServingRuntime", [])],
            cluster_runtimes=[read(ServingRuntime, item) for item in runtimes],
            storage_containers=[read(ClusterStorageContainer, item) for item in containers],
            accounts={item["metadata"]["name"]: item for item in by_kind.get("ServiceAccount", [])},
            secrets={item["metadata"]["name"]: item for item in by_kind.get("Secret", [])})

    @property
    def services(self) -> list[Json]:
        """As stored: after the API's own defaults."""
        caches = [read(LocalModelCache, item) for item in self.inputs if item["kind"] in ("LocalModelCache", "LocalModelNamespaceCache")]
        for cache in caches:
            cache.metadata.pop("namespace", None)
        return [defaulted(item, self.settings.policy, caches) for item in self.inputs if item["kind"] == "InferenceService"]

    @property
    def children(self) -> list[Json]:
        return documents(self.folder / "children.yaml")

    @property
    def pods(self) -> list[Json]:
        return documents(self.folder / "pods.yaml")

    @property
    def is_refused(self) -> bool:
        return (self.folder / "rejected.txt").exists()


def _merged(base: Any, changes: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(changes, dict):
        return changes
    return {**base, **{key: _merged(base.get(key), value) for key, value in changes.items()}}
