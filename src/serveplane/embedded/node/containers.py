"""One container of a pod: run, watched by its probes, run again as its restart policy says, until it is stopped.

What it does to the world goes through the `Workshop` it is given (prepare a run, start a process), so the life of
a container reads here from top to bottom. Every change of state is told to the pod.
"""
import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

from serveplane.clock import Clock, timestamp, wait_until
from serveplane.embedded.node import probes, processes
from serveplane.embedded.node.environment import MissingReference
from serveplane.embedded.node.images import ImageTableError
from serveplane.embedded.node.logs import LogWriter
from serveplane.embedded.node.volumes import MountFailed
from serveplane.kube.errors import KubeError
from serveplane.objects import Json

BACKOFF_FIRST, BACKOFF_LAST, BACKOFF_RESET = 10.0, 300.0, 600.0
TRY_AGAIN = 2.0   # after an image or a reference was missing; both may come while we wait
TERMINATION_MESSAGE = 4096

log = logging.getLogger(__name__)
Policy = Literal["Always", "OnFailure", "Never"]


class NoSuchImage(Exception):
    """No command is known for the image."""


@dataclass(frozen=True)
class Run:
    """All that one run of a container needs."""
    words: list[str]
    environment: Mapping[str, str]
    folder: Path
    log_file: Path
    message_file: Path
    target: probes.Target


class Workshop(Protocol):
    async def prepare(self, container: Json, restarts: int) -> Run: ...

    def event(self, kind: str, reason: str, message: str) -> None: ...


@dataclass(frozen=True)
class Status:
    """A container as the API shows it."""
    state: Json = field(default_factory=lambda: {"waiting": {"reason": "PodInitializing"}})
    last: Json = field(default_factory=dict)
    restarts: int = 0
    ready: bool = False
    started: bool = False

    @property
    def is_running(self) -> bool:
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        ended = self.state.get("terminated")
        return None if ended is None else int(ended["exitCode"])


class Container:
    """Runs one container. `status` is what is true now, `done` is set when it will not run again."""

    def __init__(self, spec: Json, policy: Policy, workshop: Workshop, clock: Clock,
                 changed: Callable[[], None], waiting: str = "ContainerCreating") -> None:
        self.spec = spec
        self.name: str = spec["name"]
        self.policy: Policy = policy
        self.status = Status({"waiting": {"reason": waiting}})
        self.done = asyncio.Event()
        self.has_started = asyncio.Event()   # started in the sense of startup probes: sidecars are waited for by this
        self.process: processes.Process | None = None
        self.writer: LogWriter | None = None
        self._run: Run | None = None
        self._workshop = workshop
        self._clock = clock
        self._changed = changed
        self._stop = asyncio.Event()
        self._backoff = 0.0
        self._problem = ""

    async def run(self) -> None:
        """The whole life; returns when the container will not run again."""
        try:
            while not self._stop.is_set():
                code = await self._one_run()
                if self._stop.is_set() or not _restarts(self.policy, code):
                    return
                await self._wait_before_restart()
        finally:
            self.done.set()
            self._changed()

    async def stop(self, grace: float) -> None:
        """preStop, then the signal, then the end; `run` returns after it."""
        self._stop.set()
        process, started = self.process, self._clock.monotonic()
        if process is None:   # not running, or just being started: `run` sees that it is to end
            return
        hook = (self.spec.get("lifecycle") or {}).get("preStop")
        if hook:
            await self._hook(hook, "PreStop", grace)
        await process.stop(max(grace - (self._clock.monotonic() - started), 0.05))

    @property
    def latest_run(self) -> Run | None:
        """What the current run was started with; commands beside it get the same."""
        return self._run if self.process is not None else None

    async def execute(self, words: list[str], timeout: float) -> tuple[int, bytes]:
        """Run a command beside the container, in its environment; its exit code and output."""
        if self._run is None:
            return 1, b"the container is not running"
        output: list[bytes] = []
        process = await processes.start(words, self._run.environment, self._run.folder,
                                        lambda _, data: output.append(data))
        try:
            async with asyncio.timeout(timeout):
                result = await process.wait()
        except BaseException:
            await process.stop(0.05)
            raise
        return result.code, b"".join(output)

    def kill_for_memory(self) -> None:
        if self.process:
            self.process.kill_for_memory()

    # ---- one run

    async def _one_run(self) -> int | None:
        run = await self._prepared()
        if run is None:
            return None
        self._run, self.writer = run, LogWriter(run.log_file, self._clock)
        began = self._clock.now()
        try:
            process = await processes.start(run.words, run.environment, run.folder, self.writer.write)
        except processes.StartFailed as problem:
            self.writer.write("stderr", f"{problem}\n".encode())
            self._ended(timestamp(began), processes.Exit(128), "StartError", str(problem))
            return 128
        self.process = process
        if self._stop.is_set():   # asked to end while it was being started
            await process.stop(0.05)
        return await self._watched(process, run)

    async def _watched(self, process: processes.Process, run: Run) -> int:
        began = self._clock.monotonic()
        moment = timestamp(self._clock.now())
        has_startup = bool(self.spec.get("startupProbe"))
        has_readiness = bool(self.spec.get("readinessProbe"))
        self._set(replace(self.status, state={"running": {"startedAt": moment}}, started=not has_startup,
                          ready=not has_startup and not has_readiness))
        if not has_startup:
            self.has_started.set()
        watching = asyncio.create_task(self._probe(process, run.target), name=f"probes of {self.name}")
        try:
            result = await process.wait()
        except asyncio.CancelledError:
            await process.stop(0.05)
            raise
        finally:
            self.process = None
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
        self._ended(moment, result, result.reason, _message(run, self.spec, self._problem, result))
        if self._clock.monotonic() - began >= BACKOFF_RESET:
            self._backoff = 0.0
        return result.code

    async def _prepared(self) -> Run | None:
        """Retry until the image and all references are there; the waiting reason says what is missing."""
        while not self._stop.is_set():
            try:
                return await self._workshop.prepare(self.spec, self.status.restarts)
            except NoSuchImage as problem:
                self._wait("ErrImagePull", str(problem))
            except MissingReference as problem:
                self._wait("CreateContainerConfigError", str(problem))
            except (KubeError, ImageTableError, MountFailed, OSError) as problem:
                self._wait("CreateContainerError", str(problem))
            await wait_until(self._stop, TRY_AGAIN)
        return None

    def _wait(self, reason: str, message: str) -> None:
        state = {"waiting": {"reason": reason, "message": message}}
        if self.status.state != state:
            self._workshop.event("Warning", "Failed", message)
            self._set(replace(self.status, state=state, ready=False))

    def _ended(self, began: str, result: processes.Exit, reason: str, message: str) -> None:
        if self.writer:
            self.writer.close()
        ended: Json = {"exitCode": result.code, "reason": reason, "startedAt": began,
                       "finishedAt": timestamp(self._clock.now())}
        if result.signal:
            ended["signal"] = result.signal
        if message:
            ended["message"] = message
        self._problem = ""
        self.has_started.clear()
        self._set(replace(self.status, state={"terminated": ended}, ready=False, started=False))

    async def _wait_before_restart(self) -> None:
        ended = self.status.state
        if self._backoff:
            message = (f"back-off {self._backoff:g}s restarting failed container={self.name}")
            self._set(replace(self.status, state={"waiting": {"reason": "CrashLoopBackOff", "message": message}},
                              last=ended))
            self._workshop.event("Warning", "BackOff", f"Back-off restarting failed container {self.name}")
        await wait_until(self._stop, self._backoff)
        self._backoff = min(self._backoff * 2, BACKOFF_LAST) or BACKOFF_FIRST
        self.status = replace(self.status, last=ended, restarts=self.status.restarts + 1)

    # ---- probes and hooks

    async def _probe(self, process: processes.Process, target: probes.Target) -> None:
        hook = (self.spec.get("lifecycle") or {}).get("postStart")
        if hook:
            problem = await self._hook(hook, "PostStart", 60)
            if problem:
                self._fail(process, f"postStart hook failed: {problem}")
                return
        if self.spec.get("startupProbe"):
            await probes.watch("startup", self.spec["startupProbe"], target, self._clock,
                               lambda good, why: self._judge("startup", good, why, process))
        async with asyncio.TaskGroup() as group:
            for sort, name in (("liveness", "livenessProbe"), ("readiness", "readinessProbe")):
                if self.spec.get(name):
                    group.create_task(self._watch(sort, self.spec[name], target, process))

    async def _watch(self, sort: str, probe: Json, target: probes.Target, process: processes.Process) -> None:
        which: probes.Sort = "liveness" if sort == "liveness" else "readiness"
        await probes.watch(which, probe, target, self._clock, lambda good, why: self._judge(sort, good, why, process))

    def _judge(self, sort: str, good: bool, why: str, process: processes.Process) -> None:
        if not good:
            self._workshop.event("Warning", "Unhealthy", f"{sort.capitalize()} probe failed: {why}")
        if sort == "startup" and good:
            self.has_started.set()
            self._set(replace(self.status, started=True, ready=not self.spec.get("readinessProbe")))
        elif sort == "readiness":
            self._set(replace(self.status, ready=good))
        elif not good:
            self._fail(process, f"{sort} probe failed: {why}")

    def _fail(self, process: processes.Process, why: str) -> None:
        self._problem = why
        self._workshop.event("Normal", "Killing", f"Container {self.name} failed: {why}; it will be restarted")
        grace = float(self.spec.get("terminationGracePeriodSeconds") or 30)
        self._killing = asyncio.create_task(process.stop(grace))

    async def _hook(self, hook: Json, name: str, limit: float) -> str | None:
        run = self._run
        if run is None:
            return None
        try:
            async with asyncio.timeout(limit):
                problem = await self._act(hook, run, limit)
        except (OSError, ValueError, TimeoutError, processes.StartFailed) as trouble:
            problem = str(trouble) or "timed out"
        if problem:
            self._workshop.event("Warning", f"Failed{name}Hook", problem)
        return problem

    async def _act(self, hook: Json, run: Run, limit: float) -> str | None:
        if "sleep" in hook:
            await self._clock.sleep(hook["sleep"].get("seconds") or 0)
        elif "exec" in hook:
            code, output = await self.execute(hook["exec"].get("command") or [], limit)
            return f"exited with {code}: {output[:512].decode('utf-8', 'replace')}" if code else None
        elif "httpGet" in hook:
            return await probes.http_get(hook["httpGet"], run.target)
        return None

    def _set(self, status: Status) -> None:
        if status != self.status:
            self.status = status
            self._changed()


def _restarts(policy: Policy, code: int | None) -> bool:
    return code is not None and (policy == "Always" or (policy == "OnFailure" and code != 0))


def _message(run: Run, spec: Json, problem: str, result: processes.Exit) -> str:
    """What the container wrote as its last word: its message file, or (if asked for) the end of its log."""
    with contextlib.suppress(OSError):
        text = run.message_file.read_bytes()[-TERMINATION_MESSAGE:].decode("utf-8", "replace")
        if text:
            return text
    if spec.get("terminationMessagePolicy") == "FallbackToLogsOnError" and result.code:
        with contextlib.suppress(OSError):
            lines = run.log_file.read_bytes()[-2048:].splitlines()[-80:]
            return "\n".join(line.split(b" ", 3)[-1].decode("utf-8", "replace") for line in lines)
    return problem
