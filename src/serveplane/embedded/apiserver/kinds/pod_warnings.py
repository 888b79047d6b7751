"""What is accepted of pods and their templates, but warned of."""

from collections.abc import Iterator

from serveplane.embedded.apiserver.kinds.checking import at
from serveplane.objects import Json, quantity

DEPRECATED_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
NO_POD = "a null labelSelector results in matching no pod"
BYTES = ("memory", "ephemeral-storage")
Ports = dict[tuple[object, object], list[tuple[str, Json]]]


def warnings(spec: Json, path: str) -> Iterator[str]:
    """Of a pod's spec, which is at `path`."""
    for index, spread in enumerate(spec.get("topologySpreadConstraints") or ()):
        if spread.get("labelSelector") is None:
            yield f"{at(path, 'topologySpreadConstraints')}[{index}].labelSelector: {NO_POD}"
    for index, volume in enumerate(spec.get("volumes") or ()):
        for source in DEPRECATED_VOLUMES.keys() & volume.keys():
            shown = "storageOS" if source == "storageos" else source
            yield f"{at(path, 'volumes')}[{index}].{shown}: {DEPRECATED_VOLUMES[source]}"
    yield from _repeated(spec, path, "hostAliases", "ip")
    yield from _repeated(spec, path, "imagePullSecrets", "name")
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{at(path, "imagePullSecrets")}[{index}].name: invalid empty name ""'
    yield from _fractions(spec.get("overhead") or {}, at(path, "overhead"))
    yield from _containers(spec, path)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        yield f"{at(path, 'terminationGracePeriodSeconds')}: must be >= 0; negative values are invalid and will be treated as 1"
    yield from _affinity(spec.get("affinity") or {}, at(path, "affinity"))


def _repeated(spec: Json, path: str, field: str, key: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, one in enumerate(spec.get(field) or ()):
        if one.get(key, "") in seen:
            yield f'{at(path, field)}[{index}].{key}: duplicate {key} "{one.get(key, "")}"'
        seen.add(one.get(key, ""))


def _fractions(amounts: Json, path: str) -> Iterator[str]:
    for name in BYTES:
        if name in amounts and (quantity.parse(amounts[name]) * 1000).__ceil__() % 1000:
            yield f'{path}[{name}]: fractional byte value "{amounts[name]}" is invalid, must be an integer'


def _containers(spec: Json, path: str) -> Iterator[str]:
    ports: Ports = {}
    names: dict[str, str] = {}
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            here = f"{at(path, field)}[{index}]"
            for side in ("limits", "requests"):
                yield from _fractions((container.get("resources") or {}).get(side) or {}, f"{here}.resources.{side}")
            yield from _hidden(container, here)
            yield from _ports(container, here, ports, names)


def _hidden(container: Json, path: str) -> Iterator[str]:
    """Variables that are set again without regard to what they were."""
    seen: set[str] = set()
    for index, one in enumerate(container.get("env") or ()):
        name, value = one.get("name", ""), one.get("value") or ""
        if name in seen and (one.get("valueFrom") is not None or value == f"$({name})" or f"$({name})" not in value):
            yield f'{path}.env[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


def _ports(container: Json, path: str, ports: Ports, names: dict[str, str]) -> Iterator[str]:
    for index, port in enumerate(container.get("ports") or ()):
        here = f"{path}.ports[{index}]"
        others = ports.setdefault((port.get("containerPort"), port.get("protocol")), [])
        for place, other in others:
            clash = _clash(port, other)
            if clash:
                yield f"{here}: {clash} port definition with {place}"
        others.append((here, port))
        name = port.get("name")
        if name and name in names:
            first = names[name]
            yield f'{here}: duplicate port name "{name}" with {first}, services and probes that select ports by name will use {first}'
        elif name:
            names[name] = here


def _clash(port: Json, other: Json) -> str:
    number, others = port.get("hostPort") or 0, other.get("hostPort") or 0
    address, its = port.get("hostIP") or "", other.get("hostIP") or ""
    if address == its and number == others:
        return "duplicate"
    if not number or not others:
        return "overlapping"
    return "dangerously ambiguous" if number == others and bool(address) != bool(its) else ""


def _affinity(affinity: Json, path: str) -> Iterator[str]:
    for side in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(side) or {}
        for index, term in enumerate(terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
            if term.get("labelSelector") is None:
                yield f"{path}.{side}.requiredDuringSchedulingIgnoredDuringExecution[{index}].labelSelector: {NO_POD}"
        for index, term in enumerate(terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
            if (term.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{path}.{side}.preferredDuringSchedulingIgnoredDuringExecution[{index}].podAffinityTerm.labelSelector: {NO_POD}"
