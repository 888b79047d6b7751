"""The types of others that our kinds contain: Kubernetes' own, the Gateway API's, KEDA's.

Both come as compact tables of the same form; names say which one is meant (`core.v1.PodSpec`, `gateway.HTTPRouteSpec`).
"""

import functools
from importlib import resources

import msgspec

from serveplane.objects import Json
from serveplane.objects.schema import kubernetes_types


def part_type(name: str) -> Json:
    """The compact description of a type; KeyError for one that no table has."""
    found: Json = kubernetes_types().get(name) or _neighbours()[name]
    return found


@functools.cache
def _neighbours() -> Json:
    """Written by `scripts/neighbour_types.py`."""
    table: Json = msgspec.json.decode(resources.files("serveplane.api").joinpath("data/neighbours.json").read_bytes())
    types: Json = table["types"]
    return types
