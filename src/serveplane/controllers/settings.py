"""The central ConfigMap as one value that is always at hand and always usable.

Parsed once per change. A bad edit keeps the last good value of the section it is in, and is told by an event, a metric and the log.
"""
import logging
from collections.abc import Callable

from serveplane.kube.events import Recorder
from serveplane.kube.informers import Informers
from serveplane.kube.kind import Kind
from serveplane.kube.metrics import Registry
from serveplane.kube.store import Change
from serveplane.settings import CONFIG_MAP, SHIPPED, Settings, settings_from

LOG = logging.getLogger(__name__)
CONFIG_MAP_KIND = Kind("v1", "ConfigMap")


class LiveSettings:
    """The settings of this cluster, as of now."""

    def __init__(self, informers: Informers, namespace: str, events: Recorder | None = None, registry: Registry | None = None) -> None:
        self.current: Settings = SHIPPED
        self._events = events
        self._listeners: list[Callable[[], None]] = []
        self._bad = (registry or Registry()).gauge("serveplane_settings_problems", "Sections of the central ConfigMap that cannot be used.")
        informer = informers.informer(CONFIG_MAP_KIND, namespace, fields=f"metadata.name={CONFIG_MAP}")
        informer.listen(self._changed)

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def _changed(self, change: Change) -> None:
        before = self.current
        self.current = settings_from(change.new.object if change.new else None, before)
        problems = [problem for problem in self.current.problems if problem.fatal]
        self._bad.set(len(problems))
        for problem in problems:
            LOG.error("%s: %s", CONFIG_MAP, problem)
            if self._events is not None and change.new is not None:
                self._events.event(change.new.object, "Warning", "InvalidSettings", f"{problem}; the last good value stays in use")
        if self.current != before and not change.initial:
            for listener in self._listeners:
                listener()
