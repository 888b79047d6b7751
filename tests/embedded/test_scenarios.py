"""Stories: the same told to both servers, everything each one saw compared."""

import pytest

from tests.embedded.conftest import Both
from tests.embedded.scenarios import SCENARIOS
from tests.embedded.servers import Answer

pytestmark = pytest.mark.testbed


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_servers_tell_the_same_story(both: Both, space: str, name: str) -> None:
    def told(api: object) -> list[object]:
        return [[seen.status, seen.value] if isinstance(seen, Answer) else seen for seen in SCENARIOS[name](api, space)]  # type: ignore[arg-type]

    both.same(name, told)
    both.check()
