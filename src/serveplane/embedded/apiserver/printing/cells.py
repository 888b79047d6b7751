"""The cells of all other kinds."""

import datetime
from collections.abc import Callable

from serveplane.clock import parse_timestamp
from serveplane.embedded.apiserver.durations import since
from serveplane.embedded.apiserver.printing.column import NONE, Column, field, made, selector_text
from serveplane.objects import Json


def ready_of(path: str) -> Column:
    return made("Ready", lambda value: f"{field(value, 'status.readyReplicas') or 0}/{field(value, path) or 0}")


def template(path: str, name: str) -> Callable[[Json], str]:
    return lambda value: ",".join(one.get(name, "") for one in field(value, path) or ())


def selector(value: Json) -> str:
    return selector_text(field(value, "spec.selector")) or NONE


def bare_selector(value: Json) -> str:
    """Deployments say nothing where others say so."""
    return selector_text(field(value, "spec.selector"))


PODS_OF = "spec.template.spec.containers"
WIDE = (
    made("Containers", template(PODS_OF, "name"), 1),
    made("Images", template(PODS_OF, "image"), 1),
    made("Selector", selector, 1),
)


def job_state(value: Json) -> str:
    true = {one["type"] for one in field(value, "status.conditions") or () if one["status"] == "True"}
    for word in ("Complete", "Failed"):
        if word in true:
            return word
    if value["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((word for word in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if word in true), "Running")


def job_completions(value: Json) -> str:
    done, wanted = field(value, "status.succeeded") or 0, field(value, "spec.completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = field(value, "spec.parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def job_duration(value: Json, now: datetime.datetime) -> str:
    start, end = field(value, "status.startTime"), field(value, "status.completionTime")
    if not start:
        return ""

    return since(start, parse_timestamp(end) if end else now)


# --- services and network


def external_address(value: Json) -> str:
    spec = value.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    outside = spec.get("externalIPs") or []
    if spec.get("type") == "LoadBalancer":
        return ",".join([*filter(None, [balancer_address(value)]), *outside]) or "<pending>"
    return ",".join(outside) or NONE


def balancer_address(value: Json) -> str:
    listed = field(value, "status.loadBalancer.ingress") or ()
    return ",".join(sorted({one.get("ip") or one.get("hostname") for one in listed} - {None, ""}))


def service_ports(value: Json) -> str:
    shown = [
        f"{port['port']}{':' + str(port['nodePort']) if port.get('nodePort') else ''}/{port.get('protocol', 'TCP')}"
        for port in field(value, "spec.ports") or ()
    ]
    return ",".join(shown) or NONE


def endpoints(value: Json) -> str:
    found = [
        _joined(address["ip"], port.get("port")) if port else address["ip"]
        for subset in value.get("subsets") or ()
        for port in subset.get("ports") or [None]
        for address in subset.get("addresses") or ()
    ]
    return shortened(found, NONE if not value.get("subsets") else "")


def _joined(address: str, port: object) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def shortened(found: list[str], empty: str) -> str:
    return ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "") or empty


def slice_endpoints(value: Json) -> str:
    return shortened([address for one in value.get("endpoints") or () for address in one["addresses"]], "<unset>")


def slice_ports(value: Json) -> str:
    listed = value.get("ports") or ()
    return shortened([str(port.get("port", port.get("name", "*"))) for port in listed], "<unset>")


def hosts(value: Json) -> str:
    """Three at most; how many are left out is counted by rules, as the real server does."""
    rules = field(value, "spec.rules") or []
    found = [rule["host"] for rule in rules if rule.get("host")]
    if not found:
        return "*"
    full = next((place for place, _ in enumerate(rules) if sum(bool(rule.get("host")) for rule in rules[:place]) == 3), None)
    return ",".join(found[:3]) + (f" + {len(rules) - 3} more..." if full is not None else "")


def parameters(value: Json) -> str:
    found = field(value, "spec.parameters")
    if found is None:
        return NONE
    kind = f"{found['kind']}.{found['apiGroup']}" if found.get("apiGroup") is not None else found["kind"]
    return f"{kind}/{found['name']}"


# --- nodes, storage, autoscaling, events, rights


def node_status(value: Json) -> str:
    ready = next((one for one in field(value, "status.conditions") or () if one["type"] == "Ready"), None)
    word = "Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if field(value, "spec.unschedulable") else word


def node_roles(value: Json) -> str:
    prefix, labels = "node-role.kubernetes.io/", value["metadata"].get("labels") or {}
    found = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)} | {labels.get("kubernetes.io/role", "")}
    return ",".join(sorted(found - {""})) or NONE


def node_address(kind: str) -> Callable[[Json], str]:
    return lambda value: next(
        (one["address"] for one in field(value, "status.addresses") or () if one["type"] == kind), NONE
    )


def scale_target(value: Json) -> str:
    reference = field(value, "spec.scaleTargetRef") or {}
    return f"{reference.get('kind')}/{reference.get('name')}"


def role_ref(value: Json) -> str:
    return f"{field(value, 'roleRef.kind')}/{field(value, 'roleRef.name')}"


def subjects(kind: str) -> Callable[[Json], str]:
    def cell(value: Json) -> str:
        found = [one for one in value.get("subjects") or () if one["kind"] == kind]
        return ", ".join(
            f"{one['namespace']}/{one['name']}" if kind == "ServiceAccount" and one.get("namespace") else one["name"] for one in found
        )

    return cell


def default(annotation: str) -> Column:
    return Column(
        "Name",
        lambda value, now: value["metadata"]["name"] + (" (default)" if marked(value, annotation) else ""),
        format="name",
    )


def marked(value: Json, annotation: str) -> bool:
    return (value["metadata"].get("annotations") or {}).get(annotation) == "true"


# --- limits, revisions, policies


def used(value: Json, limits: bool) -> str:
    """What of a quota is used, limits and all else apart."""
    hard, found = field(value, "status.hard") or {}, field(value, "status.used") or {}
    names = [name for name in sorted(hard) if name.startswith("limits.") == limits]
    return ", ".join(f"{name}: {found.get(name, '0')}/{hard[name]}" for name in names)


def controller(value: Json) -> str:
    owner = next((one for one in value["metadata"].get("ownerReferences") or () if one.get("controller")), None)
    if owner is None:
        return NONE
    group = owner["apiVersion"].rpartition("/")[0]
    return f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}"


def parameter_kind(value: Json) -> str:
    found = field(value, "spec.paramKind")
    return f"{found.get('apiVersion', '')}/{found.get('kind', '')}" if found else "<unset>"


def parameter_reference(value: Json) -> str:
    found = field(value, "spec.paramRef") or {}
    return f"{found.get('namespace') or '*'}/{found['name']}" if found.get("name") else "<unset>"


def parent(value: Json) -> str:
    found = field(value, "spec.parentRef")
    if not found:
        return NONE
    kind = f"{found['resource']}.{found['group']}" if found.get("group") else found.get("resource", "")
    return "/".join(filter(None, [kind.lower(), found.get("namespace"), found.get("name", "")]))
