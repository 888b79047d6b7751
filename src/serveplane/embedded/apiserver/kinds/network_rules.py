"""What is checked of Services, endpoints, ingresses and network policies."""

import ipaddress
from collections.abc import Iterator
from typing import Any

from serveplane.embedded.apiserver.errors import Cause
from serveplane.embedded.apiserver.kinds.checking import (
    at,
    duplicate,
    missing,
    port_name,
    port_number,
    port_number_or_name,
    unique,
    unsupported,
)
from serveplane.embedded.apiserver.kinds.metadata import LABEL, LABEL_1035, SUBDOMAIN, invalid
from serveplane.objects import Json, names

ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
NETWORK = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
WILDCARD = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric "
    "characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is "
    "'\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
PROTOCOLS = ("TCP", "UDP", "SCTP")
BAD_PATHS, BAD_ENDS = ("//", "/./", "/../", "%2f", "%2F"), ("/..", "/.")


def service(value: Json, path: str) -> Iterator[Cause]:
    ports = value.get("ports") or []
    if not ports and value.get("clusterIP") != "None" and value.get("type") != "ExternalName":
        yield missing(at(path, "ports"))
    seen: set[Any] = set()
    for index, one in enumerate(ports):
        here = f"{at(path, 'ports')}[{index}]"
        if not one.get("name") and len(ports) > 1:
            yield missing(f"{here}.name")
        pair = (one.get("protocol"), one.get("port"))
        if pair in seen:
            shown = f'"Protocol":"{pair[0]}","AppProtocol":null,"Port":{pair[1]},"TargetPort":0,"NodePort":0'
            yield Cause("FieldValueDuplicate", f'Duplicate value: {{"Name":"",{shown}}}', here)
        seen.add(pair)
    yield from unique("ports", "name")({"ports": [one for one in ports if one.get("name")]}, path)
    if value.get("type") == "ExternalName" and not value.get("externalName"):
        yield missing(at(path, "externalName"))
    if value.get("clusterIP") == "None" and value.get("type") in ("NodePort", "LoadBalancer"):
        why = f"may not be set to 'None' for {value['type']} services"
        yield invalid(at(path, "clusterIPs[0]"), "None", why)
    if value.get("ipFamilyPolicy") == "RequireDualStack":
        why = "this cluster is not configured for dual-stack services"
        yield invalid(at(path, "ipFamilyPolicy"), "RequireDualStack", why)


def service_port(value: Json, path: str) -> Iterator[Cause]:
    yield from port_number(value.get("port") or 0, at(path, "port"))
    yield from port_number_or_name(value.get("targetPort", 0), at(path, "targetPort"))


# --- endpoints


def subset(value: Json, path: str) -> Iterator[Cause]:
    if not value.get("addresses") and not value.get("notReadyAddresses"):
        yield missing(path, "must specify `addresses` or `notReadyAddresses`")
    ports = value.get("ports") or []
    for index, one in enumerate(ports):
        here = f"{at(path, 'ports')}[{index}]"
        if not one.get("name") and len(ports) > 1:
            yield missing(f"{here}.name")


def endpoint_address(value: Json, path: str) -> Iterator[Cause]:
    yield from _address(value.get("ip") or "", at(path, "ip"))


def _address(text: str, path: str) -> Iterator[Cause]:
    """An address to send to. Loopback is one here, and only here: pods of this machine's node live there."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        yield invalid(path, text, ADDRESS)
        return
    if found.is_unspecified:
        yield invalid(path, text, f"may not be unspecified ({found})")
    if found.is_link_local:
        yield invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")


def endpoint_slice(value: Json, path: str) -> Iterator[Cause]:
    family = {"IPv4": 4, "IPv6": 6}.get(value.get("addressType", ""))
    for index, endpoint in enumerate(value.get("endpoints") or ()):
        here = f"endpoints[{index}]"
        if not endpoint.get("addresses"):
            yield missing(f"{here}.addresses", "must contain at least 1 address")
        for number, address in enumerate(endpoint.get("addresses") or () if family else ()):
            yield from _address_of(family, address, f"{here}.addresses", number)
        host = endpoint.get("hostname")
        if host is not None and not names.is_dns_label(host):
            yield invalid(f"{here}.hostname", host, LABEL)
    yield from _slice_ports(value.get("ports") or [])


def _address_of(family: int | None, address: str, path: str, number: int) -> Iterator[Cause]:
    problems = list(_address(address, f"{path}[{number}]"))
    if not any(problem.message.endswith(ADDRESS) for problem in problems) and ipaddress.ip_address(address).version != family:
        yield invalid(path, address, f"must be an IPv{family} address")
    yield from problems


def _slice_ports(ports: list[Any]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, one in enumerate(ports):
        name, here = one.get("name") or "", f"ports[{index}]"
        if name and not names.is_dns_label(name):
            yield invalid(f"{here}.name", name, LABEL)
        if name in seen:
            yield duplicate(f"{here}.name", name)
        seen.add(name)
        if one.get("protocol") not in PROTOCOLS:
            yield unsupported(f"{here}.protocol", one.get("protocol"), sorted(PROTOCOLS))


# --- ingress


def ingress(value: Json, path: str) -> Iterator[Cause]:
    if not value.get("rules") and value.get("defaultBackend") is None:
        why = "either `defaultBackend` or `rules` must be specified"
        yield Cause("FieldValueInvalid", f"Invalid value: null: {why}", path)
    for index, rule in enumerate(value.get("rules") or ()):
        host = rule.get("host") or ""
        if "*" in host and not (host.startswith("*.") and names.is_dns_subdomain(host[2:])):
            yield invalid(f"{at(path, 'rules')}[{index}].host", host, WILDCARD)
        elif host and "*" not in host and not names.is_dns_subdomain(host):
            yield invalid(f"{at(path, 'rules')}[{index}].host", host, SUBDOMAIN)
    if value.get("defaultBackend") is not None:
        yield from _backend(value["defaultBackend"], at(path, "defaultBackend"))


def ingress_path(value: Json, path: str) -> Iterator[Cause]:
    kind, text = value.get("pathType"), value.get("path") or ""
    if kind is None:
        yield missing(at(path, "pathType"), "pathType must be specified")
        return
    if kind not in ("Exact", "Prefix", "ImplementationSpecific"):
        yield unsupported(at(path, "pathType"), kind, ("Exact", "ImplementationSpecific", "Prefix"))
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        yield invalid(at(path, "path"), text, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        yield from (invalid(at(path, "path"), text, f"must not contain '{part}'") for part in BAD_PATHS if part in text)
        yield from (invalid(at(path, "path"), text, f"cannot end with '{end}'") for end in BAD_ENDS if text.endswith(end))
    yield from _backend(value.get("backend") or {}, at(path, "backend"))


def _backend(value: Json, path: str) -> Iterator[Cause]:
    service = value.get("service")
    if service is not None and value.get("resource") is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif service is None and value.get("resource") is None:
        yield invalid(path, "", "resource or service backend is required")
    elif service is not None:
        yield from _service_backend(service, path)


def _service_backend(service: Json, path: str) -> Iterator[Cause]:
    name, chosen = service.get("name") or "", service.get("port") or {}
    if not name:
        yield missing(f"{path}.service.name")
    elif not names.is_dns_1035_label(name):
        yield invalid(f"{path}.service.name", name, LABEL_1035)
    if chosen.get("name") and chosen.get("number"):
        yield invalid(path, "", "cannot set both port name & port number")
    elif chosen.get("name"):
        yield from port_name(chosen["name"], f"{path}.service.port.name")
    elif chosen.get("number"):
        yield from port_number(chosen["number"], f"{path}.service.port.number")
    else:
        yield missing(path, "port name or number is required")


# --- network policies


def policy(value: Json, path: str) -> Iterator[Cause]:
    for index, kind in enumerate(value.get("policyTypes") or ()):
        if kind not in ("Ingress", "Egress"):
            yield unsupported(f"{at(path, 'policyTypes')}[{index}]", kind, ("Ingress", "Egress"))


def policy_port(value: Json, path: str) -> Iterator[Cause]:
    if value.get("protocol") not in (None, *PROTOCOLS):
        yield unsupported(at(path, "protocol"), value["protocol"], PROTOCOLS)
    number, end = value.get("port"), value.get("endPort")
    if number is not None:
        yield from port_number_or_name(number, at(path, "port"))
    if end is None:
        return
    if isinstance(number, int):
        if end < number:
            yield invalid(at(path, "endPort"), number, "must be greater than or equal to `port`")
        yield from port_number(end, at(path, "endPort"))
    else:
        why = "not specified" if number is None else "non-numeric"
        yield invalid(at(path, "endPort"), end, f"may not be specified when `port` is {why}")


def policy_peer(value: Json, path: str) -> Iterator[Cause]:
    given = [field for field in ("podSelector", "namespaceSelector", "ipBlock") if value.get(field) is not None]
    if not given:
        yield missing(path, "must specify a peer")
    elif len(given) > 1 and "ipBlock" in given:
        yield Cause("FieldValueForbidden", "Forbidden: may not specify both ipBlock and another peer", path)


def network(value: Json, path: str) -> Iterator[Cause]:
    text = value.get("cidr") or ""
    if not text:
        yield missing(at(path, "cidr"))
        return
    try:
        ipaddress.ip_interface(text)
        if "/" not in text:
            raise ValueError
    except ValueError:
        yield invalid(at(path, "cidr"), text, NETWORK)
