"""Files instead of a cluster: what a user wrote, the objects around it, and the settings, read for `plan` and `explain`."""
import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from serveplane.api.admission import Context, Verdict, stored, validate
from serveplane.api.model import read
from serveplane.api.servingruntime import ServingRuntime
from serveplane.api.storagecontainer import ClusterStorageContainer
from serveplane.objects import Json, yamlio
from serveplane.render.facts import Facts
from serveplane.settings import CONFIG_MAP, Settings, settings_from

CLUSTER_SCOPED = frozenset(("ClusterServingRuntime", "ClusterStorageContainer", "LocalModelCache", "LocalModelNodeGroup", "Namespace"))


class BadInput(Exception):
    """What was given cannot be used; the text says what and where."""


@dataclass
class Surroundings:
    """Objects that count as being in the cluster."""
    settings: Settings
    objects: list[Json] = field(default_factory=list)

    def of(self, kind: str, namespace: str = "") -> list[Json]:
        return [obj for obj in self.objects if obj["kind"] == kind and (not namespace or obj["metadata"].get("namespace") == namespace)]

    def context(self) -> Context:
        return Context(policy=self.settings.policy, objects=self.of)

    def facts(self, namespace: str) -> Facts:
        containers = sorted(self.of("ClusterStorageContainer"), key=lambda obj: str(obj["metadata"]["name"]))
        return Facts(
            settings=self.settings,
            runtimes=[read(ServingRuntime, obj) for obj in self.of("ServingRuntime", namespace)],
            cluster_runtimes=[read(ServingRuntime, obj) for obj in self.of("ClusterServingRuntime")],
            storage_containers=[read(ClusterStorageContainer, obj) for obj in containers],
            accounts={obj["metadata"]["name"]: obj for obj in self.of("ServiceAccount", namespace)},
            secrets={obj["metadata"]["name"]: obj for obj in self.of("Secret", namespace)})


def add_file_arguments(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument("-f", "--filename", action="append", default=[], required=required, metavar="FILE", help="a file, or - for input")
    parser.add_argument("-n", "--namespace", default="default", help="for objects that name none (default: %(default)s)")
    parser.add_argument("--settings", metavar="FILE", help="the central ConfigMap (default: what is shipped)")
    parser.add_argument("--given", action="append", default=[], metavar="FILE",
                        help="objects that are in the cluster already: runtimes, secrets (default: what is shipped)")


def read_files(names: Iterable[str], namespace: str) -> list[Json]:
    """Every object of the files, with its namespace filled in."""
    return [_placed(obj, namespace) for name in names for obj in _objects(name)]


def surroundings(args: argparse.Namespace, beside: Iterable[Json]) -> Surroundings:
    """What is shipped, or what was given in its place; and whatever stands beside the services in the user's own files."""
    shipped = _shipped()
    given = read_files(args.given, args.namespace) if args.given else shipped
    config = _config_map(_objects(args.settings)) if args.settings else _config_map(given) or _config_map(shipped)
    return Surroundings(settings_from(config), [*given, *beside])


def admitted(obj: Json, around: Surroundings) -> tuple[Json, Verdict]:
    """An object as it would be stored, and what admission has to say about it."""
    kept = stored(obj, around.context())
    return kept, validate(kept, None, around.context())


def print_verdict(obj: Json, verdict: Verdict) -> None:
    name = f"{obj['kind']} {obj['metadata'].get('name', '')}"
    for warning in verdict.warnings:
        print(f"warning: {name}: {warning}", file=sys.stderr)
    for error in verdict.errors:
        print(f"error: {name}: {error}", file=sys.stderr)


def _objects(name: str) -> list[Json]:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text()
        found = yamlio.load_all(text)
    except OSError as error:
        raise BadInput(f"{name}: {error.strerror}") from None
    except yamlio.YamlError as error:
        raise BadInput(f"{name}: {error}") from None
    for obj in found:
        if not isinstance(obj.get("metadata"), dict) or not obj.get("kind"):
            raise BadInput(f"{name}: an object has no kind or no metadata")
    return found


def _placed(obj: Json, namespace: str) -> Json:
    if obj["kind"] in CLUSTER_SCOPED or obj["metadata"].get("namespace"):
        return obj
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


def _shipped() -> list[Json]:
    """The settings, runtimes and storage container that come with an installation."""
    from serveplane.cli.manifests import objects
    from serveplane.managers.bootstrap import bundled
    bundles = [obj for obj in objects("bootstrap") if obj["kind"] == "ConfigMap"]
    return [inner for bundle in bundles for inner in bundled(bundle)]


def _config_map(objects: Iterable[Json]) -> Json | None:
    found = [obj for obj in objects if obj["kind"] == "ConfigMap" and obj["metadata"].get("name") == CONFIG_MAP]
    return found[0] if found else None
