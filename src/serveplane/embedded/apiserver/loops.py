"""The loops of the server itself: woken by committed changes, each works until nothing is left to do."""

import asyncio


class Loop:
    """One loop. `start` looks at everything once, `wake` says that there may be work, `drain` does it."""

    def __init__(self) -> None:
        self._awake = asyncio.Event()

    def start(self) -> None:
        self.wake()

    def wake(self) -> None:
        self._awake.set()

    async def run(self) -> None:
        while True:
            await self._awake.wait()
            self._awake.clear()
            await self.drain()

    async def drain(self) -> None:
        raise NotImplementedError
