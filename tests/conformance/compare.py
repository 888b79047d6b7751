"""What differs between two observations, said so that one line names object, path and both values. Pure."""
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.conformance.recorded import PARTS, Observation

Json = dict[str, Any]
ABSENT = "(absent)"
SHOWN = 160          # characters of a value


class Difference(NamedTuple):
    part: str        # the file: "children", "status" …
    where: str       # "Deployment/iris-predictor"
    path: str        # "spec.template.spec.containers[0].image"; empty if the whole object is missing or too many
    expected: Any
    found: Any

    def __str__(self) -> str:
        if not self.path:
            return f"{self.part}: {self.where} is {'missing' if self.found == ABSENT else 'too many'}"
        return f"{self.part}: {self.where}: {self.path}: expected {_short(self.expected)}, found {_short(self.found)}"


class Differs(AssertionError):
    """A case came out differently; each problem is one line."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n" + "\n".join(problems))
        self.problems = problems


def differences(expected: Observation, found: Observation) -> list[Difference]:
    return [difference for part in PARTS for difference in _of_part(part, expected.get(part, []), found.get(part, []))]


def key_of(obj: Json) -> str:
    """The name under which two objects are compared; replicas of a pod share it, so a number tells them apart."""
    version = f" ({obj['apiVersion']})" if obj.get("apiVersion") else ""
    return f"{obj['kind']}/{obj['metadata'].get('name', '')}{version}"


def _of_part(part: str, expected: list[Json], found: list[Json]) -> Iterator[Difference]:
    wanted, got = _by_key(expected), _by_key(found)
    for key in sorted(wanted.keys() | got.keys()):
        if key not in got:
            yield Difference(part, key, "", wanted[key], ABSENT)
        elif key not in wanted:
            yield Difference(part, key, "", ABSENT, got[key])
        else:
            yield from (Difference(part, key, path, a, b) for path, a, b in _of_value("", wanted[key], got[key]))


def _by_key(objects: list[Json]) -> dict[str, Json]:
    keyed: dict[str, Json] = {}
    for obj in sorted(objects, key=lambda obj: repr(sorted(obj.items(), key=repr))):
        key, number = key_of(obj), 2
        while key in keyed:
            key, number = f"{key_of(obj)} #{number}", number + 1
        keyed[key] = obj
    return keyed


def _of_value(path: str, expected: Any, found: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted(expected.keys() | found.keys()):
            yield from _of_value(f"{path}.{key}" if path else key, expected.get(key, ABSENT), found.get(key, ABSENT))
    elif _are_conditions(expected) and _are_conditions(found):      # told apart by type, so that one more does not shift the rest
        wanted, got = ({condition["type"]: condition for condition in conditions} for conditions in (expected, found))
        for kind in sorted(wanted.keys() | got.keys()):
            yield from _of_value(f"{path}.{kind}", wanted.get(kind, ABSENT), got.get(kind, ABSENT))
    elif isinstance(expected, list) and isinstance(found, list):
        for n in range(max(len(expected), len(found))):
            yield from _of_value(f"{path}[{n}]", expected[n] if n < len(expected) else ABSENT, found[n] if n < len(found) else ABSENT)
    elif expected != found:
        yield path, expected, found


def _are_conditions(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and {"type", "status"} <= item.keys() for item in value)


def _short(value: Any) -> str:
    text = value if value == ABSENT else repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + " …"
