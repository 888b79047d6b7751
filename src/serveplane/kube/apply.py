"""The one way children are written: server-side apply, only when something would change, with nothing lost on the way.

    engine = ApplyEngine(client, informers)
    result = await engine.apply(owner, children, prune=(DEPLOYMENT, SERVICE))

An object costs no request when every desired leaf stands in the live one by meaning *and* the fields we own there are
exactly those of the plan; the second half is what makes removals happen. Rules that came from trying it on a real
server (adoption, the hand-over of replicas, duplicates) are each in a function of their own.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from serveplane.kube.client import Client, PatchType
from serveplane.kube.diff import differences
from serveplane.kube.errors import Conflict, Invalid, KubeError, LeaseLost, NotFound
from serveplane.kube.informers import Informers
from serveplane.kube.kind import (
    Kind,
    ObjectRef,
    controller_of,
    controller_reference,
    is_being_deleted,
    key_of,
    kind_of,
    ref_of,
    uid_of,
)
from serveplane.kube.normal import applicable
from serveplane.kube.ownership import (
    is_written_by,
    owned_fields,
    owners_of,
    owns,
    planned_fields,
    same_fields,
    taken_over,
)
from serveplane.kube.settled import Settled, digest, version_of
from serveplane.kube.shapes import Shapes
from serveplane.kube.store import Change
from serveplane.objects import Json
from serveplane.objects.equality import says_the_same
from serveplane.objects.fieldset import Fields
from serveplane.objects.schema import Shape

LOG = logging.getLogger(__name__)
MANAGER = "serveplane"
REPLICAS_MANAGER = "serveplane-replicas"
# KServe's Go programs are all called that, and Kubernetes named the field manager after them
LEGACY = frozenset({"manager"})

Report = Callable[[Json, str, str, str], None]
"""owner, type (Normal or Warning), reason, message"""


class NotOurs(KubeError):
    """An object of that name exists and is controlled by someone else; it is left alone."""


class Did(StrEnum):
    NOTHING = "unchanged"
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    WAITS = "waits for the old one to go"


@dataclass
class Applied:
    """What one call did, and the children as they are now."""

    live: dict[ObjectRef, Json] = field(default_factory=dict)
    did: dict[ObjectRef, Did] = field(default_factory=dict)
    errors: list[tuple[ObjectRef, KubeError]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        """A child of the same name is still being deleted; its going will wake the controller."""
        return Did.WAITS in self.did.values()


@dataclass(frozen=True)
class _Plan:
    """One child as it is wanted, with all that is asked of it more than once."""

    owner: Json
    owner_ref: ObjectRef
    ref: ObjectRef
    desired: Json
    shape: Shape
    digest: bytes
    warnings: tuple[str, ...]

    @cached_property
    def fields(self) -> Fields:
        """What we own once it is applied."""
        return planned_fields(self.desired, self.shape)


class ApplyEngine:
    """Applies plans for any number of owners; shared by the workers of a controller."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        *,
        manager: str = MANAGER,
        legacy: Collection[str] = LEGACY,
        report: Report | None = None,
    ) -> None:
        self._client = client
        self._informers = informers
        self._manager = manager
        self._legacy = frozenset(legacy)
        self._report = report or (lambda owner, type, reason, message: None)
        self._shapes = Shapes(client)
        self._settled = Settled()
        self._heard: set[Kind] = set()

    async def apply(
        self, owner: Json, children: Iterable[Json], *, prune: Sequence[Kind] = (), keep: Collection[ObjectRef] = ()
    ) -> Applied:
        """Bring the children into being, in order, then remove what the plan no longer has (only when all went well).

        Raises the first error after all children were tried, so that one bad child does not hold up the others.
        """
        self._listen(kind_of(owner))
        done = Applied()
        wanted = set(keep)
        for child in children:
            ref = ref_of(child)
            wanted.add(ref)
            try:
                await self._one(owner, _owned_by(owner, child), ref, done)
            except LeaseLost:
                raise  # no child will get through any more
            except KubeError as error:
                done.errors.append((ref, error))
        if done.errors:
            raise _first(done)
        await self._prune(owner, prune, wanted, done)
        return done

    async def diff(self, desired: Json) -> list[str]:
        """What applying an object would change, in words; a missing object is one difference."""
        shape, live = await self._shapes.of(kind_of(desired)), await self._live(ref_of(desired))
        if live is None:
            return [f"{ref_of(desired)} does not exist"]
        found = [str(difference) for difference in differences(desired, live, shape)]
        if not found and not same_fields(owned_fields(live, self._manager), planned_fields(desired, shape)):
            found.append(f"{ref_of(desired)}: fields that are no longer wanted are removed")
        return found

    async def remove(self, ref: ObjectRef, *, labels: dict[str, str]) -> bool:
        """Delete a cluster-scoped child by name, if it carries the labels that mark it as ours. Whether there was one to delete."""
        live = await self._live(ref)
        if live is None or is_being_deleted(live):
            return False
        have = live["metadata"].get("labels") or {}
        if any(have.get(name) != value for name, value in labels.items()):
            raise NotOurs(f"{ref} exists but does not carry the labels of ours; it is left alone")
        await self._delete(ref, live)
        return True

    # ---- one child

    async def _one(self, owner: Json, child: Json, ref: ObjectRef, done: Applied) -> None:
        live, written = await self._live(ref), digest(child)
        known = self._settled.place(ref_of(owner), ref, written, live) if live else None
        if live is not None and is_being_deleted(live):
            done.live[ref], done.did[ref] = live, Did.WAITS
            return
        if live is not None and known is not None:
            done.live[ref], done.did[ref] = live, Did.NOTHING
            done.warnings += known.warnings
            return
        plan = await self._planned(owner, child, ref, written)
        done.warnings += plan.warnings
        done.live[ref], done.did[ref] = await (self._create(plan) if live is None else self._compare(plan, live))

    async def _planned(self, owner: Json, child: Json, ref: ObjectRef, written: bytes) -> _Plan:
        shape = await self._shapes.of(ref.kind)
        warnings: list[str] = []
        desired = applicable(child, shape, lambda text: warnings.append(f"{ref}: {text}"))
        return _Plan(owner, ref_of(owner), ref, desired, shape, written, tuple(warnings))

    async def _compare(self, plan: _Plan, live: Json) -> tuple[Json, Did]:
        self._check_control(plan, live)
        live = await self._adopted(plan, live)
        if not self._is_exact(plan, live):
            return await self._change(plan, live), Did.CHANGED
        self._settled.note(plan.owner_ref, plan.ref, plan.digest, live, plan.warnings)
        return live, Did.NOTHING

    def _is_exact(self, plan: _Plan, live: Json) -> bool:
        return says_the_same(plan.desired, live, plan.shape) and same_fields(
            owned_fields(live, self._manager), plan.fields
        )

    async def _create(self, plan: _Plan) -> tuple[Json, Did]:
        if self._settled.has(plan.owner_ref, plan.ref):
            message = f"{plan.ref} had been deleted by someone else and is created again"
            self._report(plan.owner, "Warning", "ChildRestored", message)
        return await self._send(plan), Did.CREATED

    async def _change(self, plan: _Plan, live: Json) -> Json:
        drift = self._drift(plan, live)
        await self._hand_over_replicas(plan, live)
        answered = await self._send(plan)
        if not self._is_exact(plan, answered):
            told = [*map(str, differences(plan.desired, answered, plan.shape))]
            LOG.debug("%s is stored otherwise than written: %s", plan.ref, told)
            self._shapes.forget(plan.ref.kind)
        for manager, names in drift:
            self._report(
                plan.owner,
                "Warning",
                "ChildRestored",
                f"{plan.ref} was changed by {manager} ({_few(names)}) and is put back",
            )
        return answered

    async def _send(self, plan: _Plan) -> Json:
        """Apply. The answer is remembered as this plan in place, so that one which the server stores otherwise than written
        is not applied for ever."""
        with self._own_write(plan.ref):
            answered = await self._client.apply(plan.desired, self._manager, force=True)
            self._note(plan.ref.kind, answered)
        self._settled.note(plan.owner_ref, plan.ref, plan.digest, answered, plan.warnings)
        return answered

    # ---- rules

    def _check_control(self, plan: _Plan, live: Json) -> None:
        controller = controller_of(live)
        if (
            controller is not None
            and controller.get("uid") != uid_of(plan.owner)
            and not _is_out_of_reach(plan.owner, live)
        ):
            other = f"{controller.get('kind')}/{controller.get('name')}"
            raise NotOurs(f"{plan.ref} exists and is controlled by {other}; it is left alone")

    async def _adopted(self, plan: _Plan, live: Json) -> Json:
        """Turn what KServe's own controller owns by Update into what we own by Apply; else later removals would not happen."""
        controller = controller_of(live)
        if not (controller and controller.get("uid") == uid_of(plan.owner)) and not _is_out_of_reach(plan.owner, live):
            return live
        managed = taken_over(live, self._manager, self._legacy, plan.fields)
        if managed is None:
            return live
        ref, metadata = plan.ref, live["metadata"]
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
            {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
            {"op": "replace", "path": "/metadata/managedFields", "value": managed},
        ]
        try:
            adopted = await self._client.patch(
                ref.kind, ref.name, ref.namespace, patch, patch_type=PatchType.JSON, field_manager=self._manager
            )
        except Invalid:  # a failed `test`: the object moved on since it was read
            raise Conflict(f"{ref} changed while it was being adopted", reason="Conflict") from None
        self._note(ref.kind, adopted)
        LOG.info("adopted", extra={"child": str(ref)})
        return adopted

    async def _hand_over_replicas(self, plan: _Plan, live: Json) -> None:
        """When an autoscaler takes over, the number must survive our letting go of it: a field nobody owns falls to its default."""
        number = (live.get("spec") or {}).get("replicas")
        ours = owns(owned_fields(live, self._manager), "spec", "replicas")
        if number is None or "replicas" in (plan.desired.get("spec") or {}) or not ours:
            return
        # The resource version makes the server refuse if the autoscaler moved the number meanwhile.
        metadata = {"name": plan.ref.name, "namespace": plan.ref.namespace, "resourceVersion": version_of(live)}
        kind = plan.ref.kind
        alone = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": {"replicas": number}}
        await self._client.apply(alone, REPLICAS_MANAGER, force=True)

    def _drift(self, plan: _Plan, live: Json) -> list[tuple[str, list[str]]]:
        """Who made fields of the plan something else."""
        if owned_fields(live, self._manager) is None:
            return []
        changed: Fields = {}
        for difference in differences(plan.desired, live, plan.shape):
            node = changed
            for element in difference.path:
                node = node.setdefault(element, {})
        return list(owners_of(live, changed, self._manager)) if changed else []

    # ---- prune

    async def _prune(self, owner: Json, kinds: Sequence[Kind], wanted: set[ObjectRef], done: Applied) -> None:
        for kind in kinds:
            informer = self._informers.covering(kind, key_of(owner).namespace)
            if informer is None or not informer.is_synced:
                continue  # what cannot be seen is not deleted
            for key in informer.keys_by_index("owner", uid_of(owner)):
                ref = ObjectRef(kind, *key)
                live = informer.get(*key) if ref not in wanted else None
                if live is not None and self._is_prunable(live, owner):
                    await self._delete(ref, live)
                    self._settled.drop(ref_of(owner), ref)
                    done.did[ref] = Did.DELETED

    def _is_prunable(self, live: Json, owner: Json) -> bool:
        """Controlled by this very owner (by uid: a namesake of another life does not count), and written by one of us."""
        controller = controller_of(live)
        ours = controller is not None and controller.get("uid") == uid_of(owner)
        return ours and not is_being_deleted(live) and is_written_by(live, self._legacy | {self._manager})

    async def _delete(self, ref: ObjectRef, live: Json) -> None:
        try:
            await self._client.delete(
                ref.kind,
                ref.name,
                ref.namespace,
                uid=uid_of(live),
                resource_version=version_of(live),
                propagation="Background",
            )
        except NotFound:
            LOG.debug("%s is gone already", ref)

    # ---- reads

    async def _live(self, ref: ObjectRef) -> Json | None:
        """From the cache; from the server where there is none, or where all the cache knows is that something is there."""
        informer = self._informers.covering(ref.kind, ref.namespace)
        if informer is None or not informer.is_synced:
            return await self._client.find(ref.kind, ref.name, ref.namespace)
        live = informer.get(ref.namespace, ref.name)
        if live is None and informer.foreign_uid(ref.namespace, ref.name):
            return await self._client.find(ref.kind, ref.name, ref.namespace)
        return live

    def _own_write(self, ref: ObjectRef) -> AbstractContextManager[None]:
        informer = self._informers.covering(ref.kind, ref.namespace)
        return informer.own_write(ref.namespace, ref.name) if informer is not None else nullcontext()

    def _note(self, kind: Kind, live: Json) -> None:
        informer = self._informers.covering(kind, key_of(live).namespace)
        if informer is not None:
            informer.note(live)

    def _listen(self, owner: Kind) -> None:
        """Forget about an owner's children when the owner goes, if its kind is watched at all."""
        if owner in self._heard:
            return
        self._heard.add(owner)
        informer = self._informers.covering(owner)

        def listener(change: Change) -> None:
            if change.new is None:
                self._settled.forget(ObjectRef(owner, *change.item.key))

        if informer is not None:
            informer.listen(listener)


def _owned_by(owner: Json, child: Json) -> Json:
    """The child with its controller reference. A child out of its owner's namespace cannot have one."""
    if _is_out_of_reach(owner, child) or not uid_of(owner) or child["metadata"].get("ownerReferences"):
        return child
    return {**child, "metadata": {**child["metadata"], "ownerReferences": [controller_reference(owner)]}}


def _is_out_of_reach(owner: Json, child: Json) -> bool:
    return bool(key_of(owner).namespace) and key_of(owner).namespace != key_of(child).namespace


def _first(done: Applied) -> KubeError:
    """One error to raise: what retrying cannot mend before what it can."""
    ref, error = next(((r, e) for r, e in done.errors if not isinstance(e, Conflict)), done.errors[0])
    error.args = (f"{ref}: {error}", *error.args[1:])
    return error


def _few(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
