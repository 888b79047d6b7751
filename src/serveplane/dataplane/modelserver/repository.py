"""Models by name: one from the start, or many that come and go through the repository API."""
import asyncio
import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serveplane.dataplane.modelserver.errors import CannotLoad, InvalidInput, ModelNotFound, ModelNotReady, ServingError
from serveplane.dataplane.modelserver.metrics import Metrics
from serveplane.dataplane.modelserver.model import Model

log = logging.getLogger(__name__)
Opener = Callable[[str, Path], Model]


class Repository:
    """All models of this server. A model is replaced only after its successor has loaded."""

    def __init__(self, folder: Path, opener: Opener, metrics: Metrics) -> None:
        self._folder, self._opener, self._metrics = folder, opener, metrics
        self._models: dict[str, Model] = {}
        self._failures: dict[str, str] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def names(self) -> list[str]:
        return list(self._models)

    def get(self, name: str) -> Model:
        model = self._models.get(name)
        if model is not None:
            return model
        if name in self._failures:
            raise ModelNotReady(name, self._failures[name])
        raise ModelNotFound(name)

    async def add(self, model: Model) -> None:
        """Load a model that exists already, as a user's program hands them in."""
        await load(model)
        self._put(model)

    async def load(self, name: str) -> None:
        """Read the model's folder (again) and serve what is in it."""
        folder = self._folder_of(name)
        async with self._locks.setdefault(name, asyncio.Lock()):
            try:
                model = self._opener(name, folder)
                await load(model)
            except Exception as error:
                self._failures[name] = _sentence(error)
                log.error("model %s cannot be loaded: %s", name, _sentence(error))
                raise ModelNotReady(name, _sentence(error)) from error
            self._put(model)
            log.info("model %s is loaded%s", name, f" by {model.read_by}" if model.read_by else "")

    def unload(self, name: str) -> None:
        was_known = self._failures.pop(name, None) is not None
        model = self._models.pop(name, None)
        if model is None and not was_known:
            raise ModelNotFound(name)
        self._metrics.forget(name)
        self._locks.pop(name, None)
        if model is not None:
            model.ready = False
            model.stop()
            log.info("model %s is unloaded", name)

    async def load_all(self, names: list[str] | None = None) -> None:
        """Every folder of the repository, or those named; one that fails does not keep the others from being served."""
        for name in self._folders() if names is None else names:
            try:
                await self.load(name)
            except ServingError:
                continue

    def _folders(self) -> list[str]:
        found = sorted(self._folder.iterdir()) if self._folder.is_dir() else []
        return [folder.name for folder in found if folder.is_dir() and not folder.name.startswith(".")]

    async def index(self, only_ready: bool) -> list[dict[str, Any]]:
        rows = [{"name": name, "state": "READY" if await model.healthy() else "UNAVAILABLE", "reason": _way(model)}
                for name, model in sorted(self._models.items())]
        rows += [{"name": name, "state": "UNAVAILABLE", "reason": reason}
                 for name, reason in sorted(self._failures.items()) if name not in self._models]
        return [row for row in rows if row["state"] == "READY" or not only_ready]

    def stop(self) -> None:
        for model in self._models.values():
            model.stop()

    def _put(self, model: Model) -> None:
        old = self._models.get(model.name)
        self._models[model.name] = model
        self._failures.pop(model.name, None)
        self._metrics.loaded[model.name] = model.ready
        if model.read_by:
            self._metrics.read_by[model.name] = model.read_by
        if old is not None:
            old.stop()

    def _folder_of(self, name: str) -> Path:
        if not name or name.startswith(".") or "/" in name or "\\" in name or "\0" in name or len(name) > 253:
            raise InvalidInput(f"{name!r} is not a model name", "name")
        folder = self._folder / name
        if not folder.exists() and name not in self._models:
            raise ModelNotFound(name)
        return folder


async def load(model: Model) -> None:
    """Run the model's `load`, in a thread unless it is async."""
    if inspect.iscoroutinefunction(model.load):
        done = await model.load()
    else:
        done = await asyncio.to_thread(model.load)
    if done is False:
        raise CannotLoad(f"load of model {model.name} returned False")
    model.ready = model.ready or done is True


def _way(model: Model) -> str:
    """How its file was read, where there is more than one way: whoever allowed pickles to run wants to know whether one did."""
    return f"read by {model.read_by}" if model.read_by else ""


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, ServingError) else f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
