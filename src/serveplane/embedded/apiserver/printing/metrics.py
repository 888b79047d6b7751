"""What an autoscaler aims at, and where it is."""

from typing import Any

from serveplane.embedded.apiserver.autoscalers import newer
from serveplane.embedded.apiserver.printing.column import NONE, field
from serveplane.objects import Json

UNKNOWN = "<unknown>"
SOURCES = {"External": "external", "Pods": "pods", "Object": "object", "Resource": "resource", "ContainerResource": "containerResource"}
NAMED = ("Resource", "ContainerResource")
SHOWN = 2


def metrics(value: Json) -> str:
    if value.get("apiVersion") == "autoscaling/v1":
        value = newer(value)
    wanted, seen = field(value, "spec.metrics") or [], field(value, "status.currentMetrics") or []
    shown = [_metric(metric, seen[index] if index < len(seen) else {}) for index, metric in enumerate(wanted)]
    if not shown:
        return NONE
    return ", ".join(shown[:SHOWN]) + (f" + {len(shown) - SHOWN} more..." if len(shown) > SHOWN else "")


def _metric(metric: Json, status: Json) -> str:
    kind = metric.get("type", "")
    source = SOURCES.get(kind)
    if source is None:
        return "<unknown type>"
    inner: Json = metric.get(source) or {}
    target, current = inner.get("target") or {}, (status.get(source) or {}).get("current")
    now, goal, tail = _pair(kind, target, current)
    return f"{inner.get('name', '')}: {now}/{goal}" if kind in NAMED else f"{now}/{goal}{tail}"


def _pair(kind: str, target: Json, current: Json | None) -> tuple[Any, Any, str]:
    """Where it is, where it should be, and a word on how that is counted."""
    if target.get("averageValue") is not None:
        now = current.get("averageValue", UNKNOWN if kind in ("External", "Object") else "0") if current else UNKNOWN
        return now, target["averageValue"], " (avg)" if kind in ("External", "Object") else ""
    if kind in NAMED:
        used, goal = (current or {}).get("averageUtilization"), target.get("averageUtilization")
        return UNKNOWN if used is None else f"{used}%", "<auto>" if goal is None else f"{goal}%", ""
    return current.get("value", "0") if current else UNKNOWN, target.get("value", "0"), ""
