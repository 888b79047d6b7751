"""`serveplane crds`: the custom resource definitions, printed or written to a folder."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from serveplane.api import keys
from serveplane.api.crds import custom_resource_definitions
from serveplane.objects import Json

WIDTH = 118
LLM_FOLDER = "llmisvc/"
"""The LLM kinds are installed with the program that converts between their versions, and only then."""
DEPTH = 10
"""From here on a value is one line however long: one line per field of ours, pod parts in flow style within it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minimal", action="store_true", help="pod parts open: small enough for client-side apply")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write one file per kind and a kustomization")


def run(args: argparse.Namespace) -> int:
    definitions = custom_resource_definitions(full=not args.minimal)
    if args.output is None:
        sys.stdout.write("---\n".join(document(definition) for definition in definitions))
        return 0
    for name, text in files(definitions).items():
        file = args.output / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return 0


def files(definitions: list[Json]) -> dict[str, str]:
    """The files of one size by path: a definition per file, and in every folder the kustomization that lists them."""
    folders: dict[str, list[str]] = {}
    written = {}
    for definition in definitions:
        name = f"{keys.GROUP}_{definition['spec']['names']['plural']}.yaml"
        folder = LLM_FOLDER if definition["spec"]["names"]["kind"].startswith("LLM") else ""
        folders.setdefault(folder, []).append(name)
        written[folder + name] = document(definition)
    return written | {
        folder + "kustomization.yaml": document(_kustomization(names)) for folder, names in folders.items()
    }


def _kustomization(names: list[str]) -> Json:
    return {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": names}


def document(value: Json) -> str:
    """YAML that a reader can diff and a parser reads fast: block style outside, flow style where it fits a line."""
    return "\n".join(_block(value, 0)) + "\n"


def _block(value: Any, depth: int) -> Iterator[str]:
    indent = "  " * depth
    pairs = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    for key, item in pairs:
        head = f"{indent}-" if key is None else f"{indent}{key}:"
        flow = _flow(item)
        if not isinstance(item, dict | list) or not item or depth >= DEPTH or len(head) + len(flow) < WIDTH:
            yield f"{head} {flow}"
        elif key is None:
            first, *rest = _block(item, depth + 1)
            yield f"{indent}- {first.lstrip()}"
            yield from rest
        else:
            yield head
            yield from _block(item, depth + 1)


def _flow(value: Any) -> str:
    if isinstance(value, str) and value.replace(".", "").replace("/", "").replace("_", "").isalpha():
        return value
    return msgspec.json.encode(value).decode()
