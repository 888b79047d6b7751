"""The reconcile of an InferenceService: reading and writing around one pure decision."""
import contextlib
import logging
from collections.abc import Iterator
from datetime import timedelta

import msgspec

from serveplane.clock import SYSTEM, Clock
from serveplane.controllers.inferenceservice.caches import TRAINED_MODEL, Caches
from serveplane.controllers.inferenceservice.credentials import gather_credentials
from serveplane.controllers.inferenceservice.decide import CA_BUNDLE_KEY, decide
from serveplane.controllers.inferenceservice.downloads import Downloads, pods_in
from serveplane.controllers.inferenceservice.finalizer import has_finalizer, with_finalizer, without_finalizer
from serveplane.controllers.inferenceservice.outcome import Outcome, outcome
from serveplane.controllers.inferenceservice.stalled import Want, stalled, try_again
from serveplane.controllers.inferenceservice.world import (
    CHILD_KINDS,
    CONFIG_MAP,
    DEPLOYMENT,
    INFERENCE_SERVICE,
    Notice,
    Plan,
    World,
)
from serveplane.controllers.settings import LiveSettings
from serveplane.kube.apply import MANAGER, ApplyEngine, Did
from serveplane.kube.client import Client, PatchType
from serveplane.kube.controller import Controller
from serveplane.kube.errors import Conflict, ConnectionFailed, KubeError, LeaseLost, NotFound
from serveplane.kube.events import Recorder
from serveplane.kube.informers import Informer, Informers
from serveplane.kube.kind import Key, ObjectRef, is_being_deleted, key_of, ref_of
from serveplane.kube.metrics import Registry
from serveplane.kube.queue import Priority
from serveplane.objects import Json
from serveplane.objects.jsonpatch import merge_patch
from serveplane.render.facts import Facts
from serveplane.render.names import APP_LABEL
from serveplane.render.pods.credentials import MissingSecret
from serveplane.render.pods.oci import NATIVE
from serveplane.status.images import parsed_version
from serveplane.status.service import is_ready, may_wait

LOG = logging.getLogger(__name__)
NEIGHBOUR_SECONDS = 2.0
LONGEST_WAIT_FOR_SECRET = timedelta(minutes=1)


class InferenceServices:
    """Everything that the reconcile needs, put together once."""

    def __init__(self, client: Client, informers: Informers, settings: LiveSettings, events: Recorder, *, namespace: str,
                 cluster_domain: str, clock: Clock = SYSTEM, registry: Registry | None = None, workers: int = 16) -> None:
        self._client = client
        self._settings = settings
        self._events = events
        self._namespace = namespace
        self._domain = cluster_domain
        self._clock = clock
        self._caches = Caches(informers)
        self._engine = ApplyEngine(client, informers, report=events.event)
        self._shared: dict[ObjectRef, Json] = {}
        self._waits: dict[Key, tuple[int, float]] = {}
        self._held: dict[Key, float] = {}
        self._bundles: dict[str, Informer] = {}
        self._version: tuple[int, int] | None = None
        self.controller = Controller("inferenceservice", self.reconcile, self._caches.watches(), workers=workers, clock=clock,
                                     registry=registry)
        self.downloads = Downloads(client, self._caches.pods, self._progressed, clock)
        self._informers = informers
        settings.on_change(lambda: self.controller.resync_all())

    def attached(self) -> None:
        """After the controller was given its caches."""
        self._caches.remember((*CHILD_KINDS, CONFIG_MAP))

    async def follow_neighbours(self) -> None:
        """Look at every service again when a neighbour's kind appears or goes; the caches find that out by themselves."""
        known = self._caches.absent_kinds()
        while True:
            await self._clock.sleep(NEIGHBOUR_SECONDS)
            if known != (known := self._caches.absent_kinds()):
                self.controller.resync_all()

    def _progressed(self, pod: Key) -> None:
        service = self._caches.service_of_pod(pod)
        if service is not None:
            self.controller.queue.add(service, Priority.ROUTINE)

    async def reconcile(self, key: Key) -> timedelta | None:
        raw = self._caches.services.get(*key)
        if raw is None:
            self._waits.pop(key, None)
            self._held.pop(key, None)
            return None
        if is_being_deleted(raw):
            await self._finalize(raw)
            return None
        raw = await self._with_finalizer(raw)
        world = await self._gather(raw)
        plan = decide(world)
        live, error = dict(world.live), None
        if not plan.frozen:
            live, error = await self._apply(world, plan)
        result = outcome(world, plan, live, str(error) if error else "")
        wait = self._held_back(key, raw, result)
        if wait is not None:
            return wait
        await self._write_status(raw, result, plan)
        if error is not None:
            raise error
        return await self._again(key, plan, result, stalled(live.values()))

    def _held_back(self, key: Key, raw: Json, result: Outcome) -> timedelta | None:
        """What may wait is written only if it lasts."""
        now, seconds = self._clock.monotonic(), may_wait(raw.get("status") or {}, result.status)
        until = min(self._held.get(key, now + seconds), now + seconds)
        if until > now:
            self._held[key] = until
            return timedelta(seconds=until - now)
        self._held.pop(key, None)
        return None

    async def _again(self, key: Key, plan: Plan, result: Outcome, waiting: list[tuple[Json, Want]]) -> timedelta | None:
        """Secrets and ServiceAccounts are not watched, so a missing one is asked for again, less and less often."""
        if not waiting and not isinstance(plan.failure, MissingSecret):
            self._waits.pop(key, None)
            return result.look_again
        now, (tries, due) = self._clock.monotonic(), self._waits.get(key, (0, 0.0))
        if now >= due:
            if tries:
                await try_again(self._client, waiting, self._clock)
            tries, due = tries + 1, now + min(2.0 ** min(tries + 1, 6), LONGEST_WAIT_FOR_SECRET.total_seconds())
            self._waits[key] = tries, due
        return timedelta(seconds=due - now)

    # ---- gather

    async def _gather(self, raw: Json) -> World:
        settings = self._settings.current
        namespace = raw["metadata"]["namespace"]
        accounts, secrets = await gather_credentials(self._client, raw, settings)
        facts = Facts(
            settings=settings, runtimes=self._caches.runtimes_of(namespace), cluster_runtimes=self._caches.all_cluster_runtimes(),
            storage_containers=self._caches.all_storage_containers(), accounts=accounts, secrets=secrets,
            cluster_domain=self._domain, control_namespace=self._namespace)
        live = {ref_of(child): child for child in self._children(raw)}
        pods = {ref.name: self._caches.pods_of(namespace, app) for ref, app in _apps(live)}
        return World(raw=raw, facts=facts, now=self._clock.now(), live=live, pods=pods, absent_kinds=self._caches.absent_kinds(),
                     downloads=self.downloads.of(pods_in(pods)), local_cache=self._caches.local_cache_of(raw),
                     ca_bundle=await self._ca_bundle(settings.storage_initializer.ca_bundle_config_map_name),
                     server_version=await self._server_version())

    def _children(self, raw: Json) -> Iterator[Json]:
        for informer in self._caches.children.values():
            yield from informer.by_index("owner", raw["metadata"]["uid"])

    async def _ca_bundle(self, name: str) -> str | None:
        """The certificates that the settings name; watched from the first time they are asked for."""
        if not name:
            return None
        informer = self._bundles.get(name)
        if informer is None:
            informer = self._bundles[name] = self._informers.informer(CONFIG_MAP, self._namespace, fields=f"metadata.name={name}")
            informer.listen(lambda change: None if change.initial else self.controller.resync_all())
        found = informer.get(self._namespace, name) if informer.is_synced else await self._client.find(CONFIG_MAP, name, self._namespace)
        return ((found or {}).get("data") or {}).get(CA_BUNDLE_KEY)

    async def _server_version(self) -> tuple[int, int] | None:
        """Asked for once, and only where something depends on it."""
        if self._settings.current.storage_initializer.oci_mode != NATIVE:
            return None
        if self._version is None:
            answer = (await self._client.rest.request("GET", "/version")).body
            self._version = parsed_version(msgspec.json.decode(answer) if isinstance(answer, bytes) else {})
        return self._version

    # ---- apply

    async def _apply(self, world: World, plan: Plan) -> tuple[dict[ObjectRef, Json], KubeError | None]:
        """The children as they are afterwards, and what went wrong, which the status has to tell."""
        live = dict(world.live)
        try:
            await self._apply_shared(plan)
            done = await self._engine.apply(world.raw, plan.children, prune=CHILD_KINDS if plan.prune else ())
        except (Conflict, LeaseLost, ConnectionFailed):
            raise   # no answer says nothing about the child, and a status would not get through either
        except KubeError as error:
            return live, error
        live.update(done.live)
        return {ref: child for ref, child in live.items() if done.did.get(ref) is not Did.DELETED}, None

    async def _apply_shared(self, plan: Plan) -> None:
        for wanted in plan.shared:
            if self._shared.get(ref_of(wanted)) != wanted:
                await self._client.apply(wanted, MANAGER, force=True)
                self._shared[ref_of(wanted)] = wanted

    # ---- status

    async def _write_status(self, raw: Json, result: Outcome, plan: Plan) -> None:
        """The one place where status is written: what changed, in one patch."""
        before = raw.get("status") or {}
        if before == result.status:
            return
        # Guarded by the version it was worked out from: on another base the patch could leave behind what it does not know of.
        body = {"metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]}, "status": merge_patch(before, result.status)}
        with self._caches.services.own_write(*key_of(raw)):
            try:
                answered = await self._client.patch(INFERENCE_SERVICE, *_named(raw), body, patch_type=PatchType.MERGE,
                                                    field_manager=MANAGER, subresource="status")
            except NotFound:
                return   # deleted meanwhile
            self._caches.note(answered)
        for notice in _notices(before, result.status, plan):
            self._events.event(raw, notice.type, notice.reason, notice.message)

    # ---- the finalizer

    async def _with_finalizer(self, raw: Json) -> Json:
        """The webhook puts it on new services; those that came past it get it here."""
        if has_finalizer(raw):
            return raw
        return await self._set_finalizers(raw, with_finalizer(raw)["metadata"]["finalizers"])

    async def _finalize(self, raw: Json) -> None:
        """A service takes its TrainedModels with it; its children go by their owner reference."""
        if not has_finalizer(raw):
            return
        key = key_of(raw)
        if await self._client.discovery.served(TRAINED_MODEL):
            for model in await self._client.list(TRAINED_MODEL, key.namespace, labels=f"inferenceservice={key.name}"):
                await self._delete(model)
        await self._set_finalizers(raw, without_finalizer(raw))

    async def _delete(self, model: Json) -> None:
        with contextlib.suppress(NotFound):
            await self._client.delete(TRAINED_MODEL, *_named(model), uid=model["metadata"]["uid"], propagation="Background")

    async def _set_finalizers(self, raw: Json, names: list[str]) -> Json:
        """Guarded by the version that was read, since a list is replaced whole."""
        body = {"metadata": {"finalizers": names, "resourceVersion": raw["metadata"]["resourceVersion"]}}
        try:
            answered = await self._client.patch(INFERENCE_SERVICE, *_named(raw), body, patch_type=PatchType.MERGE, field_manager=MANAGER)
        except NotFound:
            return raw
        self._caches.note(answered)
        return answered


def _named(obj: Json) -> tuple[str, str]:
    return obj["metadata"]["name"], obj["metadata"]["namespace"]


def _apps(live: dict[ObjectRef, Json]) -> Iterator[tuple[ObjectRef, str]]:
    for ref, child in live.items():
        if ref.kind == DEPLOYMENT:
            yield ref, child["spec"]["selector"]["matchLabels"].get(APP_LABEL, "")


def _notices(before: Json, after: Json, plan: Plan) -> Iterator[Notice]:
    """What a user would want to be told at the moment it happens; a failure is told once, when its text changes."""
    if is_ready(after) != is_ready(before):
        yield _readiness_notice(after)
    if not before or plan.failure or not is_ready(after):
        old = (before.get("modelStatus") or {}).get("lastFailureInfo") or {}
        yield from (notice for notice in plan.notices if notice.message != old.get("message"))


def _readiness_notice(after: Json) -> Notice:
    if is_ready(after):
        return Notice("Normal", "InferenceServiceReady", "InferenceService is Ready")
    false = [told["type"] for told in after["conditions"] if told["status"] == "False" and told.get("severity") != "Info"]
    why = next((told.get("message") or told.get("reason") or "" for told in after["conditions"] if told["type"] == "Ready"), "")
    return Notice("Warning", "InferenceServiceNotReady", f"InferenceService is not Ready because of: {', '.join(false)}. {why}".strip())


