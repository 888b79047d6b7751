"""The names under which a service is reached: hosts from the domain template, paths from the path template, URLs for the status."""
import re
from collections.abc import Mapping

from serveplane.api import keys
from serveplane.api.inferenceservice.types import InferenceService
from serveplane.objects import Json
from serveplane.render.names import CLUSTER_LOCAL, DEFAULT_PORT
from serveplane.render.runtimes import FailureReason, InvalidSpec
from serveplane.render.templates import TemplateError, render
from serveplane.settings.sections import Ingress

INTERNAL_DOMAIN = "svc.cluster.local"
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DOMAIN_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})+")
LONGEST_DOMAIN = 253


class BadAddress(InvalidSpec):
    """The templates give no usable host or path for this service."""


def host(name: str, service: InferenceService, section: Ingress) -> str:
    """The external host of the service itself or of one of its components."""
    values = {"Name": name, "Namespace": service.namespace, "IngressDomain": section.ingress_domain,
              "Annotations": service.annotations, "Labels": service.labels}
    text = _rendered("domain template", section.domain_template, values)
    if len(text) > LONGEST_DOMAIN or not _DOMAIN_NAME.fullmatch(text):
        raise BadAddress(FailureReason.INVALID_PREDICTOR_SPEC, f"the domain template gives {text!r}, which is no domain name")
    return text


def additional_hosts(service: InferenceService, section: Ingress) -> list[str]:
    """The service's host under each further domain."""
    name = host(service.name, service, section)
    stem = name.removesuffix(f".{section.ingress_domain}")
    if stem == name:
        return []
    domains = dict.fromkeys(section.additional_ingress_domains)
    return [f"{stem}.{domain}" for domain in domains if domain != section.ingress_domain and _DOMAIN_NAME.fullmatch(f"{stem}.{domain}")]


def path(service: InferenceService, section: Ingress) -> str:
    """The path of the service below the ingress domain; empty if paths are not used."""
    if not section.path_template:
        return ""
    values = {"Name": service.name, "Namespace": service.namespace}
    return _rendered("path template", section.path_template, values).rstrip("/")


def is_internal(service: InferenceService, section: Ingress) -> bool:
    """Whether the service shall be reached from inside the cluster only."""
    return service.labels.get(keys.VISIBILITY) == CLUSTER_LOCAL or section.ingress_domain == INTERNAL_DOMAIN


def has_route(service: InferenceService, section: Ingress) -> bool:
    return not (is_internal(service, section) or section.disable_ingress_creation)


def external_url(service: InferenceService, section: Ingress) -> str:
    return _told_url(service.name, section.url_scheme, service, section)


def component_url(name: str, service: InferenceService, section: Ingress) -> str:
    """Where a single component is reached; KServe tells it without TLS whatever the scheme is."""
    return _told_url(name, "http", service, section)


def _told_url(name: str, scheme: str, service: InferenceService, section: Ingress) -> str:
    """Scheme and host, unless the administrator knows better how the gateway is reached. What has no route keeps its host."""
    known = host(name, service, section)
    if not section.url_template or not has_route(service, section):
        return f"{scheme}://{known}"
    return _rendered("URL template", section.url_template,
                     {"Name": name, "Namespace": service.namespace, "Host": known, "Scheme": scheme})


def internal_url(entry: Json, cluster_domain: str) -> str:
    """The address of the Service that requests go to; a headless one has no port 80 to hide behind."""
    metadata, spec = entry["metadata"], entry["spec"]
    name = f"http://{metadata['name']}.{metadata['namespace']}.svc.{cluster_domain}"
    if spec.get("clusterIP") != "None":
        return name
    port = next((port.get("targetPort") for port in spec.get("ports") or [] if not is_grpc(port)), None)
    return f"{name}:{port or DEFAULT_PORT}"


def is_grpc(port: Json) -> bool:
    name = (port.get("name") or "").lower()
    return port.get("appProtocol") == "kubernetes.io/h2c" or "grpc" in name or "h2c" in name


def _rendered(what: str, template: str, values: Mapping[str, object]) -> str:
    try:
        return render(template, values)
    except TemplateError as error:
        raise BadAddress(FailureReason.INVALID_PREDICTOR_SPEC, f"the {what} cannot be rendered: {error}") from error
