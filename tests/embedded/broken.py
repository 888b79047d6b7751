"""The embedded server with one thing broken, to see whether the suite would notice: `python -m tests.embedded.broken FAULT --data …`."""

import sys
from collections.abc import Callable
from typing import Any

from serveplane.embedded.apiserver import __main__ as program
from serveplane.embedded.apiserver import errors, managed, reading, selecting, watching, writing
from serveplane.embedded.apiserver.deleting import Deleting
from serveplane.embedded.apiserver.kinds import builtin, codec
from serveplane.embedded.apiserver.kinds.kinds import Kinds
from serveplane.embedded.store import Store
from serveplane.objects import serverside


def lost_event() -> None:
    """Every second change is not told to watchers."""
    original = Store._publish
    seen = [0]

    def publish(self: Store, batch: Any) -> None:
        kept = []
        for change in batch:
            seen[0] += change.type == "MODIFIED"
            if change.type != "MODIFIED" or seen[0] % 2:
                kept.append(change)
        original(self, kept) if kept else None

    Store._publish = publish  # type: ignore[method-assign]


def no_conflict() -> None:
    """A stale resourceVersion is accepted."""
    writing._check_preconditions = lambda resource, live, wanted: None


def stale_list() -> None:
    """Lists leave out the newest object."""
    original = reading._current
    reading._current = lambda core, resource, chosen: sorted(
        original(core, resource, chosen), key=lambda record: record.version
    )[:-1]


def forced_apply() -> None:
    """Conflicts of appliers are overlooked."""
    original = serverside.applied
    managed.serverside.applied = lambda live, config, owners, manager, shape, force: original(
        live, config, owners, manager, shape, True
    )


def no_defaults() -> None:
    for name in ("core.v1.PodSpec", "core.v1.Container", "apps.v1.DeploymentSpec"):
        del codec.DEFAULTS[name]


def finalizers_ignored() -> None:
    Deleting.is_finished = lambda self, resource, new, live: False  # type: ignore[method-assign]


def labels_ignored() -> None:
    original = selecting.Selection.matches
    selecting.Selection.matches = lambda self, record: original(self, record) if self.fields.terms else True  # type: ignore[method-assign]


def status_written_by_all() -> None:
    Kinds.prepare_update = lambda self, core, write: self.keep_server_fields(write)  # type: ignore[method-assign]


def generation_never_grows() -> None:
    builtin._intent = lambda resource, value: None


def wrong_code() -> None:
    """What is not there is answered with 403."""
    original = errors.not_found

    def forbidden(plural: str, group: str, name: str) -> errors.Refusal:
        refusal = original(plural, group, name)
        refusal.code = 403
        return refusal

    errors.not_found = forbidden


def dry_run_writes() -> None:
    from serveplane.embedded.apiserver.request import Request

    Request.dry_run = property(lambda self: False)  # type: ignore[assignment]


def watch_without_selector() -> None:
    watching.Watch._event = lambda self, change: (change.type, change.record)  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[], None]] = {
    fault.__name__: fault
    for fault in (
        lost_event,
        no_conflict,
        stale_list,
        forced_apply,
        no_defaults,
        finalizers_ignored,
        labels_ignored,
        status_written_by_all,
        generation_never_grows,
        wrong_code,
        dry_run_writes,
        watch_without_selector,
    )
}

if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    program.main(sys.argv[2:])
