"""Where we differ from the recorded objects on purpose: faults of the original that we mend, as rules. Pure.

A rule is narrow: it says which case or shape it is about, and everything else still has to agree. The reasons stand in
docs/compatibility.md.
"""
import copy
from collections.abc import Callable
from typing import Any

from tests.conformance.compare import ABSENT, Difference
from tests.conformance.recorded import Case, Observation
from tests.kit.api import condition

Json = dict[str, Any]
SERVICE_ACCOUNT_VOLUME = "kube-api-access-"
AUTOSCALERS = {"HorizontalPodAutoscaler", "ScaledObject"}
# What the original leaves behind when a step makes it superfluous; we remove it. (case, kind) pairs.
ORPHANS = {
    ("isvc-standard/update-autoscaler-class", "HorizontalPodAutoscaler"),
    ("isvc-standard/update-autoscaler-class", "ScaledObject"),
}
# Accepted by the original although nothing could ever come of it; refused by us.
REFUSED_BY_US = {"isvc-standard/storage-unknown-prefix"}
# Here the original ends in an error of its own making; ours goes on. What was recorded of the children still has to agree, ours may
# have more, and in return its services must become ready.
GOES_ON = {
    "isvc-standard/canary-two": "the second canary made the original give up",
    "isvc-standard/multinode-vllm": "workers were deleted and made again for ever",
    "isvc-standard/runtime-multi-container": "a container named in runtime and service came out twice, and was refused",
    "isvc-standard/transformer-grpc": "default requests above the limits given, refused by the API server",
}
# Kept by us, with a condition that says what is missing, where the original deletes what the user applied.
KEPT_BY_US = {"trainedmodel/missing-service-tm"}


def comparable(expected: Observation, found: Observation) -> tuple[Observation, Observation]:
    """Both sides without what no comparison may look at."""
    scaled = _autoscaled(expected) | _autoscaled(found)
    wanted, got = _comparable(expected, scaled), _comparable(found, scaled)
    ours = {obj["metadata"]["name"]: obj["status"] for obj in got.get("status", []) if obj["kind"] == "InferenceService"}
    for obj in wanted.get("status", []):
        if obj["metadata"]["name"] in ours:
            _accept_told_failure(obj["status"], ours[obj["metadata"]["name"]])
            _accept_settled_model(obj["status"], ours[obj["metadata"]["name"]])
    return wanted, got


def _comparable(observation: Observation, scaled: set[str]) -> Observation:
    observation = copy.deepcopy(observation)
    for pod in observation.get("pods", []):
        _without_service_account_token(pod)
    pods = observation.get("pods", [])
    observation["pods"] = [pod for n, pod in enumerate(pods) if pod not in pods[:n]]      # only their tokens told replicas apart
    for obj in observation.get("children", []):
        if obj["kind"] in ("Deployment", "LeaderWorkerSet") and obj["metadata"]["name"] in scaled:
            obj["spec"].pop("replicas", None)
    for part in ("status", "children"):
        for obj in observation.get(part, []):
            if obj["kind"] in ("InferenceService", "InferenceGraph"):
                obj.get("status", {}).pop("observedGeneration", None)     # the original has the Deployment's; ours is checked apart
    return {part: objects for part, objects in observation.items() if objects}


def _accept_told_failure(recorded: Json, ours: Json) -> None:
    """A service that cannot work: the original hides the reason in the model status and leaves its conditions Unknown.

    Ours has the same reason in the conditions, and a message that begins with the original's and goes on.
    """
    failure, told = ((status.get("modelStatus") or {}).get("lastFailureInfo") or {} for status in (recorded, ours))
    conditions = {condition["type"]: condition for condition in ours.get("conditions") or []}
    says = [conditions.get(kind, {}) for kind in ("PredictorReady", "Ready")]
    text = failure.get("message")
    if text and condition({"status": recorded}, "Ready") and condition({"status": ours}, "Ready"):     # served before, and still does
        held = conditions.get("RollingOut", {})
        if held.get("reason") == failure["reason"] and all(said.get("message", "").startswith(text) for said in (told, held)):
            failure["message"], recorded["conditions"] = told["message"], ours["conditions"]
        return
    if text and all(said.get("status") == "False" and said.get("reason") == failure["reason"] for said in says) \
            and all(said.get("message", "").startswith(text) for said in (told, *says)):
        failure["message"] = told["message"]
        recorded["conditions"] = ours["conditions"]


def _accept_settled_model(recorded: Json, ours: Json) -> None:
    """A ready service whose model the original still calls pending, because it looks once too seldom."""
    settled = {"activeModelState": "Loaded", "targetModelState": "Loaded"}
    model, told = recorded.get("modelStatus") or {}, ours.get("modelStatus") or {}
    if condition({"status": recorded}, "Ready") and model.get("transitionStatus") == "InProgress" and told.get("states") == settled:
        recorded["modelStatus"] = told


def _without_service_account_token(pod: Json) -> None:
    """The cases were recorded without the ServiceAccount admission plugin, which every real cluster has."""
    spec = pod["spec"]
    spec["volumes"] = [volume for volume in spec.get("volumes", []) if not volume["name"].startswith(SERVICE_ACCOUNT_VOLUME)]
    for container in [*spec.get("containers", []), *spec.get("initContainers", [])]:
        mounts = [mount for mount in container.get("volumeMounts", []) if not mount["name"].startswith(SERVICE_ACCOUNT_VOLUME)]
        container["volumeMounts"] = mounts
        if not mounts:
            del container["volumeMounts"]
    if not spec["volumes"]:
        del spec["volumes"]
    for field in ("serviceAccountName", "serviceAccount"):
        if spec.get(field) == "default":
            del spec[field]


def _autoscaled(observation: Observation) -> set[str]:
    """Names of workloads whose replicas an autoscaler sets."""
    return {child["spec"]["scaleTargetRef"]["name"] for child in observation.get("children", []) if child["kind"] in AUTOSCALERS}


def is_meant(case: Case, difference: Difference) -> bool:
    return any(rule(case, difference) for rule in RULES)


def _orphan(case: Case, difference: Difference) -> bool:
    return difference.found == ABSENT and not difference.path and (str(case), difference.where.split("/")[0]) in ORPHANS


def _graph_route(case: Case, difference: Difference) -> bool:
    """The original publishes a URL for a graph that no route serves."""
    return case.area == "graph" and difference.expected == ABSENT and difference.where.split("/")[0] in ("HTTPRoute", "Ingress")


def _kept(case: Case, difference: Difference) -> bool:
    return str(case) in KEPT_BY_US and difference.where.startswith("TrainedModel/")


def _goes_on(case: Case, difference: Difference) -> bool:
    capped = difference.part == "object" and ".resources.requests." in difference.path
    return str(case) in GOES_ON and (difference.part == "status" or difference.expected == ABSENT or capped)


def _follows(case: Case, difference: Difference) -> bool:
    """Metadata of a Service follows that of the InferenceService; the original copies it once."""
    return str(case) == "isvc-standard/update-autoscaler-class" and difference.where.startswith("Service/") \
        and difference.path == "metadata.annotations.serving.kserve.io/autoscalerClass"


def broken_promises(case: Case, found: Observation) -> list[str]:
    """What a deviation promises in return for its differences, and does not keep."""
    if str(case) not in GOES_ON:
        return []
    services = [obj for obj in found.get("status", []) if obj["kind"] == "InferenceService"]
    return [f"{obj['metadata']['name']} must be ready, whatever the original did" for obj in services if not condition(obj, "Ready")]


RULES: list[Callable[[Case, Difference], bool]] = [_orphan, _graph_route, _kept, _goes_on, _follows]
