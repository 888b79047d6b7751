"""What a cache weighs in a crowded cluster: 20,000 foreign ConfigMaps and Services beside 5,000 Deployments of ours.

usage: python -m bench.cache [FOREIGN] [OWN]

The server is in the same process and makes its pages on the fly, so that all memory that grows is the cache's. Printed
are the process's resident memory before and after, and the memory per object.
"""

import asyncio
import gc
import os
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import parse_qs

import msgspec
from bench.client import deployment
from bench.processes import resident_bytes

from serveplane.kube import Client, Kind
from serveplane.kube.informers import Informers
from serveplane.kube.store import Item
from serveplane.kube.transport import InProcessTransport
from serveplane.kube.watches import owner_keys

Json = dict[str, Any]
OWNER = Kind("serving.kserve.io/v1beta1", "InferenceService")
KINDS = {
    "configmaps": Kind("v1", "ConfigMap"),
    "services": Kind("v1", "Service"),
    "deployments": Kind("apps/v1", "Deployment"),
}


def foreign(kind: str, n: int) -> Json:
    metadata = {
        "name": f"{kind}-{n}-of-somebody",
        "namespace": f"team-{n % 200}",
        "uid": f"{n:08x}-0000-4000-8000-{n:012x}",
        "resourceVersion": str(n + 1),
        "labels": {"app": f"app-{n}", "team": f"team-{n % 200}"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"metadata": metadata, "data": {"settings.yaml": "key: value\n" * 150}}


def own(n: int) -> Json:
    made = deployment(f"iris-{n}-predictor", f"team-{n % 200}")
    owner = {
        "apiVersion": OWNER.api_version,
        "kind": OWNER.kind,
        "name": f"iris-{n}",
        "uid": f"{n:08x}-1111-4000-8000-{n:012x}",
        "controller": True,
    }
    made["metadata"] |= {
        "uid": f"{n:08x}-2222-4000-8000-{n:012x}",
        "resourceVersion": str(n + 1),
        "ownerReferences": [owner],
    }
    return made


class Server:
    """Lists by page, watches that stay silent."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = counts
        self.sent = 0

    async def answer(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
        plural = path.rpartition("/")[2]
        if plural not in self.counts:
            listed = [
                {"name": name, "kind": kind.kind, "namespaced": True}
                for name, kind in KINDS.items()
                if kind.path == path
            ]
            return 200, {}, msgspec.json.encode({"resources": listed})
        asked = parse_qs(query)
        if "watch" in asked:
            return 200, {}, silence()
        start, limit = int(asked.get("continue", ["0"])[0]), int(asked["limit"][0])
        end = min(start + limit, self.counts[plural])
        items = [own(n) if plural == "deployments" else foreign(plural, n) for n in range(start, end)]
        meta = {"resourceVersion": "1000000", **({"continue": str(end)} if end < self.counts[plural] else {})}
        page = msgspec.json.encode({"metadata": meta, "items": items})
        self.sent += len(page)
        return 200, {}, page


async def silence() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


def resident() -> float:
    gc.collect()
    return resident_bytes(os.getpid()) / 2**20


def is_ours(item: Item) -> bool:
    return bool(owner_keys(item, OWNER))


async def main(crowd: int, ours: int) -> None:
    server = Server({"configmaps": crowd, "services": crowd, "deployments": ours})
    informers = Informers(Client(InProcessTransport(server.answer)))
    before = resident()
    async with asyncio.TaskGroup() as group:
        informers.start(group)
        for name in ("configmaps", "services"):
            informers.informer(KINDS[name], keep=is_ours)
        await informers.synced(300)
        crowded = resident()
        deployments = informers.informer(KINDS["deployments"], keep=is_ours)
        await informers.synced(300)
        after = resident()
        kept, _, size = deployments.store.sizes()
        await informers.stop()
    print(
        f"{2 * crowd} foreign objects: {crowded - before:.1f} MB ({(crowded - before) * 1e6 / max(2 * crowd, 1):.0f} bytes each)"
    )
    share = (after - crowded) * 2**20 / max(size, 1)
    print(
        f"{kept} objects of ours, {size / 2**20:.1f} MB on the wire: {after - crowded:.1f} MB, {share:.2f} times their wire size"
    )
    print(f"resident: {before:.1f} MB before, {after:.1f} MB after {server.sent / 2**20:.0f} MB of lists")


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    asyncio.run(main(*(numbers + [20_000, 5_000][len(numbers) :])))
