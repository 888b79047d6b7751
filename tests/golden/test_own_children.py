"""Children of our own cases, as files; `--accept` rewrites them and the diff is reviewed as code.

    python -m pytest tests/golden/test_own_children.py --accept
"""
import contextlib
import io
from pathlib import Path

import pytest

from serveplane.cli.main import main

CASES = sorted(path for path in (Path(__file__).parent / "inferenceservice").iterdir() if path.is_dir())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_plan(case: Path, accept: bool) -> None:
    golden, out = case / "children.yaml", io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["plan", "-n", "ml", "-f", str(case / "service.yaml")]) == 0
    if accept:
        golden.write_text(out.getvalue())
    assert out.getvalue() == golden.read_text()
