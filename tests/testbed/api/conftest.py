"""The webhooks of all kinds, once for all tests of this folder that ask for them."""

import asyncio
from collections.abc import Iterator

import pytest

from serveplane.api.crds import custom_resource_definitions
from tests.kit.api import Api, install
from tests.kit.testbed import Testbed
from tests.testbed.api.hooks import Hooks


@pytest.fixture(scope="module")
def hooks(testbed: Testbed) -> Iterator[Hooks]:
    yield from _served(testbed, full=True)


@pytest.fixture(scope="module")
def minimal_hooks(testbed: Testbed) -> Iterator[Hooks]:
    """The same over the minimal definitions, which leave pod parts to the webhooks."""
    yield from _served(testbed, full=False)


def _served(testbed: Testbed, full: bool) -> Iterator[Hooks]:
    found = Hooks()

    async def begin() -> None:
        async with Api(testbed.kubeconfig) as api:
            await found.start(testbed, api, full)

    async def end() -> None:
        async with Api(testbed.kubeconfig) as api:
            await found.stop(api)
            await install(api, custom_resource_definitions())  # whoever comes next finds the usual definitions

    asyncio.run(begin())
    yield found
    asyncio.run(end())
