"""The life of a model server process: load, listen, serve until asked to stop, drain."""
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from serveplane import pod
from serveplane.dataplane.modelserver.errors import CannotLoad, ServingError
from serveplane.dataplane.modelserver.formats import FormatOptions, model_file, open_model
from serveplane.dataplane.modelserver.metrics import Metrics
from serveplane.dataplane.modelserver.model import Model
from serveplane.dataplane.modelserver.options import Options
from serveplane.dataplane.modelserver.predictor import Predictor, predictor
from serveplane.dataplane.modelserver.repository import Repository
from serveplane.dataplane.modelserver.rpc.listener import LazyListener, is_available
from serveplane.dataplane.modelserver.server import HELD_BYTES, Application
from serveplane.dataplane.modelserver.workers import is_worker, supervise
from serveplane.http.limits import Limits
from serveplane.http.server import serve
from serveplane.http.tls import TlsConfig

log = logging.getLogger(__name__)
CONNECTIONS = 4096
TERMINATION_LOG = "/dev/termination-log"   # what Kubernetes copies into the container's status


async def main(options: Options, models: Sequence[Model] = ()) -> int:
    """Serve `models`, or what lies in the model folder; the exit code."""
    if options.workers > 1 and not is_worker():
        return await supervise(options.workers, options.grace_seconds)
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    metrics = Metrics()
    repository = Repository(options.model_dir, partial(_opened, options), metrics)
    application = Application(repository, metrics, held_bytes=max(HELD_BYTES, 2 * options.max_body_bytes),
                              body_limit=options.max_body_bytes)
    try:
        await application.siblings.start()
        await _load(application, options, models)
        application.siblings.settled = True
    except ServingError as error:
        _leave_word(str(error))
        return 1
    asked = _predictor(repository, options)
    if asked is not None and options.predictor_health:
        application.healthy = asked.is_ready
    await _serve(application, options, stop)
    if asked is not None:
        await asked.close()
    return 0


async def _load(application: Application, options: Options, models: Sequence[Model]) -> None:
    """Models given; else the one model in the folder; else every folder in it, as multi-model serving has them."""
    repository = application.repository
    for model in models:
        await repository.add(model)
    if models:
        return
    if _is_single(options):
        model = _opened(options, options.model_name, options.model_dir)
        await repository.add(model)
        log.info("model %s is loaded%s", model.name, f" by {model.read_by}" if model.read_by else "")
    else:
        await repository.load_all(await application.siblings.names())


def _is_single(options: Options) -> bool:
    """No model file, but folders or nothing at all: models come later, one folder each."""
    try:
        model_file(options.model_dir, options.framework)
    except CannotLoad:
        files = [path for path in options.model_dir.iterdir() if path.is_file()] if options.model_dir.is_dir() else []
        return bool(files)   # files that are no model: let the error speak
    return True


def _opened(options: Options, name: str, folder: Path) -> Model:
    return open_model(name, folder, FormatOptions(
        options.framework, options.pickle, options.threads, options.limits, options.own_arithmetic))


def _predictor(repository: Repository, options: Options) -> Predictor | None:
    """With --predictor_host every model may ask the predictor: that makes it a transformer or explainer."""
    if not options.predictor_host:
        return None
    asked = predictor(options.predictor_host, options.predictor_protocol, options.predictor_tls, options.predictor_timeout,
                      options.predictor_retries)
    for name in repository.names():
        repository.get(name).predictor = asked
    return asked


async def _serve(application: Application, options: Options, stop: asyncio.Event) -> None:
    address = pod.listen_address(options.http_port, options.host)
    tls = TlsConfig(options.certificate, options.key) if options.certificate and options.key else None
    limits = Limits(body_bytes=options.max_body_bytes, idle_seconds=options.keep_alive_seconds, connections=CONNECTIONS)
    server = await serve(application, address.host, address.port, tls=tls, limits=limits, reuse_port=options.workers > 1)
    log.info("listening on %s", server.url)
    rpc = await _listen_for_rpc(application, options)
    try:
        await stop.wait()
        application.draining = True
        await server.drain(options.grace_seconds)
    finally:
        if rpc is not None:
            await rpc.close(options.grace_seconds)
        await server.close()
        await application.siblings.close()
        application.repository.stop()


async def _listen_for_rpc(application: Application, options: Options) -> LazyListener | None:
    if not options.enable_grpc:
        return None
    if not is_available():
        log.info("gRPC is not served: grpcio is not installed (pip install 'serveplane[grpc]')")
        return None
    address = pod.listen_address(options.grpc_port, options.host)
    try:
        listener = LazyListener(application, address.host, address.port, options.grpc_max_message)
    except OSError as error:
        log.error("gRPC is not served: port %d cannot be had (%s)", address.port, error.strerror)
        return None
    await listener.start()
    return listener


def _leave_word(message: str) -> None:
    """The last word reaches the status of the InferenceService through the container's termination message."""
    print(message, file=sys.stderr, flush=True)
    path = pod.real_path(TERMINATION_LOG)
    if os.path.exists(path) and os.access(path, os.W_OK):
        Path(path).write_text(message[:4096])
