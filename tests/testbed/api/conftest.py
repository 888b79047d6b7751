"""The webhooks of all kinds, once for all tests of this folder that ask for them."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.kit.api import Api
from tests.kit.testbed import Testbed
from tests.testbed.api.hooks import Hooks


@pytest.fixture(scope="module")
def hooks(testbed: Testbed) -> Iterator[Hooks]:
    found = Hooks()

    async def begin() -> None:
        async with Api(testbed.kubeconfig) as api:
            await found.start(testbed, api)

    async def end() -> None:
        async with Api(testbed.kubeconfig) as api:
            await found.stop(api)

    asyncio.run(begin())
    yield found
    asyncio.run(end())
