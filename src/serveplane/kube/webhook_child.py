"""The webhook process itself: a module that a manager starts by its name.

    async def main(work: Work) -> None:
        server = WebhookServer(registry=work.registry)
        server.admit("/validate-...", validating(...))
        await work.serve(server)

    if __name__ == "__main__":
        sys.exit(run_webhooks(main))

It lives as long as its manager does: it ends when told to, or when the manager is no more. Signals are the manager's business, since a
terminal and some supervisors send them to both, and reviews have to be answered until the manager has finished.
"""

import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable

from serveplane.http.loop import run as run_loop
from serveplane.kube.metrics import Registry, observe_process
from serveplane.kube.pair import Pair
from serveplane.kube.webhook import WebhookServer
from serveplane.kube.webhook_link import Answer, Begin, Count, HowAreYou, Link, Question, Stop, UsePair
from serveplane.lifeline import die_with_parent
from serveplane.objects import Json

ORPHAN_GRACE = 5.0


class Work:
    """What the process was started for."""

    def __init__(self, link: Link, listener: socket.socket, told: Json) -> None:
        self._link, self._listener = link, listener
        self.told = told
        """What the manager wants known."""
        self.registry = Registry()
        observe_process(self.registry)

    async def serve(self, server: WebhookServer, why_not: Callable[[], str] = lambda: "") -> None:
        """Answer the API server, and the manager's questions, until the manager wants an end of it or is gone."""
        await self._link.answer(Answer())
        grace = ORPHAN_GRACE
        while (question := await self._link.question()) is not None:
            if isinstance(question, Stop):
                grace = question.grace
                break
            await self._link.answer(await self._followed(question, server, why_not))
        self._listener.close()
        await server.stop(grace)

    async def _followed(self, question: Question, server: WebhookServer, why_not: Callable[[], str]) -> Answer:
        match question:
            case UsePair(certificate, key):
                try:
                    server.use(Pair(certificate, key))
                    await self._start(server)
                except (OSError, ValueError) as error:
                    return Answer(error=str(error))
            case Count():
                return Answer(counted=self.registry.snapshot())
            case HowAreYou():
                pass
            case _:
                return Answer(error=f"{type(question).__name__} is asked too late")
        missing = why_not()
        return Answer(why_not=missing if server.is_serving else "the webhook server has no certificate yet", warming=bool(missing))

    async def _start(self, server: WebhookServer) -> None:
        if not server.is_serving:
            await server.start(self._listener.dup())
            gc.collect()
            gc.freeze()  # what is there now stays: later collections need not look at it, and are short


def run_webhooks(main: Callable[[Work], Awaitable[None]], arguments: list[str] | None = None) -> int:
    """Be the webhook process of the manager that started this program."""
    words = sys.argv[1:] if arguments is None else arguments
    if len(words) != 3 or not all(word.isdigit() for word in words):
        print("error: this program is started by a manager, which hands it two sockets", file=sys.stderr)
        return 2
    link, listener, parent = map(int, words)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    _die_with(parent)
    with contextlib.suppress(KeyboardInterrupt):
        run_loop(_work(main, socket.socket(fileno=link), socket.socket(fileno=listener)))
    return 0


async def _work(main: Callable[[Work], Awaitable[None]], sock: socket.socket, listener: socket.socket) -> None:
    link = await Link.over(sock)
    try:
        begin = await link.question()
        if isinstance(begin, Begin):
            await main(Work(link, listener, begin.told))
    finally:
        link.close()


def _die_with(parent: int) -> None:
    """Even if the loop hangs when the manager goes. Where that cannot be promised the closing socket has to do."""
    die_with_parent()
    if os.getppid() != parent:  # it went before we could ask
        sys.exit(1)
