"""What a section must hold beyond its types: quantities that parse, modes that exist, gateways that can be named."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from serveplane.api.mode import Mode, parse_mode
from serveplane.objects.quantity import is_quantity
from serveplane.settings import sections as known

Finding = tuple[str, str]
"""Field and message."""

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
OCI_MODES = ("modelcar", "native", "fetch")
_FIGURES = {
    "cpuRequest": "cpu_request",
    "cpuLimit": "cpu_limit",
    "memoryRequest": "memory_request",
    "memoryLimit": "memory_limit",
}


def _given_quantities(section: known.Resources, at: str = "") -> Iterator[Finding]:
    """An empty figure means "none"; one that is there must be a quantity."""
    for field, attribute in _FIGURES.items():
        value = getattr(section, attribute)
        if value and not is_quantity(value):
            yield f"{at}{field}", f"{value!r} is not a quantity such as 100m or 1Gi"


def _all_quantities(section: known.Resources) -> Iterator[Finding]:
    """Sidecars get all four figures or they cannot be made at all."""
    for field, attribute in _FIGURES.items():
        if not getattr(section, attribute):
            yield field, "is needed, a quantity such as 100m or 1Gi"
    yield from _given_quantities(section)


def _service_defaults(section: known.ServiceDefaults) -> Iterator[Finding]:
    yield from _given_quantities(section.resource, "resource.")


def _collector(section: known.OpenTelemetryCollector) -> Iterator[Finding]:
    yield from _given_quantities(section.resource, "resource.")


def _deploy(section: known.Deploy) -> Iterator[Finding]:
    if parse_mode(section.default_deployment_mode) is None:
        yield "defaultDeploymentMode", f"must be one of {', '.join(Mode)}, not {section.default_deployment_mode!r}"


def _ingress(section: known.Ingress) -> Iterator[Finding]:
    if not section.ingress_gateway:
        yield "ingressGateway", "is needed, as <namespace>/<name>"
    if section.enable_gateway_api and not _is_reference(section.kserve_ingress_gateway):
        yield "kserveIngressGateway", "is needed with enableGatewayApi, as <namespace>/<name>"
    for field, template in (("domainTemplate", section.domain_template), ("pathTemplate", section.path_template),
                            ("urlTemplate", section.url_template)):
        if template.count("{{") != template.count("}}"):
            yield field, "has an action that is not closed"
    if section.path_template and not section.ingress_domain:
        yield "pathTemplate", "needs ingressDomain"


def _is_reference(text: str) -> bool:
    namespace, slash, name = text.partition("/")
    return bool(slash and DNS_LABEL.fullmatch(namespace) and DNS_LABEL.fullmatch(name))


def _storage_initializer(section: known.StorageInitializer) -> Iterator[Finding]:
    yield from _all_quantities(section)
    for field, value in (("cpuModelcar", section.cpu_modelcar), ("memoryModelcar", section.memory_modelcar)):
        if value and not is_quantity(value):
            yield field, f"{value!r} is not a quantity such as 10m or 15Mi"
    if section.oci_model_mode and section.oci_model_mode not in OCI_MODES:
        yield "ociModelMode", f"must be one of {', '.join(OCI_MODES)}, not {section.oci_model_mode!r}"


CHECKS: dict[str, Callable[[Any], Iterator[Finding]]] = {
    "inferenceService": _service_defaults,
    "opentelemetryCollector": _collector,
    "deploy": _deploy,
    "ingress": _ingress,
    "storageInitializer": _storage_initializer,
    "logger": _all_quantities,
    "batcher": _all_quantities,
    "agent": _all_quantities,
    "router": _all_quantities,
}
