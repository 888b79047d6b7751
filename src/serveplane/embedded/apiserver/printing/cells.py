"""The cells of all other kinds."""

import datetime
from collections.abc import Callable

from serveplane.clock import parse_timestamp
from serveplane.embedded.apiserver.durations import since
from serveplane.embedded.apiserver.printing.column import NONE, Column, field, made
from serveplane.objects import Json


def ready_of(path: str) -> Column:
    return made("Ready", lambda value: f"{field(value, 'status.readyReplicas') or 0}/{field(value, path) or 0}")


def template(path: str, name: str) -> Callable[[Json], str]:
    return lambda value: ",".join(one.get(name, "") for one in field(value, path) or ()) or NONE


def selector(value: Json) -> str:
    selector = field(value, "spec.selector") or {}
    labels = (
        selector.get("matchLabels", {}) if "matchLabels" in selector or "matchExpressions" in selector else selector
    )
    return ",".join(f"{key}={item}" for key, item in sorted(labels.items())) or NONE


PODS_OF = "spec.template.spec.containers"
WIDE = (
    made("Containers", template(PODS_OF, "name"), 1),
    made("Images", template(PODS_OF, "image"), 1),
    made("Selector", selector, 1),
)


def job_state(value: Json) -> str:
    for condition in field(value, "status.conditions") or ():
        if condition["status"] == "True" and condition["type"] in (
            "Complete",
            "Failed",
            "Suspended",
            "FailureTarget",
            "SuccessCriteriaMet",
        ):
            return str(condition["type"])
    return "Terminating" if value["metadata"].get("deletionTimestamp") else "Running"


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
    if spec.get("type") == "LoadBalancer":
        found = [one.get("ip") or one.get("hostname") for one in field(value, "status.loadBalancer.ingress") or ()]
        return ",".join([*found, *(spec.get("externalIPs") or ())]) or "<pending>"
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    return ",".join(spec.get("externalIPs") or ()) or NONE


def service_ports(value: Json) -> str:
    shown = [
        f"{port['port']}{':' + str(port['nodePort']) if port.get('nodePort') else ''}/{port.get('protocol', 'TCP')}"
        for port in field(value, "spec.ports") or ()
    ]
    return ",".join(shown) or NONE


def endpoints(value: Json) -> str:
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in value.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    return shortened(found)


def shortened(found: list[str]) -> str:
    return ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "") or NONE


def slice_endpoints(value: Json) -> str:
    return shortened([address for one in value.get("endpoints") or () for address in one["addresses"]])


def slice_ports(value: Json) -> str:
    return ",".join(str(port.get("port") or "*") for port in value.get("ports") or ()) or "<unset>"


def hosts(value: Json) -> str:
    found = [rule["host"] for rule in field(value, "spec.rules") or () if rule.get("host")]
    return shortened(found) if found else "*"


def ingress_address(value: Json) -> str:
    return ",".join(
        one.get("ip") or one.get("hostname") or "" for one in field(value, "status.loadBalancer.ingress") or ()
    )


# --- nodes, storage, autoscaling, events, rights


def node_status(value: Json) -> str:
    ready = next((one for one in field(value, "status.conditions") or () if one["type"] == "Ready"), None)
    word = "Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if field(value, "spec.unschedulable") else word


def node_roles(value: Json) -> str:
    prefix, labels = "node-role.kubernetes.io/", value["metadata"].get("labels") or {}
    return ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))) or NONE


def node_address(kind: str) -> Callable[[Json], str]:
    return lambda value: next(
        (one["address"] for one in field(value, "status.addresses") or () if one["type"] == kind), NONE
    )


MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def modes(path: str) -> Callable[[Json], str]:
    return lambda value: ",".join(MODES.get(mode, mode) for mode in field(value, path) or ())


def claim(value: Json) -> str:
    reference = field(value, "spec.claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def scale_target(value: Json) -> str:
    reference = field(value, "spec.scaleTargetRef") or {}
    return f"{reference.get('kind')}/{reference.get('name')}"


def metrics(value: Json) -> str:
    shown = []
    for index, metric in enumerate(field(value, "spec.metrics") or ()):
        inner = metric.get("resource") or metric.get("containerResource") or {}
        target = inner.get("target") or {}
        now = ((field(value, "status.currentMetrics") or [])[index:] or [{}])[0]
        used = field(now, "resource.current.averageUtilization")
        if "averageUtilization" in target:
            shown.append(
                f"{inner.get('name')}: {'<unknown>' if used is None else f'{used}%'}/{target['averageUtilization']}%"
            )
        else:
            wanted = (
                target.get("averageValue")
                or target.get("value")
                or field(metric, "external.target.averageValue")
                or "<auto>"
            )
            shown.append(f"<unknown>/{wanted}")
    return ", ".join(shown) or NONE


def event_object(value: Json) -> str:
    about = value.get("involvedObject") or value.get("regarding") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def event_seen(value: Json, now: datetime.datetime) -> str:
    series = field(value, "series.lastObservedTime")
    return since(
        series
        or value.get("lastTimestamp")
        or value.get("deprecatedLastTimestamp")
        or value.get("eventTime")
        or value["metadata"].get("creationTimestamp"),
        now,
    )


def role_ref(value: Json) -> str:
    return f"{field(value, 'roleRef.kind')}/{field(value, 'roleRef.name')}"


def subjects(kind: str) -> Callable[[Json], str]:
    def cell(value: Json) -> str:
        found = [one for one in value.get("subjects") or () if one["kind"] == kind]
        return ", ".join(
            f"{one['namespace']}/{one['name']}" if kind == "ServiceAccount" else one["name"] for one in found
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
