"""What a kube-apiserver weighs with our definitions in it, beside others'.

usage: python bench/crds.py [--beside NAME=FOLDER ...]

Each row is a fresh control plane of the testbed with the definitions of one folder applied; RSS is read when it has come to rest.
"""

import argparse
import sys
import time
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.processes import resident_bytes

from serveplane.cli.manifests import config_folder
from serveplane.objects import Json, yamlio
from tests.kit.testbed import Testbed, start_testbed

REST = 15.0  # seconds in which the server builds its schemas and collects its garbage


def definitions(folder: Path) -> list[Json]:
    found = [obj for file in sorted(folder.glob("*.yaml")) for obj in yamlio.load_all(file.read_text())]
    return [obj for obj in found if obj.get("kind") == "CustomResourceDefinition" and "group" in obj.get("spec", {})]


def apply(bed: Testbed, definition: Json) -> None:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition['metadata']['name']}?fieldManager=bench&force=true"
    bed.call("PATCH", path, definition, "application/apply-patch+yaml")


def measure(name: str, folder: Path | None) -> None:
    wanted = definitions(folder) if folder else []
    bed = start_testbed()
    try:
        for definition in wanted:
            apply(bed, definition)
        time.sleep(REST)
        size = sum(len(msgspec.json.encode(definition)) for definition in wanted)
        rss = resident_bytes(bed.processes["kube-apiserver"].pid) / 1e6
        print(f"{name:<22}{len(wanted):>5} definitions {size / 1e6:>6.2f} MB as JSON   kube-apiserver {rss:>5.0f} MB", flush=True)
    finally:
        bed.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", action="append", default=[], metavar="NAME=FOLDER", help="another set of definitions")
    others = (text.partition("=") for text in parser.parse_args().beside)
    rows = [("none", None), ("full", config_folder() / "crd"), ("minimal", config_folder() / "crd/minimal"),
            *((name, Path(folder)) for name, _, folder in others)]  # fmt: skip
    for name, folder in rows:
        measure(name, folder)


if __name__ == "__main__":
    main()
