"""What only pods have: binding to a node, eviction, logs."""

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from serveplane import http
from serveplane.clock import timestamp
from serveplane.embedded.apiserver import body, errors, nodes
from serveplane.embedded.apiserver.deleting import Options
from serveplane.embedded.apiserver.kinds.typed import read_as
from serveplane.embedded.apiserver.reading import found
from serveplane.embedded.apiserver.request import Answer, Request
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.apiserver.writing import now
from serveplane.embedded.store import Conflict
from serveplane.objects import Json, selectors

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

LOG_OPTIONS = ("follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines", "limitBytes")
BUDGETS = "poddisruptionbudgets.policy"


async def binding(core: "Core", request: Request, resource: Resource) -> Answer:
    """The scheduler's decision: a pod gets its node, once."""
    value = read_as("", "v1", "Binding", body.decoded(request))
    name = request.target.name or (value.get("metadata") or {}).get("name", "")
    node = (value.get("target") or {}).get("name", "")
    if not node:
        cause = errors.Cause("FieldValueRequired", "Required value", "target.name")
        raise errors.invalid("Binding", "", name, [cause])
    pods = core.stored_resource("pods")
    assert pods is not None
    record = found(core, pods, request.target.namespace, name)
    pod = record.value()
    if "deletionTimestamp" in pod["metadata"]:
        raise errors.conflict("pods/binding", "", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise errors.conflict(
            "pods/binding", "", name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        )
    annotations = (value.get("metadata") or {}).get("annotations") or {}
    if not request.dry_run:
        await core.adjust(pods, record, lambda live: _bind(core, live, node, annotations))
    return Answer(201, errors.encoded({**errors.success(), "code": 201}))


def _bind(core: "Core", live: Json, node: str, annotations: Json) -> None:
    live["spec"]["nodeName"] = node
    if annotations:
        live["metadata"]["annotations"] = {**(live["metadata"].get("annotations") or {}), **annotations}
    conditions = [one for one in live["status"].get("conditions") or () if one["type"] != "PodScheduled"]
    conditions.append(
        {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now(core)}
    )
    live["status"]["conditions"] = conditions


async def eviction(core: "Core", request: Request, resource: Resource) -> Answer:
    """A deletion that asks the disruption budgets first."""
    value = read_as("policy", "v1", "Eviction", body.decoded(request))
    options = Options.told(request, value.get("deleteOptions") or {})
    record = found(core, resource, request.target.namespace, request.target.name)
    pod = record.value()
    if (pod["status"].get("phase") or "Pending") not in (
        "Pending",
        "Succeeded",
        "Failed",
    ) and "deletionTimestamp" not in pod["metadata"]:
        await _take_from_budget(core, pod)
    try:
        await core.deleting.delete_record(core, request, resource, record, options)
    except Conflict:
        raise errors.conflict("pods", "", request.target.name) from None
    return Answer(201, errors.encoded({**errors.success(), "code": 201}))


async def _take_from_budget(core: "Core", pod: Json) -> None:
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels")
    budgets = [
        record
        for record in core.store.records(BUDGETS, namespace)
        if selectors.from_selector((record.value().get("spec") or {}).get("selector")).matches(labels)
    ]
    if len(budgets) > 1:
        raise errors.internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    for record in budgets:
        value = record.value()
        status = value.get("status") or {}
        if status.get("disruptionsAllowed", 0) <= 0:
            raise _over_budget(value)
        resource = core.stored_resource(BUDGETS)
        assert resource is not None
        await core.adjust(resource, record, lambda live: _spend(core, live, pod["metadata"]["name"]))


def _spend(core: "Core", live: Json, pod: str) -> None:
    live["status"]["disruptionsAllowed"] -= 1
    live["status"].setdefault("disruptedPods", {})[pod] = timestamp(core.clock.now())


def _over_budget(value: Json) -> errors.Refusal:
    status = value.get("status") or {}
    told = (
        f"The disruption budget {value['metadata']['name']} needs {status.get('desiredHealthy', 0)} healthy pods and has "
        f"{status.get('currentHealthy', 0)} currently"
    )
    details = {"causes": [{"reason": "DisruptionBudget", "message": told}]}
    return errors.Refusal(
        429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", details
    )


async def log(core: "Core", request: Request, resource: Resource) -> Answer:
    """Fetched from the pod's node, as a kubelet offers it."""
    pod = found(core, resource, request.target.namespace, request.target.name).value()
    container = chosen_container(pod, request.query.get("container", ""))
    if not pod["spec"].get("nodeName"):
        return Answer(200, b"", "text/plain")
    options = urlencode({name: request.query[name] for name in LOG_OPTIONS if name in request.query})
    url = nodes.container_url(core, pod, container, "containerLogs") + (f"?{options}" if options else "")
    try:
        response = await core.nodes.request("GET", url, timeout=nodes.PATIENT)
    except (http.HttpError, OSError) as error:
        raise errors.internal(f'Get "{url}": {error}') from None
    if response.status != 200:
        raise await nodes.refusal(response)
    return Answer(200, response.stream(), "text/plain")


def chosen_container(pod: Json, asked: str) -> str:
    spec, name = pod["spec"], pod["metadata"]["name"]
    listed = [
        one["name"]
        for field in ("containers", "initContainers", "ephemeralContainers")
        for one in spec.get(field) or ()
    ]
    if asked:
        if asked not in listed:
            raise errors.bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    main = [one["name"] for one in spec["containers"]]
    if len(main) == 1:
        return str(main[0])
    init = (
        f" or one of the init containers: [{' '.join(one['name'] for one in spec['initContainers'])}]"
        if spec.get("initContainers")
        else ""
    )
    raise errors.bad_request(
        f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]{init}"
    )


async def streaming(core: "Core", request: Request, resource: Resource) -> Answer:
    """Nodes' own proxy: said plainly rather than answered with something else."""
    found(core, resource, request.target.namespace, request.target.name)
    what = f"{resource.plural}/{request.target.subresource}"
    raise errors.Refusal(
        501,
        "NotImplemented",
        f"{what} is not offered by the embedded API server; talk to the pod's own address instead",
    )
