"""Reviews of the kinds that the kserve manager admits, and of the pods of its services. Answers come from caches."""
from collections.abc import Iterable
from dataclasses import replace

from serveplane.api import keys
from serveplane.api.admission import Context, Verdict, mutate, prepare, validate
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
from serveplane.kube.informers import Informer, Informers
from serveplane.kube.kind import is_being_deleted
from serveplane.kube.webhook import WebhookServer
from serveplane.objects import Json
from serveplane.render.facts import Facts
from serveplane.render.pods.agent import logger_account
from serveplane.render.pods.mutate import mutated
from serveplane.render.runtimes import InvalidSpec

CLUSTER_SCOPED = (CLUSTER_RUNTIME, STORAGE_CONTAINER, LOCAL_CACHE)
LOOKED_AT = (INFERENCE_SERVICE, SERVING_RUNTIME, *CLUSTER_SCOPED, LOCAL_NAMESPACE_CACHE)


class Admission:
    """What the webhooks of the kserve manager answer."""

    def __init__(self, credentials: PodCredentials, informers: Informers, settings: LiveSettings, control_namespace: str) -> None:
        self._credentials = credentials
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

    def _defaulted(self, request: AdmissionRequest) -> Json:
        """With our finalizer from the start, which spares the controller a write (and two more reviews) per service."""
        if not request.object:
            return {}
        obj = mutate(request.object, self._context())
        return with_finalizer(obj) if request.operation == "CREATE" else obj

    def _judged(self, request: AdmissionRequest) -> Verdict:
        """Deletion is always allowed, and so is whatever is written to an object on its way out."""
        if not request.object or is_being_deleted(request.object):
            return Verdict()
        return validate(request.object, request.old or None, self._context())

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

    def _context(self) -> Context:
        return Context(policy=self._settings.current.policy, objects=self._objects)

    def _objects(self, kind: str, namespace: str) -> Iterable[Json]:
        informer = self._informers.get(kind)
        return informer.list(namespace) if informer is not None else ()
