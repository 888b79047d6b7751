"""Clients of the real API server, and the Widget kind."""

from collections.abc import AsyncIterator

import pytest

from serveplane.kube import Client
from serveplane.kube.config import load_config
from serveplane.kube.http_transport import HttpTransport
from tests.kit.api import Api, install
from tests.kit.plugin import run_apart
from tests.kit.testbed import Testbed
from tests.testbed.kube.example import CRD


@pytest.fixture
async def client(testbed: Testbed) -> AsyncIterator[Client]:
    client = Client(
        HttpTransport(load_config(str(testbed.kubeconfig))), user_agent="kube-tests", read_timeout=90, write_timeout=90
    )
    yield client
    await client.close()


@pytest.fixture(scope="session")
def widgets(testbed: Testbed) -> Testbed:
    async def put() -> None:
        async with Api(testbed.kubeconfig) as api:
            await install(api, [CRD])

    run_apart(put)
    return testbed
