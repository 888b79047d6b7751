"""Reviews of the kinds that the kserve manager admits, and of the pods of its services.

Answers come from caches. Only where an object that was written a moment ago decides, and the caches may not know it yet, is the server
asked: a file often brings a runtime, a storage container or a local model cache together with what depends on it.
"""
import asyncio
import contextlib
from collections.abc import Awaitable, Iterable
from dataclasses import replace

from serveplane.api import keys
from serveplane.api.admission import Context, Lookup, Verdict, mutate, prepare, validate
from serveplane.api.inferenceservice import inference_service
from serveplane.controllers.inferenceservice.caches import (
    CLUSTER_RUNTIME,
    LOCAL_CACHE,
    LOCAL_NAMESPACE_CACHE,
    SERVING_RUNTIME,
    STORAGE_CONTAINER,
    storage_containers_in,
)
from serveplane.controllers.inferenceservice.credentials import PodCredentials
from serveplane.controllers.inferenceservice.finalizer import with_finalizer
from serveplane.controllers.inferenceservice.world import INFERENCE_SERVICE
from serveplane.controllers.settings import LiveSettings
from serveplane.kube.admission import AdmissionRequest, Refusal, mutating, validating
from serveplane.kube.client import Client
from serveplane.kube.errors import KubeError
from serveplane.kube.informers import Informer, Informers
from serveplane.kube.kind import Kind, is_being_deleted
from serveplane.kube.webhook import WebhookServer
from serveplane.objects import Json
from serveplane.render.facts import Facts
from serveplane.render.pods.agent import logger_account
from serveplane.render.pods.mutate import mutated
from serveplane.render.runtimes import InvalidSpec

CLUSTER_SCOPED = (CLUSTER_RUNTIME, STORAGE_CONTAINER, LOCAL_CACHE)
LOOKED_AT = (INFERENCE_SERVICE, SERVING_RUNTIME, *CLUSTER_SCOPED, LOCAL_NAMESPACE_CACHE)
RUNTIMES = {kind.kind: kind for kind in (SERVING_RUNTIME, CLUSTER_RUNTIME)}
FRESH_SECONDS = 2.0


class Admission:
    """What the webhooks of the kserve manager answer."""

    def __init__(self, client: Client, informers: Informers, settings: LiveSettings, control_namespace: str) -> None:
        self._client = client
        self._credentials = PodCredentials(client)
        self._settings = settings
        self._control_namespace = control_namespace
        self._informers: dict[str, Informer] = {
            kind.kind: informers.informer(kind, cluster_scoped=kind in CLUSTER_SCOPED, optional=kind != INFERENCE_SERVICE)
            for kind in LOOKED_AT}

    def register(self, server: WebhookServer) -> None:
        """Under KServe's paths."""
        prepare(INFERENCE_SERVICE, CLUSTER_RUNTIME)
        server.admit("/mutate-serving-kserve-io-v1beta1-inferenceservice", mutating(self._defaulted))
        server.admit("/mutate-pods", mutating(self._pod))
        server.admit("/validate-serving-kserve-io-v1beta1-inferenceservice", validating(self._judged))
        for name in ("trainedmodel", "inferencegraph", "servingruntime", "clusterservingruntime"):
            server.admit(f"/validate-serving-kserve-io-v1alpha1-{name}", validating(self._judged))

    def _defaulted(self, request: AdmissionRequest) -> Json | Awaitable[Json]:
        if not request.object:
            return {}
        if not self._settings.current.policy.local_models:
            return self._mutated(request, self._objects)
        return self._near_its_model(request)

    async def _near_its_model(self, request: AdmissionRequest) -> Json:
        """Which local copy of its model a service is given is decided now and stays so until its next edit."""
        return self._mutated(request, await self._fresh((LOCAL_NAMESPACE_CACHE, request.namespace), (LOCAL_CACHE, "")))

    def _mutated(self, request: AdmissionRequest, objects: Lookup) -> Json:
        """With our finalizer from the start, which spares the controller a write (and two more reviews) per service."""
        obj = mutate(request.object, self._context(objects))
        return with_finalizer(obj) if request.operation == "CREATE" else obj

    def _judged(self, request: AdmissionRequest) -> Verdict | Awaitable[Verdict]:
        """Deletion is always allowed, and so is whatever is written to an object on its way out."""
        if not request.object or is_being_deleted(request.object):
            return Verdict()
        if kind := RUNTIMES.get(request.kind.kind):
            return self._judged_anew(request, kind)
        verdict = self._verdict(request, self._objects)
        # Refusals are rare; it may be that the storage container that makes the service right has only just come.
        return verdict if verdict.allowed or request.kind.kind != INFERENCE_SERVICE.kind else self._judged_anew(request, STORAGE_CONTAINER)

    async def _judged_anew(self, request: AdmissionRequest, kind: Kind) -> Verdict:
        return self._verdict(request, await self._fresh((kind, "" if kind in CLUSTER_SCOPED else request.namespace)))

    def _verdict(self, request: AdmissionRequest, objects: Lookup) -> Verdict:
        return validate(request.object, request.old or None, self._context(objects))

    async def _pod(self, request: AdmissionRequest) -> Json:
        try:
            return await self.mutated_pod(request.object, request.namespace)
        except InvalidSpec as refusal:
            raise Refusal(refusal.message) from refusal

    async def mutated_pod(self, pod: Json, namespace: str) -> Json:
        """The pod with everything it needs. Raises `InvalidSpec`, whose text is the refusal."""
        settings = self._settings.current
        name = ((pod.get("metadata") or {}).get("labels") or {}).get(keys.INFERENCE_SERVICE, "")
        raw = self._informers[INFERENCE_SERVICE.kind].get(namespace, name)
        service = inference_service(raw) if raw else None
        facts = Facts(settings=settings, storage_containers=storage_containers_in(self._informers[STORAGE_CONTAINER.kind]),
                      control_namespace=self._control_namespace)
        accounts, secrets = await self._credentials.of(pod, namespace, settings, logger_account(service, facts))
        return mutated(pod, namespace, service, replace(facts, accounts=accounts, secrets=secrets))

    def _context(self, objects: Lookup) -> Context:
        return Context(policy=self._settings.current.policy, objects=objects)

    def _objects(self, kind: str, namespace: str) -> Iterable[Json]:
        informer = self._informers.get(kind)
        return informer.list(namespace) if informer is not None else ()

    async def _fresh(self, *wanted: tuple[Kind, str]) -> Lookup:
        """As the server has them now; as the caches do where it gives no answer."""
        found: dict[str, list[Json]] = {}
        for kind, namespace in wanted:
            if self._informers[kind.kind].trouble is not None:      # not installed, or not for us to read
                continue
            with contextlib.suppress(KubeError, TimeoutError):
                async with asyncio.timeout(FRESH_SECONDS):
                    found[kind.kind] = list(await self._client.list(kind, namespace or None))
        return lambda kind, namespace: found[kind] if kind in found else self._objects(kind, namespace)
