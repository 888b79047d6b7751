"""What is checked of LimitRanges and ResourceQuotas."""

from collections.abc import Iterator, Mapping
from fractions import Fraction

import msgspec

from serveplane.embedded.apiserver.errors import Cause
from serveplane.embedded.apiserver.kinds.checking import NOT_NEGATIVE, at, duplicate, missing
from serveplane.embedded.apiserver.kinds.metadata import QUALIFIED, invalid
from serveplane.objects import Json, names, quantity

COMPUTE = ("cpu", "memory", "ephemeral-storage")
COUNTED = frozenset(
    {
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims",
        "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip
"""What comes in whole numbers."""
QUOTA_NAMES = COUNTED | {*COMPUTE, "requests.storage", *(f"{side}.{name}" for side in ("requests", "limits") for name in COMPUTE)}
STANDARD_NAMES = QUOTA_NAMES | {"storage"}
LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
POD_COMPUTE = frozenset({"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
SCOPES = (
    "Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity", "VolumeAttributesClass",
)  # fmt: skip
CONFLICTING = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
EXISTS_ONLY = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


# --- names of amounts


def _resource_name(name: str, path: str) -> Iterator[Cause]:
    if not names.is_qualified_name(name):
        yield invalid(path, name, QUALIFIED)
    elif "/" not in name and name not in STANDARD_NAMES and not _is_huge_page(name):
        yield invalid(path, name, "must be a standard resource type or fully qualified")


def _is_huge_page(name: str) -> bool:
    return name.startswith(("hugepages-", "requests.hugepages-"))


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def container_name(name: str, path: str) -> Iterator[Cause]:
    """Names of what a container may ask for."""
    yield from _resource_name(name, path)
    if "/" not in name:
        if name not in COMPUTE and not name.startswith("hugepages-"):
            yield invalid(path, name, "must be a standard resource for containers")
    elif not _is_native(name) and (name.startswith("requests.") or not names.is_qualified_name(f"requests.{name}")):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def _quota_name(name: str, path: str) -> Iterator[Cause]:
    yield from _resource_name(name, path)
    if "/" not in name and name not in QUOTA_NAMES and not _is_huge_page(name):
        yield invalid(path, name, "must be a standard resource for quota")


def _quota_amounts(amounts: Mapping[str, str], path: str) -> Iterator[Cause]:
    for name, amount in amounts.items():
        here = f"{path}[{name}]"
        yield from _quota_name(name, here)
        number = quantity.parse(amount)
        if number < 0:
            yield invalid(here, amount, NOT_NEGATIVE)
        extended = not _is_native(name) and not name.startswith("requests.")
        if (name in COUNTED or extended) and (number * 1000).__ceil__() % 1000:
            yield invalid(here, amount, "must be an integer")


# --- quotas


def quota(value: Json, path: str) -> Iterator[Cause]:
    hard = value.get("hard") or {}
    yield from _quota_amounts(hard, at(path, "hard"))
    yield from _scopes(value.get("scopes") or [], hard, at(path, "scopes"))
    selector = value.get("scopeSelector")
    if selector is not None:
        yield from _scope_selector(selector, value, hard, at(path, "scopeSelector.matchExpressions"))


def _scopes(scopes: list[str], hard: Mapping[str, str], path: str) -> Iterator[Cause]:
    shown = msgspec.json.encode(scopes).decode()
    for scope in scopes:
        if scope not in SCOPES:
            yield Cause("FieldValueInvalid", f"Invalid value: {shown}: unsupported scope", path)
        for _ in _out_of_scope(scope, hard):
            yield Cause("FieldValueInvalid", f"Invalid value: {shown}: unsupported scope applied to resource", path)
    for pair in CONFLICTING:
        if all(scope in scopes for scope in pair):
            yield Cause("FieldValueInvalid", f"Invalid value: {shown}: conflicting scopes", path)


def _out_of_scope(scope: str, hard: Mapping[str, str]) -> Iterator[str]:
    """Standard amounts that objects of this scope do not have."""
    if scope == "VolumeAttributesClass":
        fitting = frozenset({"persistentvolumeclaims", "requests.storage"})
    elif scope in SCOPES:
        fitting = frozenset({"pods"}) if scope == "BestEffort" else POD_COMPUTE | {"pods"}
    else:
        return
    yield from (name for name in sorted(hard) if (name in QUOTA_NAMES or _is_huge_page(name)) and name not in fitting)


def _scope_selector(selector: Json, spec: Json, hard: Mapping[str, str], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for one in selector.get("matchExpressions") or ():
        scope, operator, given = one.get("scopeName") or "", one.get("operator") or "", one.get("values") or []
        if scope not in SCOPES:
            yield invalid(f"{path}.scopeName", scope, "unsupported scope")
        for _ in _out_of_scope(scope, hard):
            yield Cause("FieldValueInvalid", f"Invalid value: {_selector_shown(selector)}: unsupported scope applied to resource", path)
        if scope in SCOPES and scope not in ("PriorityClass", "VolumeAttributesClass") and operator != "Exists":
            yield invalid(f"{path}.operator", operator, EXISTS_ONLY)
        if operator in ("In", "NotIn") and not given:
            yield missing(f"{path}.values", "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
        elif operator in ("Exists", "DoesNotExist") and given:
            why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield Cause("FieldValueInvalid", f"Invalid value: {msgspec.json.encode(given).decode()}: {why}", f"{path}.values")
        elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")
        seen.add(scope)
    shown = msgspec.json.encode(spec.get("scopes")).decode()
    for pair in CONFLICTING:
        if seen.issuperset(pair):
            yield Cause("FieldValueInvalid", f"Invalid value: {shown}: conflicting scopes", path)


def _selector_shown(selector: Json) -> str:
    listed = [
        {"ScopeName": one.get("scopeName", ""), "Operator": one.get("operator", ""), "Values": one.get("values")}
        for one in selector.get("matchExpressions") or ()
    ]
    return msgspec.json.encode({"MatchExpressions": listed}).decode()


def quota_status(status: Json) -> Iterator[Cause]:
    for field in ("hard", "used"):
        yield from _quota_amounts(status.get(field) or {}, f"status.{field}")


# --- limits


def limits(value: Json, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, limit in enumerate(value.get("limits") or ()):
        here, kind = f"{at(path, 'limits')}[{index}]", limit.get("type") or ""
        yield from _limit_type(kind, f"{here}.type")
        if kind in seen:
            yield duplicate(f"{here}.type", kind)
        seen.add(kind)
        yield from _limit(limit, kind, here)


def _limit_type(kind: str, path: str) -> Iterator[Cause]:
    if not kind:
        yield invalid(path, kind, "name part must be non-empty")
    if not names.is_qualified_name(kind):
        yield invalid(path, kind, QUALIFIED)
    elif "/" not in kind and kind not in LIMIT_TYPES:
        yield invalid(path, kind, "must be a standard limit type or fully qualified")


def _limit(limit: Json, kind: str, path: str) -> Iterator[Cause]:
    fields = ["max", "min", *([] if kind == "Pod" else ["default", "defaultRequest"]), "maxLimitRequestRatio"]
    check = container_name if kind in ("Pod", "Container") else _resource_name
    for field in fields:
        for name in limit.get(field) or ():
            yield from check(name, f"{path}.{field}[{name}]")
    for field in ("default", "defaultRequest") if kind == "Pod" else ():
        if limit.get(field):
            yield Cause("FieldValueForbidden", "Forbidden: may not be specified when `type` is 'Pod'", f"{path}.{field}")
    if kind == "PersistentVolumeClaim" and not any("storage" in (limit.get(field) or {}) for field in ("min", "max")):
        yield missing(f"{path}.limits", "either minimum or maximum storage value is required, but neither was provided")
    given = {field: limit.get(field) or {} for field in fields}
    for name in sorted({name for amounts in given.values() for name in amounts}):
        yield from _bounds({field: amounts[name] for field, amounts in given.items() if name in amounts}, name, path)


ORDERED = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)
"""What may not be greater than what; which field is to blame, whose value is shown, and the sentence."""


def _bounds(given: Mapping[str, str], name: str, path: str) -> Iterator[Cause]:
    numbers = {field: quantity.parse(amount) for field, amount in given.items()}
    for least, most, blamed, shown, told in ORDERED:
        if least in given and most in given and numbers[least] > numbers[most]:
            yield invalid(f"{path}.{blamed}[{name}]", given[shown], told.format(given[least], given[most]))
    if "maxLimitRequestRatio" in given:
        yield from _ratio(given["maxLimitRequestRatio"], numbers, f"{path}.maxLimitRequestRatio[{name}]")
    overcommitted = _is_native(name) and not name.startswith("hugepages-")
    if not overcommitted and "default" in numbers and "defaultRequest" in numbers and numbers["default"] != numbers["defaultRequest"]:
        told = f"default value {given['default']} must equal to defaultRequest value {given['defaultRequest']} in {name}"
        yield invalid(f"{path}.defaultRequest[{name}]", given["defaultRequest"], told)


def _ratio(ratio: str, numbers: Mapping[str, Fraction], path: str) -> Iterator[Cause]:
    if quantity.parse(ratio) < 1:
        yield invalid(path, ratio, f"ratio {ratio} is less than 1")
    if numbers.get("min") and "max" in numbers and quantity.parse(ratio) > numbers["max"] / numbers["min"]:
        yield invalid(path, ratio, f"ratio {ratio} is greater than max/min = {float(numbers['max'] / numbers['min']):f}")
