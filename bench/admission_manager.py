"""The manager that bench/admission.py measures beside: it has a webhook process, and plans services without a pause while told to.

It prints the port of its webhooks, then does what each line of its input says: `busy` or `idle`.
"""

import asyncio
import copy
import datetime
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.admission import SERVICE

from serveplane.api.admission import Context, mutate, validate
from serveplane.kube.keypairs import authority, server_pair
from serveplane.kube.webhook_process import WebhookProcess
from serveplane.managers.webhooks import give_way

DAY = datetime.timedelta(days=1)
TURN = 0.05  # how long a reconcile computes at a stretch


async def main() -> None:
    process = WebhookProcess("bench.admission_hooks", host="127.0.0.1", port=0)
    running = asyncio.create_task(process.run())
    before = datetime.datetime.now(datetime.UTC) - DAY
    await process.use(server_pair(authority("bench", before, 3 * DAY), ["bench"], before, 2 * DAY))
    give_way()
    print(process.port, flush=True)
    told = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    word = asyncio.create_task(told.readline())
    is_busy = False
    while not word.done() or word.result():
        if word.done():
            is_busy, word = word.result().strip() == b"busy", asyncio.create_task(told.readline())
        end = time.monotonic() + TURN
        while is_busy and time.monotonic() < end:
            validate(mutate(copy.deepcopy(SERVICE)), None, Context())
        await asyncio.sleep(0.0 if is_busy else TURN)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
