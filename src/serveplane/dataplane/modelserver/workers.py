"""Several processes behind one port: each is a whole server, and the kernel deals connections out."""
import asyncio
import contextlib
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator

from serveplane.clock import SYSTEM, Clock, wait_until

log = logging.getLogger(__name__)
WORKER = "SERVEPLANE_WORKER"
FOLDER = "SERVEPLANE_WORKERS_FOLDER"   # where workers find each other
LONGEST = 64   # characters; the path of a socket may have no more than about a hundred
SETTLED_SECONDS = 5.0   # a worker that dies sooner than this never worked: the others will not either


def is_worker() -> bool:
    return bool(os.environ.get(WORKER))


async def supervise(count: int, grace: float, clock: Clock = SYSTEM) -> int:
    """Keep `count` workers running until asked to stop; a worker that cannot start ends them all with its exit code."""
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    with _meeting_place() as folder:
        codes = await asyncio.gather(*(_keep(number, folder, stop, clock, grace) for number in range(1, count + 1)))
    return next((code for code in codes if code), 0)


@contextlib.contextmanager
def _meeting_place() -> Iterator[str]:
    """A folder for the workers' sockets, its owner's alone; "" if there is nowhere to write."""
    try:
        usual = tempfile.gettempdir()
        made = tempfile.TemporaryDirectory(prefix="serveplane-", dir=usual if len(usual) < LONGEST else "/tmp")
    except OSError as error:
        log.warning("models loaded or unloaded later reach only one worker: no folder for temporary files (%s)", error)
        yield ""
        return
    with made as folder:
        yield folder


async def _keep(number: int, folder: str, stop: asyncio.Event, clock: Clock, grace: float) -> int:
    while not stop.is_set():
        began = clock.monotonic()
        environment = {**os.environ, WORKER: str(number), FOLDER: folder}
        process = await asyncio.create_subprocess_exec(sys.executable, *_again(), env=environment)
        code = await _until_end(process, stop, grace)
        if stop.is_set():
            return 0
        log.error("worker %d ended with %d", number, code)
        if clock.monotonic() - began < SETTLED_SECONDS:
            stop.set()
            return code or 1
    return 0


def _again() -> list[str]:
    """This program's own command line: `-m` for a module, else the script of a user's server."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    return ["-m", module.name, *sys.argv[1:]] if module is not None else sys.argv


async def _until_end(process: asyncio.subprocess.Process, stop: asyncio.Event, grace: float) -> int:
    ended, stopped = asyncio.create_task(process.wait()), asyncio.create_task(stop.wait())
    await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not ended.done():
        process.send_signal(signal.SIGTERM)
        over = asyncio.Event()
        ended.add_done_callback(lambda _: over.set())
        if not await wait_until(over, grace + 5):
            process.kill()
    return await ended
