"""A pod of an InferenceService as it is admitted: every injection, in order."""
import msgspec

from serveplane.api import keys
from serveplane.api.inferenceservice.types import InferenceService
from serveplane.objects import Json
from serveplane.render.facts import Facts
from serveplane.render.names import STORAGE_INITIALIZER
from serveplane.render.pods.agent import add_agent
from serveplane.render.pods.draft import PodDraft
from serveplane.render.pods.metrics import add_metrics
from serveplane.render.pods.oci import add_annotated_image
from serveplane.render.pods.storage import add_annotated_source

GKE_SELECTOR = "cloud.google.com/gke-accelerator"
ISTIO_PROXY_USER = 1337


def mutated(pod: Json, namespace: str, service: InferenceService | None, facts: Facts) -> Json:
    """The pod with everything its annotations ask for. Raises `InvalidSpec` where that cannot be had."""
    metadata = pod.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if keys.INFERENCE_SERVICE not in labels:
        return pod
    draft = PodDraft(pod["spec"], metadata.get("annotations") or {}, labels, namespace, metadata.get("name") or "")
    _select_accelerator(draft)
    add_annotated_source(draft, facts)
    _share_proxy_user(draft)
    add_agent(draft, service, facts)
    add_metrics(draft, facts)
    add_annotated_image(draft, facts)
    return {**pod, "metadata": {**metadata, "annotations": draft.annotations}, "spec": draft.spec}


def _select_accelerator(draft: PodDraft) -> None:
    wish = draft.annotations.get(keys.GKE_ACCELERATOR)
    limits = [(container.get("resources") or {}).get("limits") or {} for container in draft.containers]
    if wish is not None and any("nvidia.com/gpu" in limit for limit in limits):
        draft.spec["nodeSelector"] = {**(draft.spec.get("nodeSelector") or {}), GKE_SELECTOR: wish}


def _share_proxy_user(draft: PodDraft) -> None:
    """Behind Istio's redirection only the proxy's own user reaches the network before the proxy is up."""
    container = draft.init_container(STORAGE_INITIALIZER)
    if container is None:
        return
    user = _wished_user(draft) if keys.STORAGE_INITIALIZER_UID in draft.annotations else _proxy_user(draft)
    if user is not None:
        container["securityContext"] = {**(container.get("securityContext") or {}), "runAsUser": user}


def _wished_user(draft: PodDraft) -> int | None:
    text = draft.annotations[keys.STORAGE_INITIALIZER_UID]
    return int(text) if text.isdecimal() else None


def _proxy_user(draft: PodDraft) -> int | None:
    if draft.init_container("istio-init") or draft.annotations.get("sidecar.istio.io/interceptionMode") != "REDIRECT":
        return None
    try:
        status = msgspec.json.decode(draft.annotations.get("sidecar.istio.io/status") or "{}")
    except msgspec.DecodeError:
        return None
    names = status.get("containers") if isinstance(status, dict) else None
    proxy = draft.container(str(names[0])) if names else None
    if proxy is None:
        return None
    return int((proxy.get("securityContext") or {}).get("runAsUser") or ISTIO_PROXY_USER)
