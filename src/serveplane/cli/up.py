"""`serveplane up`: starts the one-machine cluster, or takes up again the one that its data folder holds."""
import argparse
import asyncio
import contextlib
import logging
import logging.handlers
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from serveplane.cli.cluster.folder import ClusterError, Folder, default_folder
from serveplane.cli.cluster.progress import Progress
from serveplane.clock import SYSTEM

READY = "SERVEPLANE_READY_FD"   # where a detached cluster says that it is ready


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, default=default_folder(), metavar="DIR",
                        help="where everything is kept (default: %(default)s)")
    parser.add_argument("--detach", action="store_true", help="return when the cluster is ready, and leave it running")
    parser.add_argument("-f", "--filename", action="append", default=[], metavar="FILE",
                        help="objects to apply once the cluster is ready; may be repeated")
    parser.add_argument("--api-port", type=int, default=0, help="port of the API server (default: a free one)")
    parser.add_argument("--gateway-port", type=int, default=0, help="port of the gateway (default: 8080 or a free one)")
    parser.add_argument("--host-paths", action="store_true", help="hostPath volumes are this machine's own paths")
    parser.add_argument("--bare", action="store_true", help="a cluster without our programs")


def run(args: argparse.Namespace) -> int:
    folder = Folder(args.data)
    if _is_abandoned():
        return 130
    try:
        folder.make()
        return _detached(args, folder) if args.detach else _attached(args, folder)
    except ClusterError as problem:
        print(f"serveplane up: {problem}", file=sys.stderr)
        return 1


def _attached(args: argparse.Namespace, folder: Folder) -> int:
    from serveplane.http import run as run_loop
    folder.lock()
    _log_to(folder.log)
    try:
        return run_loop(_main(args, folder))
    finally:
        folder.unlock()


async def _main(args: argparse.Namespace, folder: Folder) -> int:
    """Until a signal comes. A second signal does not wait for anything any more."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, _ask_to_stop, stop, folder)
    main = asyncio.create_task(_cluster(args, folder))
    waiting = asyncio.create_task(stop.wait())
    watching = asyncio.create_task(_stop_if_abandoned(stop))
    await asyncio.wait([main, waiting], return_when=asyncio.FIRST_COMPLETED)
    for task in (waiting, watching):
        task.cancel()
    if main.done():
        return main.result()
    main.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await main
    return 0


async def _cluster(args: argparse.Namespace, folder: Folder) -> int:
    from serveplane.cli.cluster.run import UpCluster, UpOptions
    from serveplane.kube.errors import KubeError
    from serveplane.objects import yamlio
    more = [obj for name in args.filename for obj in yamlio.load_all(_text(name))]
    progress = Progress(SYSTEM)
    progress.say(f"Starting a one-machine Kubernetes in {folder.path}")
    options = UpOptions(folder, args.api_port, args.gateway_port, args.host_paths, not args.bare, more)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(progress.say, "Stopped; the data stays in " + str(folder.path))
        cluster = UpCluster(options, SYSTEM, progress)
        stack.callback(folder.forget_state)
        try:
            await cluster.start(stack)
        except (TimeoutError, RuntimeError, OSError, KubeError) as problem:
            raise ClusterError(f"{problem} (details in {folder.log})") from problem
        _tell_ready(progress, folder)
        try:
            await cluster.failed()
        except ClusterError:
            raise
        except Exception as problem:   # a bug in a part that must run: its traceback is for the log
            logging.getLogger(__name__).exception("a part of the cluster has failed")
            raise ClusterError(f"a part of the cluster has failed: {problem!r} (details in {folder.log})") from problem
    return 0


def _tell_ready(progress: Progress, folder: Folder) -> None:
    state = folder.state()
    progress.say(f"""
The cluster is ready.
  API server   {state.api}
  Gateway      {state.gateway}
  kubectl      export KUBECONFIG={_quoted(str(folder.kubeconfig))}
  A service    {state.gateway}/serving/NAMESPACE/NAME/...
""")
    if READY not in os.environ:
        progress.say("Stop it with Ctrl-C.")
        return
    with contextlib.suppress(OSError):   # whoever waited may be gone; that was looked at until now
        os.write(int(os.environ[READY]), b"ready")
        os.close(int(os.environ[READY]))
    del os.environ[READY]


def _detached(args: argparse.Namespace, folder: Folder) -> int:
    """Start the same command in the background; its words come here until it is ready."""
    if folder.is_running():
        state = folder.state()
        print(f"A cluster already runs in {folder.path} (pid {state.pid}): API server {state.api}, "
              f"gateway {state.gateway}")
        return 0
    reading, writing = os.pipe()
    words = [word for word in sys.argv[1:] if word != "--detach"]
    output = folder.path / "up.out"
    with output.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "serveplane.cli.main", *words], stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=subprocess.STDOUT, start_new_session=True, pass_fds=(writing,),
                                   env={**os.environ, READY: str(writing)})
    os.close(writing)
    try:
        said = os.read(reading, 16)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        return 130
    finally:
        os.close(reading)
    sys.stdout.write(output.read_text())
    if said != b"ready":
        return process.wait() or 1
    print("It runs in the background; stop it with `serveplane down`.")
    return 0


async def _stop_if_abandoned(stop: asyncio.Event) -> None:
    """Until the cluster is ready somebody waits for it in the foreground; if they are killed, nobody wants it."""
    while READY in os.environ:
        if _is_abandoned():
            stop.set()
            return
        await SYSTEM.sleep(0.2)


def _is_abandoned() -> bool:
    """Whether the other end of the pipe that we say "ready" into is closed."""
    if READY not in os.environ:
        return False
    poll = select.poll()
    poll.register(int(os.environ[READY]), 0)   # errors are always told
    return bool(poll.poll(0))


def _ask_to_stop(stop: asyncio.Event, folder: Folder) -> None:
    if stop.is_set():   # asked twice: nobody wants to wait
        from serveplane.embedded.node.leftovers import marked_processes
        for pid in marked_processes(str(folder.node.resolve())):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os._exit(130)
    print("\nStopping ...", flush=True)
    stop.set()


def _log_to(file: Path) -> None:
    handler = logging.handlers.RotatingFileHandler(file, maxBytes=5_000_000, backupCount=1)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _text(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as problem:
        raise ClusterError(f"{name} cannot be read: {problem.strerror}") from problem


def _quoted(text: str) -> str:
    import shlex
    return shlex.quote(text)
