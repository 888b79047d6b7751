"""What is refused, and in which words."""

import pytest

from tests.embedded.conftest import Both
from tests.embedded.invalid import CASES

pytestmark = pytest.mark.testbed


def test_both_servers_refuse_the_same_in_the_same_words(both: Both, space: str) -> None:
    for label, (method, path, body, options) in CASES.items():
        both.same(label, lambda api, m=method, p=path, b=body, o=options: api.call(m, p.replace("NS", space), b, **o))
    both.check()
