"""The rules that keep the code what it is: which folder may know which, who may look at the clock, what start-up may import."""

import ast
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.kit.distributions import runtime_distributions

PACKAGE = "serveplane"
SOURCE = Path(__file__).parents[2] / "src" / PACKAGE
LAYERS = ["objects", "api", "settings", "render", "status", "http", "kube", "controllers", "managers", "cli"]
PURE = ["objects", "api", "settings", "render", "status"]
BESIDE = {"dataplane": {"objects", "http", "kube", "dataplane"}, "embedded": {"objects", "http", "kube", "embedded"}}
EVERYBODYS = {"clock", "lifeline", "pod"}


def imported_modules(module: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def folders_imported_by(module: Path) -> set[str]:
    names = (name.split(".") for name in imported_modules(module))
    return {parts[1] for parts in names if parts[0] == PACKAGE and len(parts) > 1}


def modules(folder: str) -> list[Path]:
    return sorted((SOURCE / folder).rglob("*.py"))


@pytest.mark.parametrize("layer", LAYERS)
def test_inner_folders_never_import_outer_ones(layer: str) -> None:
    outer = {*LAYERS[LAYERS.index(layer) + 1 :], *(BESIDE if layer != "cli" else ())}
    assert {str(m.relative_to(SOURCE)): bad for m in modules(layer) if (bad := folders_imported_by(m) & outer)} == {}


@pytest.mark.parametrize("folder", BESIDE)
def test_data_plane_and_embedded_cluster_stand_alone(folder: str) -> None:
    known = {path.stem for path in SOURCE.iterdir()} - EVERYBODYS
    forbidden = known - BESIDE[folder]
    assert {str(m.relative_to(SOURCE)): bad for m in modules(folder) if (bad := folders_imported_by(m) & forbidden)} == {}


IO = {"socket", "asyncio", "ssl", "subprocess", "httptools", "uvloop", "threading", "urllib.request", "http.client", "select"}


@pytest.mark.parametrize("layer", PURE)
def test_pure_folders_do_no_io(layer: str) -> None:
    assert {str(m.relative_to(SOURCE)): bad for m in modules(layer) if (bad := imported_modules(m) & IO)} == {}


# Reading the time, rolling dice and sleeping go through the clock, so that the whole system can run on a simulated one.
CLOCKED = {
    "time": {"time", "monotonic", "sleep", "perf_counter", "time_ns", "monotonic_ns"}, "datetime": {"now", "utcnow", "today"},
    "random": None, "secrets": None, "uuid": {"uuid1", "uuid4"}, "asyncio": {"sleep"},
}  # fmt: skip
EXEMPT = {
    "clock.py": "is the clock",
    "kube/certs.py": "keys and serial numbers need real randomness",
}


def uses_of_the_clock(module: Path) -> set[str]:
    tree, found = ast.parse(module.read_text()), set()
    known = {name.split(".")[0] for name in imported_modules(module)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            if owner not in known:
                continue
            names = CLOCKED.get(owner, set())
            if names is None or node.attr in names:
                found.add(f"{owner}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module in CLOCKED:
            names = CLOCKED[node.module]
            found |= {f"{node.module}.{alias.name}" for alias in node.names if names is None or alias.name in names}
    return found


def test_time_and_chance_come_from_the_clock() -> None:
    sources = {str(module.relative_to(SOURCE)): module for module in sorted(SOURCE.rglob("*.py"))}
    offenders = {name: sorted(uses) for name, module in sources.items() if name not in EXEMPT and (uses := uses_of_the_clock(module))}
    assert offenders == {}


HEAVY = (
    "numpy", "sklearn", "scipy", "grpc", "obstore", "boto3", "google", "azure", "xgboost", "lightgbm", "onnxruntime", "huggingface_hub",
)  # fmt: skip


@pytest.mark.parametrize("program", ["manager", "node", "up", "storage-initializer", "modelserver"])
def test_help_imports_nothing_heavy(program: str) -> None:
    script = (
        "import sys\nfrom serveplane.cli.main import main\n"
        f"try: main([{program!r}, '--help'])\nexcept SystemExit as end: assert not end.code, end.code\n"
        f"print('HEAVY', sorted(set(m.split('.')[0] for m in sys.modules) & set({HEAVY!r})))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert "HEAVY []" in result.stdout


ALLOWED = ("mit", "bsd", "isc", "apache", "psf", "python software foundation", "mpl-2.0", "mozilla public license 2.0")


def licence(name: str) -> str:
    about = metadata.metadata(name)
    classifiers = [text for text in about.get_all("Classifier") or () if text.startswith("License")]
    return " ".join([about.get("License-Expression") or "", (about.get("License") or "")[:80], *classifiers]).lower()


def test_licences_of_what_users_install() -> None:
    found = {name: licence(name) for name in runtime_distributions()}
    assert found
    assert {name: text for name, text in found.items() if not any(word in text for word in ALLOWED)} == {}
