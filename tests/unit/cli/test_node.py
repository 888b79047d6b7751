"""How `serveplane node` says what it cannot do."""
import argparse

import pytest

from serveplane.cli import node
from serveplane.kube.errors import Forbidden, Unreachable


@pytest.mark.parametrize("problem", [
    Unreachable("the server is away"), ExceptionGroup("", [Unreachable("the server is away")]),
    ExceptionGroup("", [ExceptionGroup("", [Unreachable("the server is away"), Forbidden("and closed")])])])
def test_one_line_for_what_the_cluster_refuses(problem: Exception, monkeypatch: pytest.MonkeyPatch,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    async def fails(_: argparse.Namespace) -> int:
        raise problem
    monkeypatch.setattr(node, "_main", fails)
    assert node.run(argparse.Namespace()) == 1
    assert capsys.readouterr().err == "serveplane node: the server is away\n"


def test_a_fault_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(_: argparse.Namespace) -> int:
        raise ExceptionGroup("", [Unreachable("away"), KeyError("x")])
    monkeypatch.setattr(node, "_main", fails)
    with pytest.raises(ExceptionGroup):
        node.run(argparse.Namespace())
