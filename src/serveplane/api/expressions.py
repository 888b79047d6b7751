"""Regular expressions that users write, searched without letting one of them stop a webhook.

Python's engine tries every way to split a text among repeats that stand in each other, which takes for ever for some
texts; KServe's engine cannot do that. So an expression with such repeats is taken for one that matches nothing, as a
broken one is.
"""

import re
from functools import lru_cache
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

LONGEST = 2048
"""Characters of a text that are looked at: time may grow with their square."""
REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)
MANY = 16


def matches(expression: str, text: str) -> bool:
    """Whether the expression is found anywhere in the text.

    >>> matches("https?://(.+)/(.+)", "https://acme.test/model"), matches("(a+)+$", "a" * 100), matches("(", "x")
    (True, False, False)
    """
    compiled = tame(expression)
    return compiled is not None and compiled.search(text[:LONGEST]) is not None


@lru_cache(maxsize=256)
def tame(expression: str) -> re.Pattern[str] | None:
    """The compiled expression; None if it is broken, or if searching it may never end."""
    try:
        return None if _is_nested(_parser.parse(expression)) else re.compile(expression)
    except (re.error, OverflowError, RecursionError):
        return None


def _is_nested(pattern: Any, inside: bool = False) -> bool:
    """Whether a repeat without a small limit holds something that can match the same text in several ways."""
    for operator, argument in pattern:
        if operator in REPEATS:
            least, most, body = argument
            if (inside and least != most) or _is_nested(body, inside or most > MANY):
                return True
        elif (inside and operator is _constants.BRANCH) or any(_is_nested(part, inside) for part in _parts(argument)):
            return True
    return False


def _parts(argument: Any) -> list[Any]:
    """The patterns within an element: of a group, an alternative, a look-around."""
    if isinstance(argument, _parser.SubPattern):
        return [argument]
    if isinstance(argument, tuple | list):
        return [found for item in argument for found in _parts(item)]
    return []
