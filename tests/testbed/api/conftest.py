"""The webhooks of all kinds, once for all tests of this folder that ask for them."""

import asyncio
from collections.abc import Iterator

import pytest

from serveplane.api.crds import custom_resource_definitions
from tests.kit.api import Api, install
from tests.kit.testbed import Testbed
from tests.testbed.api.hooks import Hooks, Json

MINIMAL_KINDS = ("InferenceService", "ServingRuntime")
"""Enough to see it work; an API server takes long to take in a changed definition."""


@pytest.fixture(scope="module")
def hooks(testbed: Testbed) -> Iterator[Hooks]:
    yield from _served(testbed, custom_resource_definitions(), [])


@pytest.fixture(scope="module")
def minimal_hooks(testbed: Testbed) -> Iterator[Hooks]:
    """The same over the minimal definitions, which leave pod parts to the webhooks. The usual ones come back afterwards.
    """
    small, usual = (
        [crd for crd in custom_resource_definitions(full) if crd["spec"]["names"]["kind"] in MINIMAL_KINDS]
        for full in (False, True)
    )
    yield from _served(testbed, small, usual)


def _served(testbed: Testbed, definitions: list[Json], afterwards: list[Json]) -> Iterator[Hooks]:
    found = Hooks()

    async def begin() -> None:
        async with Api(testbed.kubeconfig) as api:
            await found.start(testbed, api, definitions)

    async def end() -> None:
        async with Api(testbed.kubeconfig) as api:
            await found.stop(api)
            await install(api, afterwards)

    asyncio.run(begin())
    yield found
    asyncio.run(end())
