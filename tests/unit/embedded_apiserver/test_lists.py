"""Long lists go out in pieces; put together they are the list, whatever the size of its objects."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from serveplane.embedded.apiserver import ADMIN
from serveplane.embedded.apiserver.representation import PIECE_BYTES
from serveplane.embedded.testing import api_server

MAPS = "/api/v1/namespaces/default/configmaps"
PLAIN = "application/json"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@pytest.mark.parametrize("accept", [PLAIN, METADATA])
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([], id="nothing"),
        pytest.param([1] * 3, id="small"),
        pytest.param([1_000] * 600, id="many small ones"),
        pytest.param([PIECE_BYTES * 2], id="one larger than a piece"),
        pytest.param([PIECE_BYTES * 2, 1, PIECE_BYTES, 1], id="large and small"),
    ],
)
async def test_a_list_is_whole(sizes: list[int], accept: str) -> None:
    async with api_server() as server:
        names = []
        for number, size in enumerate(sizes):
            name = f"m{number:04}"
            body = msgspec.json.encode({"metadata": {"name": name}, "data": {"k": "v" * size}})
            assert (await server.handle("POST", MAPS, "", {"content-type": PLAIN}, body, ADMIN))[0] == 201
            names.append(name)
        status, _, body = await server.handle("GET", MAPS, "", {"accept": accept}, b"", ADMIN)
    whole = body if isinstance(body, bytes) else await _together(body)
    value = msgspec.json.decode(whole)
    assert status == 200
    assert [item["metadata"]["name"] for item in value["items"] or ()] == names
    assert isinstance(body, bytes) == (len(whole) <= PIECE_BYTES)
    if accept == PLAIN:
        assert [len(item["data"]["k"]) for item in value["items"] or ()] == sizes
        assert not any("kind" in item for item in value["items"] or ())


async def test_pages_leave_nothing_out() -> None:
    """The namespaces are such that the order of their names is not that of the paths to what is in them."""
    spaces = ["a", "a-b", "a-b-c", "ab", "b"]
    async with api_server() as server:
        for space in spaces:
            await server.handle("POST", "/api/v1/namespaces", "", {}, msgspec.json.encode({"metadata": {"name": space}}), ADMIN)
            for name in ("x", "z"):
                body = msgspec.json.encode({"metadata": {"name": name}})
                await server.handle("POST", f"/api/v1/namespaces/{space}/secrets", "", {}, body, ADMIN)

        async def asked(query: str) -> tuple[list[str], str]:
            _, _, data = await server.handle("GET", "/api/v1/secrets", query, {}, b"", ADMIN)
            value = msgspec.json.decode(data if isinstance(data, bytes) else await _together(data))
            found = [f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in value["items"]]
            return found, value["metadata"].get("continue", "")

        whole, _ = await asked("")
        for limit in (1, 3):
            pages, token = await asked(f"limit={limit}")
            while token:
                more, token = await asked(f"limit={limit}&continue={token}")
                pages += more
            assert pages == whole == sorted(f"{space}/{name}" for space in spaces for name in ("x", "z"))


async def _together(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])
