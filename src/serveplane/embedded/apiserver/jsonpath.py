"""The part of JSONPath that printer columns use: fields, indexes, wildcards and filters by equality."""

import re
from functools import lru_cache
from typing import Any

import msgspec

_STEP = re.compile(
    r"""\.((?:\\.|[^.\[\\])+)            # .field, with \. for a dot in its name
      |\[['"]((?:\\.|[^'"\\])*)['"]\]    # ['field']
      |\[(-?\d+|\*)\]                    # [0] or [*]
      |\[\?\(@\.((?:\\.|[^=!<>\s\\])+)\s*(==|!=)\s*(?:'([^']*)'|"([^"]*)"|([^)\s]+))\s*\)\]   # [?(@.type=="Ready")]
    """,
    re.X,
)
Step = tuple[str, Any]


@lru_cache(maxsize=2048)
def steps(path: str) -> tuple[Step, ...]:
    """
    >>> steps(".status.conditions[?(@.type=='Ready')].status")[2]
    ('filter', (('type',), '==', 'Ready'))
    """
    path = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    found: list[Step] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if not match:
            return ()
        position = match.end()
        if match[1] is not None or match[2] is not None:
            found.append(("field", _unescaped(match[1] if match[1] is not None else match[2])))
        elif match[3] is not None:
            found.append(("index", match[3]))
        else:
            value = next(part for part in (match[6], match[7], match[8]) if part is not None)
            found.append(("filter", (tuple(_unescaped(match[4]).split(".")), match[5], value)))
    return tuple(found)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def values(value: Any, path: str) -> list[Any]:
    """Everything the path leads to."""
    found = [value]
    for kind, detail in steps(path):
        found = [inner for one in found for inner in _next(one, kind, detail)]
    return found


def _next(value: Any, kind: str, detail: Any) -> list[Any]:
    if kind == "field":
        if detail == "*":
            return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        return [value[detail]] if isinstance(value, dict) and detail in value else []
    if not isinstance(value, list):
        return list(value.values()) if kind == "index" and detail == "*" and isinstance(value, dict) else []
    if kind == "index":
        return value if detail == "*" else value[int(detail) :][:1]
    names, operator, wanted = detail
    return [item for item in value if (_text(_inner(item, names)) == wanted) == (operator == "==")]


def _inner(value: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()


def text(value: Any) -> str:
    """A value that is no text, as a column of text shows it."""
    return _text(value)
