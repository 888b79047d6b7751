"""DELETE: finalizers, grace, propagation, preconditions; one object or a collection."""

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from serveplane.clock import timestamp
from serveplane.embedded.apiserver import body, errors, representation
from serveplane.embedded.apiserver.kinds.typed import read_as
from serveplane.embedded.apiserver.reading import found, list_metadata
from serveplane.embedded.apiserver.request import Answer, Request, unsupported_option
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.apiserver.selecting import selection
from serveplane.embedded.apiserver.writing import Write, shown
from serveplane.embedded.store import Conflict, Record
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
ORPHANED_BY_DEFAULT = frozenset({"jobs.batch", "replicationcontrollers"})
DEFINITIONS, CLEAN_UP = "customresourcedefinitions.apiextensions.k8s.io", "customresourcecleanup.apiextensions.k8s.io"
RETURNED = frozenset(
    {
        "csidrivers.storage.k8s.io",
        "storageclasses.storage.k8s.io",
        "volumeattachments.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "volumeattributesclasses.storage.k8s.io",
        "resourcequotas",
        "persistentvolumes",
        "serviceaccounts",
        "persistentvolumeclaims",
        "namespaces",
        "pods",
        "services",
        "podtemplates",
    }
)
"""Resources whose last state is the answer to their deletion; for all others it is a Status."""
JOB_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


LONGEST_GRACE = 1 << 31
"""Seconds. More would be no date that can be written."""


@dataclass(frozen=True)
class Options:
    """metav1.DeleteOptions, from the body or the query."""

    grace: int | None = None
    propagation: str = ""
    uid: str | None = None
    version: str | None = None
    dry_run: bool = False

    @classmethod
    def of(cls, request: Request) -> "Options":
        return cls.told(request, body.decoded(request) if request.body else {})

    @classmethod
    def told(cls, request: Request, value: Json) -> "Options":
        """From what was sent, and from the query where that is silent."""
        sent = read_as("meta.k8s.io", "v1", "DeleteOptions", value)
        grace = sent.get("gracePeriodSeconds", request.number("gracePeriodSeconds"))
        propagation = sent.get("propagationPolicy") or request.query.get("propagationPolicy", "")
        orphan = sent.get("orphanDependents")
        if orphan is None and "orphanDependents" in request.query:
            orphan = request.flag("orphanDependents")
        if propagation and orphan is not None:
            cause = errors.Cause(
                "FieldValueInvalid",
                f'Invalid value: "{propagation}": orphanDependents and deletionPropagation cannot be both set',
                "propagationPolicy",
            )
            raise errors.invalid("DeleteOptions", "meta.k8s.io", "", [cause])
        if propagation not in ("", "Orphan", "Background", "Foreground"):
            known = ["Foreground", "Background", "Orphan", "nil"]
            cause = unsupported_option("propagationPolicy", f'"{propagation}"', known)
            raise errors.invalid("DeleteOptions", "meta.k8s.io", "", [cause])
        if orphan is not None:
            propagation = "Orphan" if orphan else "Background"
        dry_run = sent.get("dryRun") or ([request.query["dryRun"]] if request.query.get("dryRun") else [])
        if dry_run and set(dry_run) != {"All"}:
            listed = msgspec.json.encode(dry_run).decode()
            raise errors.invalid("DeleteOptions", "meta.k8s.io", "", [unsupported_option("dryRun", listed, ["All"])])
        preconditions = sent.get("preconditions") or {}
        return cls(grace, propagation, preconditions.get("uid"), preconditions.get("resourceVersion"), bool(dry_run))

    def shown(self) -> Json:
        """As a webhook sees them."""
        preconditions = {"uid": self.uid, "resourceVersion": self.version}
        found: Json = {
            "gracePeriodSeconds": self.grace,
            "preconditions": {key: item for key, item in preconditions.items() if item} or None,
            "propagationPolicy": self.propagation or None,
            "dryRun": ["All"] if self.dry_run else None,
        }
        return {key: item for key, item in found.items() if item is not None}


class Deleting:
    """All that is special about the end of an object."""

    def is_finished(self, resource: Resource, new: Json, live: Json) -> bool:
        """Whether an update took the last reason to keep a deleted object."""
        metadata = new["metadata"]
        if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
            return False
        if resource.bucket == "namespaces":
            return not (new.get("spec") or {}).get("finalizers")
        return bool(live["metadata"].get("finalizers")) and not metadata.get("deletionGracePeriodSeconds")

    async def delete(self, core: "Core", request: Request, resource: Resource) -> Answer:
        options = Options.of(request)
        _warn(request, resource, options)
        for _ in range(5):
            record = found(core, resource, request.target.namespace, request.target.name)
            try:
                gone, data = await self.delete_record(core, request, resource, record, options)
            except Conflict:
                continue
            return await self._answer(core, request, resource, record, gone, data)
        raise errors.conflict(resource.plural, resource.group, request.target.name)

    async def _answer(
        self, core: "Core", request: Request, resource: Resource, record: Record, gone: bool, data: bytes
    ) -> Answer:
        if gone and resource.bucket not in RETURNED:
            return Answer(200, errors.encoded(errors.success(_details(resource, record))))
        return Answer(200, await shown(core, request, resource, data))

    async def delete_record(
        self, core: "Core", request: Request, resource: Resource, record: Record, options: Options
    ) -> tuple[bool, bytes]:
        """Delete, or begin to: whether the object is gone now, and its last state."""
        live = record.value()
        _check(resource, live, options)
        write = Write(request, resource, {}, live, options=options.shown())
        await core.admit_delete(write)
        if core.store.get(resource.bucket, record.key) is not record:
            raise Conflict
        value = record.value()
        changed = _finalizers(resource, value, options)
        kept = self._grace(core, resource, value, options)
        if kept is False and not value["metadata"].get("finalizers") and not _namespace_content(resource, value):
            if options.dry_run and changed:  # shown without the finalizers that would have gone first
                return False, errors.encoded(value)
            return True, await _removed(core, resource, record, value, options)
        if kept is None and not changed:  # on its way out already, and nothing new was asked
            return False, record.data
        return False, await _marked(core, resource, record, value, options, changed)

    def _grace(self, core: "Core", resource: Resource, value: Json, options: Options) -> bool | None:
        """Set when the object should be gone: True if later, False if now, None if nothing changes."""
        metadata, seconds = value["metadata"], min(core.kinds.grace(resource, value, options.grace), LONGEST_GRACE)
        if "deletionTimestamp" in metadata:
            left = metadata.get("deletionGracePeriodSeconds") or 0
            if seconds >= left and not (seconds == left == 0 and resource.bucket == "pods"):
                return None if metadata.get("finalizers") or left or _namespace_content(resource, value) else False
            moment = core.clock.now() + datetime.timedelta(seconds=seconds)
        else:
            moment = core.clock.now() + datetime.timedelta(seconds=seconds)
            if not seconds and not metadata.get("finalizers") and resource.bucket not in ("namespaces", "pods"):
                return False
            if metadata.get("generation"):
                metadata["generation"] += 1
        metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"] = timestamp(moment), seconds
        if resource.bucket == "namespaces":
            value.setdefault("status", {})["phase"] = "Terminating"
            metadata.pop("deletionGracePeriodSeconds")
        return bool(seconds)

    async def delete_collection(self, core: "Core", request: Request, resource: Resource) -> Answer:
        options, chosen = Options.of(request), selection(request, resource)
        _warn(request, resource, options)
        form = representation.negotiated(request.headers, core.clock)
        gone: list[bytes] = []
        for record in list(core.store.records(resource.bucket, chosen.namespace)):
            if not chosen.matches(record):
                continue
            gone.append(record.data)
            await self._delete_latest(core, request, resource, record, options)
        items = await core.convert.many(resource, gone) if resource.converts else gone
        return Answer(200, representation.many(form, resource, items, list_metadata(resource, core.store.version)))

    async def _delete_latest(
        self, core: "Core", request: Request, resource: Resource, record: Record, options: Options
    ) -> None:
        current: Record | None = record
        while current is not None:
            try:
                await self.delete_record(core, request, resource, current, options)
                return
            except Conflict:
                current = core.store.get(resource.bucket, record.key)


def _warn(request: Request, resource: Resource, options: Options) -> None:
    if resource.bucket == "jobs.batch" and not options.propagation:
        request.warnings.append(JOB_WARNING)


def _namespace_content(resource: Resource, value: Json) -> bool:
    return resource.bucket == "namespaces" and bool((value.get("spec") or {}).get("finalizers"))


def _check(resource: Resource, live: Json, options: Options) -> None:
    metadata = live["metadata"]
    tail = "The object might have been deleted and then recreated"
    if options.uid is not None and options.uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({metadata['uid']}). {tail}"
        )
        raise errors.conflict(resource.kind, resource.group, metadata["name"], why)
    if options.version is not None and options.version != metadata["resourceVersion"]:
        given, now = options.version, metadata["resourceVersion"]
        differs = (
            f"the ResourceVersion in the precondition ({given}) does not match the ResourceVersion in record ({now})"
        )
        why = f"{differs}. The object might have been modified"
        raise errors.conflict(resource.kind, resource.group, metadata["name"], why)


def _finalizers(resource: Resource, value: Json, options: Options) -> bool:
    """Set the finalizers that stand for the propagation policy; whether they changed."""
    metadata = value["metadata"]
    before: list[str] = metadata.get("finalizers") or []
    policy = options.propagation
    if not policy:
        if ORPHAN in before or FOREGROUND in before:
            return False
        policy = "Orphan" if resource.bucket in ORPHANED_BY_DEFAULT else "Background"
    after = [name for name in before if name not in (ORPHAN, FOREGROUND)]
    after += {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, []) if resource.bucket != "events" else []
    if resource.bucket == DEFINITIONS and CLEAN_UP not in after:
        after.append(CLEAN_UP)
    if after == before:
        return False
    metadata["finalizers"] = after
    if not after:
        del metadata["finalizers"]
    return True


async def _removed(core: "Core", resource: Resource, record: Record, value: Json, options: Options) -> bytes:
    if options.dry_run:
        return record.data
    written = core.store.delete(resource.bucket, record, value)
    await core.store.acknowledged()
    return written.data


async def _marked(
    core: "Core", resource: Resource, record: Record, value: Json, options: Options, changed: bool
) -> bytes:
    if options.dry_run:
        return errors.encoded(value)
    written = core.store.update(resource.bucket, record, value)
    await core.store.acknowledged()
    return written.data


def _details(resource: Resource, record: Record) -> Json:
    details = {
        "name": record.key.name,
        "group": resource.group,
        "kind": resource.plural,
        "uid": record.value()["metadata"]["uid"],
    }
    return {key: item for key, item in details.items() if item}
