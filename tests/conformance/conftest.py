"""A summary of what differs, grouped: one cause often shows in many cases."""
import re
from collections import defaultdict

import pytest

from tests.conformance.compare import Differs

SHOWN = 60
CASES = 4


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    causes: dict[str, set[str]] = defaultdict(set)
    for report in terminalreporter.stats.get("failed", []):
        found = re.search(r"test_outcome_is_as_recorded\[(.+)\]", report.nodeid)
        if found:
            for line in getattr(report, "problems", []):
                causes[cause(line)].add(found[1])
    if causes:
        terminalreporter.section("differences from the recorded behaviour, by cause")
    for text, names in sorted(causes.items(), key=lambda item: -len(item[1]))[:SHOWN]:
        some = ", ".join(sorted(names)[:CASES]) + (" …" if len(names) > CASES else "")
        terminalreporter.write_line(f"{len(names):4d} × {text}   [{some}]")


def cause(line: str) -> str:
    """A difference without the name of its object and without list positions.

    >>> cause("children: Service/iris (v1): spec.ports[0].port: expected 80, found 81")
    'children: Service: spec.ports[].port: expected 80, found 81'
    """
    line = re.sub(r"^(after step \d+: )?(\w+: )(\w+)/[^ ]+( \([^)]*\))?( #\d+)?", r"\2\3", line)
    return re.sub(r"\[\d+\]", "[]", line)[:300]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    report = yield
    if call.excinfo and isinstance(call.excinfo.value, Differs):
        report.problems = call.excinfo.value.problems
        report.longrepr = "\n".join(report.problems)
    return report
