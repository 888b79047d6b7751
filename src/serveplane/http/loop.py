"""Running a program on uvloop, or on plain asyncio where uvloop is absent or switched off."""
import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def loop_factory(plain: bool | None = None) -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the event loop; `SERVEPLANE_LOOP=asyncio` asks for the plain one."""
    if plain is None:
        plain = os.environ.get("SERVEPLANE_LOOP", "") == "asyncio"
    if not plain:
        try:
            import uvloop
        except ImportError:
            pass
        else:
            return uvloop.new_event_loop
    return asyncio.new_event_loop


def run(main: Coroutine[Any, Any, T], *, plain: bool | None = None) -> T:
    """Run an async main to its end; Ctrl-C cancels it, as with `asyncio.run`."""
    with asyncio.Runner(loop_factory=loop_factory(plain)) as runner:
        return runner.run(main)
