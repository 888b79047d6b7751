"""What several workers count is told as one, whoever is asked and whoever dies."""
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from serveplane.dataplane.modelserver.metrics import Metrics
from serveplane.dataplane.modelserver.repository import Repository
from serveplane.dataplane.modelserver.siblings import Siblings
from serveplane.dataplane.modelserver.workers import FOLDER, WORKER


def no_model(name: str, path: Path) -> object:
    raise AssertionError("nothing is loaded here")


@asynccontextmanager
async def worker(folder: str, number: int) -> AsyncIterator[tuple[Siblings, Metrics]]:
    metrics = Metrics()
    metrics.loaded["m"] = True
    siblings = Siblings(Repository(Path(folder), no_model, metrics), metrics, {FOLDER: folder, WORKER: str(number)})  # type: ignore[arg-type]
    await siblings.start()
    try:
        yield siblings, metrics
    finally:
        await siblings.close()


async def told(siblings: Siblings) -> tuple[str, str]:
    """How many predictions, and how many answers."""
    lines = (await siblings.together()).text().splitlines()
    return (next((line.split()[-1] for line in lines if line.startswith("request_predict_seconds_count")), "0"),
            next((line.split()[-1] for line in lines if line.startswith("serveplane_requests_total")), "0"))


async def test_each_worker_tells_what_all_have_counted_and_nothing_is_lost_with_one() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:   # the path of a socket must be short
        async with worker(folder, 1) as (first, counted):
            counted.predicted("m", 0.1)
            counted.answered("predict", 200)
            assert await told(first) == ("1", "1")
            async with worker(folder, 2) as (second, more):
                for _ in range(3):
                    more.predicted("m", 0.2)
                    more.answered("predict", 200)
                assert await told(first) == await told(second) == ("4", "4")
            assert await told(first) == ("4", "4")   # it died; the last that was heard of it counts
            async with worker(folder, 2) as (third, again):
                assert await told(third) == ("4", "4")
                again.predicted("m", 0.3)
                assert await told(first) == await told(third) == ("5", "4")
                counted.forget("m")
                assert await told(first) == ("0", "4")   # unloaded: no series stays behind


async def test_a_server_alone_tells_its_own() -> None:
    metrics = Metrics()
    assert await Siblings(Repository(Path("/"), no_model, metrics), metrics, {}).together() is metrics  # type: ignore[arg-type]
