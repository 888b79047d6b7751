"""The types of others that our kinds contain: Kubernetes' own, the Gateway API's, the Inference Extension's.

Both come as compact tables of the same form; names say which one is meant (`core.v1.PodSpec`, `gateway.HTTPRouteSpec`).
"""

from serveplane.objects import Json
from serveplane.objects.schema import kubernetes_types


def part_type(name: str) -> Json:
    """The compact description of a type; KeyError for one that no table has."""
    found: Json = kubernetes_types()[name]
    return found
