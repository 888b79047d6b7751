"""Kubernetes' own kinds: canonical form, what the server alone sets, and which changes count as a new generation."""

from functools import cache
from typing import TYPE_CHECKING

from serveplane.embedded.apiserver.errors import Cause
from serveplane.embedded.apiserver.kinds import codec, strategies, validation
from serveplane.embedded.apiserver.kinds.scalars import Walk
from serveplane.embedded.apiserver.kinds.typed import read_as
from serveplane.embedded.apiserver.resources import Resource
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.writing import Write

STATUS_ON_CREATE = frozenset({"nodes", "leases.coordination.k8s.io", "csinodes.storage.k8s.io"})
"""Kinds whose creator may set the status."""
WITH_GENERATION = frozenset(
    {
        "pods",
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
        "daemonsets.apps",
        "jobs.batch",
        "cronjobs.batch",
        "poddisruptionbudgets.policy",
        "networkpolicies.networking.k8s.io",
        "ingresses.networking.k8s.io",
        "ingressclasses.networking.k8s.io",
        "replicationcontrollers",
        "customresourcedefinitions.apiextensions.k8s.io",
        "endpointslices.discovery.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        "priorityclasses.scheduling.k8s.io",
        "podtemplates",
    }
)
WHOLE = frozenset(
    {
        "endpointslices.discovery.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
    }
)
"""Kinds without a spec: any change counts."""
STRICT = frozenset(
    {
        "networkpolicies.networking.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
    }
)
"""Kinds for which a list given empty is another intent than none given, every time."""


def canonical(resource: Resource, value: Json, problems: list[str]) -> Json:
    walk = Walk()
    out = read_as(resource.group, resource.version, resource.kind, value, walk)
    _report(problems, walk)
    return out


def converted(resource: Resource, value: Json, problems: list[str]) -> Json:
    """As `canonical`, but from a value: numbers that do not fit are cut, as Go converts them, and misfits have other words."""
    struct = codec.struct_for(resource.group, resource.version, resource.kind)
    if struct is None:
        return value
    walk = Walk(converting=True, as_given=isinstance(problems, codec.Findings))
    out = struct.decode(value, walk, "")
    _report(problems, walk)
    return out


def _report(problems: list[str], walk: Walk) -> None:
    problems += [f'unknown field "{path}"' for path in walk.unknown]
    if walk.emptied and isinstance(problems, codec.Findings):
        problems.emptied = walk.emptied


@cache
def _zero(group: str, version: str, kind: str) -> Json:
    struct = codec.struct_for(group, version, kind)
    return struct.zero() if struct else {}


def empty(resource: Resource) -> Json:
    return _zero(resource.group, resource.version, resource.kind)


def prepare_create(core: "Core", resource: Resource, value: Json) -> None:
    if "status" in resource.subresources and resource.bucket not in STATUS_ON_CREATE:
        struct = codec.struct_for(resource.group, resource.version, resource.kind)
        unset = struct.field_when_absent("status") if struct else None
        if unset is None:
            value.pop("status", None)
        else:
            value["status"] = unset
    if resource.bucket in WITH_GENERATION:
        value["metadata"]["generation"] = 1
    else:
        value["metadata"].pop("generation", None)
    strategies.on_create(core, resource, value)


def prepare_update(core: "Core", write: "Write") -> None:
    value, live, resource = write.value, write.live, write.resource
    if write.subresource == "status":
        kept = {key: item for key, item in live.items() if key not in ("metadata", "status")}
        write.value = {
            **kept,
            "metadata": value["metadata"],
            **({"status": value["status"]} if "status" in value else {}),
        }
        strategies.on_status(core, write)
        return
    if "status" in resource.subresources and write.subresource not in strategies.STATUS_WRITERS:
        value.pop("status", None)
        if "status" in live:
            value["status"] = live["status"]
    strategies.on_update(core, write)
    emptied = resource.bucket in STRICT and any(not path.startswith("metadata.") for path in write.request.emptied)
    if resource.bucket in WITH_GENERATION and (emptied or _intent(resource, value) != _intent(resource, live)):
        value["metadata"]["generation"] = live["metadata"].get("generation", 0) + 1


def _intent(resource: Resource, value: Json) -> object:
    if resource.bucket == "deployments.apps":  # its annotations steer rollouts, so they count
        return value.get("spec"), value["metadata"].get("annotations") or {}
    if resource.bucket == "endpointslices.discovery.k8s.io":
        return {key: item for key, item in value.items() if key != "metadata"}, value["metadata"].get("labels")
    if resource.bucket in WHOLE:
        return {key: item for key, item in value.items() if key not in ("metadata", "status")}
    return value.get("spec")


def problems(core: "Core", write: "Write") -> list[Cause]:
    return list(validation.problems(core, write))
