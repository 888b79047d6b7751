"""A container's life with real processes: starts, ends, probes, restarts, hooks, logs."""
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from serveplane.clock import SYSTEM
from serveplane.embedded.node import containers as module
from serveplane.embedded.node.containers import Container, NoSuchImage, Policy, Run
from serveplane.embedded.node.images import ImageTableError
from serveplane.embedded.node.leftovers import MARK, end_leftovers, marked_processes
from serveplane.embedded.node.logs import LogQuery, LogWriter, follow_log, read_log
from serveplane.embedded.node.probes import Target
from serveplane.kube.errors import ConnectionFailed
from serveplane.objects import Json


class Workshop:
    """Runs the words of the spec as they are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[str] = []
        self.container: Container | None = None
        self.missing_image = False

    def event(self, kind: str, reason: str, message: str) -> None:
        self.events.append(f"{reason}: {message}")

    async def prepare(self, container: Json, restarts: int) -> Run:
        if self.missing_image:
            raise NoSuchImage("no such image")
        assert self.container is not None
        message = self.folder / "message"
        message.write_bytes(b"")
        environment = {"PATH": os.environ["PATH"], "MESSAGE": str(message), MARK: str(self.folder)}
        return Run(container["command"], environment, self.folder, self.folder / f"{restarts}.log", message,
                   Target("127.0.0.1", {}, {}, self.container.execute))


def container(tmp_path: Path, script: str, policy: Policy = "Never", **spec: object) -> Container:
    workshop = Workshop(tmp_path)
    made = Container({"name": "c", "command": ["sh", "-c", script], **spec}, policy, workshop, SYSTEM, lambda: None)
    workshop.container = made
    return made


@contextlib.asynccontextmanager
async def running(made: Container) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(made.run())
    try:
        yield task
    finally:
        await made.stop(0.2)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(check: object, seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not check():  # type: ignore[operator]  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("script", "code", "reason"), [
    ("exit 0", 0, "Completed"), ("exit 3", 3, "Error"), ("kill -TERM $$", 143, "Error")])
async def test_exit_codes_and_reasons(tmp_path: Path, script: str, code: int, reason: str) -> None:
    made = container(tmp_path, script)
    await made.run()
    ended = made.status.state["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (code, reason)


async def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    made = container(tmp_path, "")
    made.spec["command"] = ["no-such-program"]
    await made.run()
    assert made.status.state["terminated"]["reason"] == "StartError"
    assert "not found" in made.status.state["terminated"]["message"]


async def test_its_last_words(tmp_path: Path) -> None:
    made = container(tmp_path, "echo the reason > $MESSAGE; exit 1")
    await made.run()
    assert made.status.state["terminated"]["message"] == "the reason\n"
    made = container(tmp_path, "echo from the log >&2; exit 1", terminationMessagePolicy="FallbackToLogsOnError")
    await made.run()
    assert made.status.state["terminated"]["message"] == "from the log"


async def test_restarts_with_growing_pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF_FIRST", 0.05)
    made = container(tmp_path, "exit 1", "Always")
    async with running(made):
        await until(lambda: made.status.restarts >= 3)
        await until(lambda: made.status.state.get("waiting", {}).get("reason") == "CrashLoopBackOff")
    assert made.status.last["terminated"]["exitCode"] == 1


async def test_on_failure_ends_with_a_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = container(tmp_path, f"if [ -e {tmp_path}/done ]; then exit 0; fi; touch {tmp_path}/done; exit 1", "OnFailure")
    await made.run()
    assert made.status.restarts == 1
    assert made.status.exit_code == 0


async def test_stop_asks_first_and_ends_the_whole_group(tmp_path: Path) -> None:
    made = container(tmp_path, "trap 'echo bye; exit 0' TERM; sleep 60 & echo up; wait")
    async with running(made) as task:
        await until(lambda: (tmp_path / "0.log").exists() and b"up" in (tmp_path / "0.log").read_bytes())
        assert made.process is not None
        group = made.process.pid
        await made.stop(5)
        await task
    assert b"bye" in (tmp_path / "0.log").read_bytes()
    await until(lambda: not _is_alive(group))


def _is_alive(group: int) -> bool:
    """Whether a process of the group runs; killed ones may wait a moment for init to notice."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = entry.joinpath("stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
            if fields and int(fields[2]) == group and fields[0] != "Z":
                return True
    return False


async def test_stop_insists(tmp_path: Path) -> None:
    made = container(tmp_path, "trap '' TERM; echo up; while :; do sleep 0.05; done")
    async with running(made) as task:
        await until(lambda: (tmp_path / "0.log").exists() and b"up" in (tmp_path / "0.log").read_bytes())
        await made.stop(0.1)
        await task
    assert made.status.exit_code == 137


async def test_stopped_while_it_starts(tmp_path: Path) -> None:
    made = container(tmp_path, "sleep 60")
    task = asyncio.create_task(made.run())
    await asyncio.sleep(0)
    await made.stop(0.1)
    async with asyncio.timeout(20):
        await task
    assert made.process is None


async def test_readiness_and_liveness(tmp_path: Path) -> None:
    good = {"exec": {"command": ["test", "-e", str(tmp_path / "good")]}, "periodSeconds": 1, "failureThreshold": 1}
    made = container(tmp_path, "sleep 60", "Always", readinessProbe=good)
    async with running(made):
        await until(lambda: made.status.is_running)
        assert not made.status.ready
        (tmp_path / "good").touch()
        await until(lambda: made.status.ready)
        (tmp_path / "good").unlink()
        await until(lambda: not made.status.ready)
    assert any(event.startswith("Unhealthy: Readiness") for event in made._workshop.events)  # type: ignore[attr-defined]


async def test_a_failing_liveness_probe_restarts(tmp_path: Path) -> None:
    bad = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    made = container(tmp_path, "exec sleep 60", "Always", livenessProbe=bad)
    async with running(made):
        await until(lambda: made.status.restarts == 1)
    assert "liveness probe failed" in made.status.last["terminated"]["message"]


@pytest.mark.parametrize("probe", [{"exec": {"command": ["no-such-program"]}}, {"httpGet": {"port": "unnamed"}}])
async def test_a_probe_that_cannot_be_tried_has_failed(tmp_path: Path, probe: Json) -> None:
    made = container(tmp_path, "exec sleep 60", "Always", livenessProbe={**probe, "periodSeconds": 1, "failureThreshold": 1})
    async with running(made):
        await until(lambda: made.status.restarts >= 1)


async def test_a_startup_probe_holds_the_others_back(tmp_path: Path) -> None:
    started = {"exec": {"command": ["test", "-e", str(tmp_path / "started")]}, "periodSeconds": 1, "failureThreshold": 30}
    made = container(tmp_path, "sleep 60", "Always", startupProbe=started,
                     livenessProbe={"exec": {"command": ["false"]}, "failureThreshold": 1, "periodSeconds": 60})
    async with running(made):
        await until(lambda: made.status.is_running)
        await asyncio.sleep(0.2)
        assert not made.status.started
        assert made.status.restarts == 0
        (tmp_path / "started").touch()
        await until(lambda: made.status.started or made.status.restarts)


async def test_hooks(tmp_path: Path) -> None:
    made = container(tmp_path, "sleep 60", lifecycle={
        "postStart": {"exec": {"command": ["touch", str(tmp_path / "post")]}},
        "preStop": {"exec": {"command": ["touch", str(tmp_path / "pre")]}}})
    async with running(made):
        await until(lambda: (tmp_path / "post").exists())
    assert (tmp_path / "pre").exists()


async def test_an_unknown_image_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRY_AGAIN", 0.02)
    made = container(tmp_path, "sleep 60")
    made._workshop.missing_image = True  # type: ignore[attr-defined]
    async with running(made):
        await until(lambda: made.status.state.get("waiting", {}).get("reason") == "ErrImagePull")
        made._workshop.missing_image = False  # type: ignore[attr-defined]
        await until(lambda: made.status.is_running)


@pytest.mark.parametrize("trouble", [ConnectionFailed("the API server is away"), ImageTableError("images.toml: line 3")])
async def test_what_is_missing_for_a_start_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception) -> None:
    monkeypatch.setattr(module, "TRY_AGAIN", 0.05)
    made, troubled = container(tmp_path, "exit 0"), True
    prepare = made._workshop.prepare

    async def prepared(*arguments: Any) -> Run:
        if troubled:
            raise trouble
        return await prepare(*arguments)

    monkeypatch.setattr(made._workshop, "prepare", prepared)
    task = asyncio.create_task(made.run())
    await until(lambda: made.status.state.get("waiting", {}).get("message") == str(trouble))
    troubled = False
    await task
    assert made.status.exit_code == 0


async def test_leftovers_are_found_by_their_mark(tmp_path: Path) -> None:
    mark = str(tmp_path)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import os,time; os.setsid(); time.sleep(60)", env={**os.environ, MARK: mark})
    try:
        assert process.pid in set(marked_processes(mark))
        assert await end_leftovers(mark, SYSTEM) == 1
        assert await process.wait() == -signal.SIGKILL
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()


async def test_logs_are_read_back_as_asked(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "0.log", SYSTEM)
    writer.write("stdout", b"one\ntwo\nthr")
    writer.write("stderr", b"error\n")
    writer.write("stdout", b"ee\n")
    assert read_log(writer.file, LogQuery()) == b"one\ntwo\nerror\nthree\n"
    assert read_log(writer.file, LogQuery(tail=1)) == b"three\n"
    assert read_log(writer.file, LogQuery(tail=0)) == b""
    assert read_log(writer.file, LogQuery(limit=5)) == b"one\nt"
    stamped = read_log(writer.file, LogQuery(timestamps=True)).split(b"\n")[0]
    assert stamped.endswith(b"Z one")
    assert read_log(writer.file, LogQuery(since=SYSTEM.now())) == b""
    writer.close()


async def test_a_log_is_followed_to_its_end(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "0.log", SYSTEM)
    writer.write("stdout", b"before\n")
    seen: list[bytes] = []

    async def follow() -> None:
        async for piece in follow_log(writer.file, writer, LogQuery(follow=True)):
            seen.append(piece)  # noqa: PERF401  # the test looks at it while it grows
    task = asyncio.create_task(follow())
    await until(lambda: b"".join(seen) == b"before\n")
    writer.write("stdout", b"after\nhal")
    await until(lambda: b"".join(seen) == b"before\nafter\n")
    writer.close()
    async with asyncio.timeout(20):
        await task
    assert b"".join(seen) == b"before\nafter\nhal\n"


async def test_a_log_that_grows_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serveplane.embedded.node.logs.LARGEST", 2000)
    writer = LogWriter(tmp_path / "0.log", SYSTEM)
    for number in range(200):
        writer.write("stdout", f"line {number}\n".encode())
    writer.close()
    lines = read_log(writer.file, LogQuery()).splitlines()
    assert lines[-1] == b"line 199"
    assert len(lines) < 100
    assert writer.file.stat().st_size <= 2100


async def test_a_log_that_cannot_be_cut_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serveplane.embedded.node.logs.LARGEST", 100)
    writer = LogWriter(tmp_path / "0.log", SYSTEM)
    (tmp_path / "0.old").mkdir()
    (tmp_path / "0.old" / "in the way").touch()
    for number in range(5):
        writer.write("stdout", b"%d %b\n" % (number, b"x" * 50))
    writer.close()
    assert (tmp_path / "0.log").read_bytes().count(b"\n") == 5
