"""What every test may ask for."""
import pytest

from tests.counts import COUNTS, SEED

pytest_plugins = ["tests.kit.plugin"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--accept", action="store_true", help="rewrite golden files with what the code gives now")


def pytest_report_header() -> str:
    return f"serveplane: seed {SEED}, {COUNTS}"


@pytest.fixture
def accept(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--accept"))
