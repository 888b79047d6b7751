"""A server for one test."""

from collections.abc import AsyncIterator

import pytest

from serveplane.embedded.testing import api_server
from tests.unit.embedded_apiserver.calling import Caller


@pytest.fixture
async def call() -> AsyncIterator[Caller]:
    async with api_server() as server:
        yield Caller(server)
