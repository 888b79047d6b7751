"""What a release installs and makes, kept as files for the upgrade test of the next.

    python -m tests.testbed.install.recording      writes previous/install.yaml and previous/children.yaml; run it for every release

Definitions are kept in their minimal form, a twentieth of the full one; for an upgrade it matters that there are older ones.
"""

from pathlib import Path

from serveplane.cli.manifests import objects
from serveplane.cli.offline import Surroundings, admitted
from serveplane.cli.plan import PLANNERS
from serveplane.managers.bootstrap import bundled
from serveplane.objects import Json, yamlio
from serveplane.settings import settings_from

FOLDER = Path(__file__).parent / "previous"
NAMESPACE = "kept"
BUNDLE, SETTINGS = "serveplane-bootstrap", "inferenceservice-config"


def installed() -> list[Json]:
    whole = [obj for obj in objects() if obj["kind"] != "CustomResourceDefinition"]
    return [*objects("crd/minimal"), *whole]


def services() -> list[Json]:
    found = yamlio.load_all((FOLDER / "services.yaml").read_text())
    return [{**obj, "metadata": {**obj["metadata"], "namespace": NAMESPACE}} for obj in found]


def defaults(install: list[Json]) -> list[Json]:
    """What the leader of that release creates from its bundle."""
    return [inner for obj in install if obj["metadata"]["name"] == BUNDLE for inner in bundled(obj)]


def rendered(install: list[Json]) -> list[Json]:
    """The services as they are stored, each followed by its children."""
    given = defaults(install)
    around = Surroundings(settings_from(next(obj for obj in given if obj["metadata"]["name"] == SETTINGS)), given)
    stored = [admitted(obj, around)[0] for obj in services()]
    return [made for obj in stored for made in (obj, *PLANNERS[obj["kind"]](obj, around))]


def record() -> None:
    (FOLDER / "install.yaml").write_text(yamlio.dump_all(installed()))
    (FOLDER / "children.yaml").write_text(yamlio.dump_all(rendered(installed())))


if __name__ == "__main__":
    record()
