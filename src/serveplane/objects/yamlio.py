"""YAML as kubectl reads it, and as people like to read it.

kubectl turns YAML into JSON by rules between YAML 1.1 and 1.2 (seen with kubectl 1.32): `y` and `on` are booleans, `1:30` and
dates are text, `014` and `0o14` are 12, keys are always text.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from serveplane.objects import Json

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BaseDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_INT, _BOOL = "tag:yaml.org,2002:int", "tag:yaml.org,2002:bool"


class YamlError(ValueError):
    """Text that is not YAML, or YAML that is no Kubernetes object; the message has line and column."""


class _Loader(_Base):  # type: ignore[misc]  # the C loader has no types
    """A safe loader with every key a string and no key twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        self.flatten_mapping(node)
        out: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = _key(self.construct_object(key_node, deep=True))
            if key in out:
                raise YamlError(f"line {key_node.start_mark.line + 1}: key {key!r} is there twice")
            out[key] = self.construct_object(value_node, deep=deep)
        return out


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return key if isinstance(key, str) else "null" if key is None else str(key)


def _construct_map(loader: Any, node: Any) -> Iterator[dict[str, Any]]:
    out: dict[str, Any] = {}
    yield out
    out.update(loader.construct_mapping(node))


# kubectl's reader: numbers without base 60, octals in both spellings, `y` and `n` as booleans, no timestamps.
_BOOLS = {word: word.lower() in ("y", "yes", "true", "on")
          for base in ("y", "n", "yes", "no", "true", "false", "on", "off")
          for word in (base, base.capitalize(), base.upper())}  # fmt: skip
_NUMBER = re.compile(
    r"^[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*|(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|\.(?:inf|Inf|INF))$|^\.(?:nan|NaN|NAN)$"
)


def _construct_number(loader: Any, node: Any) -> Any:
    """A whole number stays whole, however it was written: JSON knows no difference."""
    text = loader.construct_scalar(node).replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan")
    sign, digits = (-1 if text.startswith("-") else 1), text.lstrip("+-")
    try:
        octal = len(digits) > 1 and digits.isdigit() and digits.startswith("0")
        return sign * (int(digits, 8) if octal else int(digits, 0))
    except ValueError:  # 08 is no octal number but a number all the same
        value = sign * float(digits)
        return int(value) if value.is_integer() and abs(value) < 2**53 else value


_Loader.add_constructor("tag:yaml.org,2002:map", _construct_map)
_Loader.yaml_implicit_resolvers = {
    letter: [(tag, rule) for tag, rule in rules if tag.endswith((":null", ":merge"))]
    for letter, rules in _Base.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_INT, _NUMBER, list("-+0123456789."))
_Loader.add_implicit_resolver(_BOOL, re.compile(f"^(?:{'|'.join(_BOOLS)})$"), list("yYnNtTfFoO"))
_Loader.add_constructor(_INT, _construct_number)
_Loader.add_constructor(_BOOL, lambda loader, node: _BOOLS[loader.construct_scalar(node)])


def load_all(text: str) -> list[Json]:
    """Every object of a stream of YAML or JSON documents; members of a `List` one by one."""
    try:
        documents = [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
    except yaml.YAMLError as trouble:
        raise YamlError(_told(trouble)) from trouble
    return [obj for document in documents for obj in _objects(document)]


def _objects(document: Any) -> Iterable[Json]:
    if not isinstance(document, dict):
        raise YamlError(f"expected an object, found {type(document).__name__}: {str(document)[:60]!r}")
    if document.get("kind", "").endswith("List") and isinstance(document.get("items"), list):
        return [obj for item in document["items"] for obj in _objects(item)]
    return [document]


def _told(trouble: yaml.YAMLError) -> str:
    mark = getattr(trouble, "problem_mark", None)
    problem = getattr(trouble, "problem", None) or str(trouble)
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else problem


def load(text: str) -> Any:
    """One YAML value of any type."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as trouble:
        raise YamlError(_told(trouble)) from trouble


class _Dumper(_BaseDumper):  # type: ignore[misc]
    """Block text for what has lines, no anchors, and quotes around what another reader would take for a boolean."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, value: str) -> Any:
    if "\n" in value and not any(line.endswith(" ") for line in value.split("\n")):
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|")
    style = "'" if value in _BOOLS or _NUMBER.match(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump_all(objects: Iterable[Any], sort_keys: bool = False) -> str:
    text: str = yaml.dump_all(
        list(objects), Dumper=_Dumper, sort_keys=sort_keys, default_flow_style=False, width=10_000, allow_unicode=True
    )
    return text


def dump(value: Any, sort_keys: bool = False) -> str:
    return dump_all([value], sort_keys)
