"""Waiting for what will become true, without guessing how long it takes."""
import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")
FIRST, LONGEST = 0.02, 0.5


async def eventually(question: Callable[[], T | Awaitable[T]], seconds: float = 60, otherwise: Callable[[], Any] | str = "") -> T:
    """Ask until the answer is true and return it. A failed assertion counts as "not yet"; the last one is what the test fails with."""
    pause, last = FIRST, None
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            answer = question()
            found: T = await answer if inspect.isawaitable(answer) else answer
            if found:
                return found
            last = None
        except AssertionError as problem:
            last = problem
        if asyncio.get_running_loop().time() > deadline:
            told = otherwise() if callable(otherwise) else otherwise
            raise last or AssertionError(f"still not true after {seconds:g} s: {told or question}")
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, LONGEST)


def soon(question: Callable[[], T], seconds: float = 60, otherwise: Callable[[], Any] | str = "") -> T:
    """The same for tests that have no event loop."""
    return asyncio.run(eventually(question, seconds, otherwise))
