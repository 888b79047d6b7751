"""One model from a URI to a folder: list, transfer, unpack or publish."""
import fcntl
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from serveplane import pod
from serveplane.clock import SYSTEM, Clock
from serveplane.dataplane.storage import sources
from serveplane.dataplane.storage.archives import is_archive, unpack
from serveplane.dataplane.storage.deadline import Deadline
from serveplane.dataplane.storage.errors import Interrupted, StorageError, shown
from serveplane.dataplane.storage.files import Listing, Patterns
from serveplane.dataplane.storage.progress import Progress
from serveplane.dataplane.storage.sources import local
from serveplane.dataplane.storage.staging import Staging
from serveplane.dataplane.storage.transfer import Transfer, TransferSettings

MODELS = "/mnt/models"


def download(uri: str, destination: str, patterns: Patterns | None = None, settings: TransferSettings | None = None,
             environment: Mapping[str, str] = os.environ, output: IO[str] | None = None, clock: Clock = SYSTEM,
             deadline: Deadline | None = None) -> Path:
    """The folder that then holds the model. Raises StorageError in one sentence. A deadline may be shared by several downloads."""
    folder, patterns = Path(pod.real_path(destination)), patterns or Patterns()
    source = local.path_of(uri)
    if source is not None and (uri.startswith(MODELS) or source == folder):
        folder.mkdir(parents=True, exist_ok=True)   # multi-model serving: the agent brings the models
        return folder
    if source is not None:
        local.provide(uri, source, folder, patterns)
        return folder
    settings = settings or TransferSettings()
    deadline = deadline or Deadline(settings.deadline_seconds, clock)
    listing = _listed(uri, patterns, environment, settings.attempts, clock, deadline)
    staging = Staging(folder)
    with _alone(staging), Progress(shown(uri), output, clock) as progress:
        Transfer(listing, staging, settings, progress, clock, deadline).run()
        _finish(listing, staging)
    return folder


def _listed(uri: str, patterns: Patterns, environment: Mapping[str, str], attempts: int, clock: Clock, deadline: Deadline) -> Listing:
    """The listing, asked for again while the source is busy or cannot be reached."""
    for attempt in range(1, attempts):
        try:
            return sources.listing(uri, patterns, environment)
        except Interrupted:
            deadline.check()
            pause = min(30.0, 0.125 * 2**attempt) * (0.5 + clock.random())
            threading.Event().wait(min(pause, max(0.0, deadline.left())))
    return sources.listing(uri, patterns, environment)


def _finish(listing: Listing, staging: Staging) -> None:
    if listing.layers:
        _finish_layers(listing, staging)
        return
    first = listing.files[0]
    if not (listing.unpack and len(listing.files) == 1 and is_archive(first.path)):
        staging.publish(listing.files)
        return
    unpacked = staging.folder / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)   # left by a run that was cut
    unpack(staging.finished(first), first.path, unpacked)
    staging.publish_folder(unpacked)


def _finish_layers(listing: Listing, staging: Staging) -> None:
    """Layers lie over each other, the last on top."""
    unpacked = staging.folder / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    entries = sum(unpack(staging.finished(layer), "layer.tar", unpacked, only=listing.layers) for layer in listing.files)
    if not entries:
        raise StorageError(f"the image has no folder /{listing.layers} with a model in it")
    staging.publish_folder(unpacked)


@contextmanager
def _alone(staging: Staging) -> Iterator[None]:
    """Two downloads into one folder wait for each other."""
    descriptor = os.open(staging.folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        staging.folder.mkdir(exist_ok=True)   # the one before us may have removed it
        staging.trust()
        yield
    finally:
        os.close(descriptor)
