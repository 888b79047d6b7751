"""`serveplane manifests`: everything that an installation applies, in the order in which it can be applied.

The files are those of `config/default`, read as kustomize would read them. That folder only lists resources (overlays may
do more, with the real kustomize), so that reading it needs no kustomize on the machine.
"""

import argparse
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from serveplane.objects import Json, yamlio

FIRST = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding")
LAST = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", default="default", help="a folder of config/ (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    sys.stdout.write(yamlio.dump_all(objects(args.folder)))
    return 0


def config_folder() -> Path:
    """Where the manifests are: inside the installed package, or at the root of a checkout."""
    installed = Path(str(resources.files("serveplane"))) / "config"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "config"


def objects(folder: str = "default") -> list[Json]:
    """Every object of a folder of `config/`, namespaces and definitions first, webhooks last."""
    found = [obj for file in files(config_folder() / folder) for obj in yamlio.load_all(file.read_text())]
    return sorted(found, key=_rank)


def files(folder: Path) -> Iterator[Path]:
    for name in yamlio.load((folder / "kustomization.yaml").read_text()).get("resources", ()):
        path = (folder / name).resolve()
        if path.is_dir():
            yield from files(path)
        else:
            yield path


def _rank(obj: Json) -> int:
    kind = obj["kind"]
    if kind in FIRST:
        return FIRST.index(kind)
    return len(FIRST) + (LAST.index(kind) + 1 if kind in LAST else 0)
