"""A suite is only worth what it catches: the server is broken in a dozen ways, and each time a story must come out different."""

import sys
from pathlib import Path

import pytest

from tests.embedded.broken import FAULTS
from tests.embedded.conftest import Both, install
from tests.embedded.scenarios import SCENARIOS
from tests.embedded.servers import Answer, Api, Embedded, differences, normal

pytestmark = pytest.mark.testbed
CAUGHT_BY = {
    "lost_event": "watch_of_changes",
    "no_conflict": "versions_guard",
    "stale_list": "pages",
    "forced_apply": "appliers",
    "no_defaults": "status_of_a_deployment",
    "finalizers_ignored": "finalizers_hold",
    "labels_ignored": "pages",
    "status_written_by_all": "status_of_a_deployment",
    "generation_never_grows": "status_of_a_deployment",
    "wrong_code": "dry_runs",
    "dry_run_writes": "dry_runs",
    "watch_without_selector": "watch_of_changes",
}


class Broken(Embedded):
    def __init__(self, folder: Path, fault: str) -> None:
        self.fault = fault
        super().__init__(folder)

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.embedded.broken", self.fault]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_suite_catches(both: Both, space: str, tmp_path: Path, fault: str) -> None:
    server = Broken(tmp_path / "data", fault)
    try:
        broken = server.api()
        broken.call("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
        broken.call("POST", f"/api/v1/namespaces/{space}/serviceaccounts", {"metadata": {"name": "default"}})
        install(broken)
        story = SCENARIOS[CAUGHT_BY[fault]]
        try:
            seen = _told(story, broken, space)
        except (KeyError, TypeError, IndexError, AssertionError):  # so wrong that the story cannot even be told
            return
        assert list(differences(normal(seen), normal(_told(story, both.real, space)))), f"{fault} went unnoticed"
    finally:
        server.kill()


def _told(story: object, api: Api, space: str) -> list[object]:
    return [[seen.status, seen.value] if isinstance(seen, Answer) else seen for seen in story(api, space)]  # type: ignore[operator]
