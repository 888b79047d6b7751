"""What a plan would change in a live object, leaf by leaf, for people: `serveplane plan --diff`, drift events, tests.

The engine's own check is `objects.equality.says_the_same`; a test holds the two to the same answer.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from serveplane.objects.equality import is_empty, same_but_for_defaults
from serveplane.objects.fieldset import BadList, member_key, readable
from serveplane.objects.schema import Shape

ABSENT: Any = None


class Difference(NamedTuple):
    """One field that is not as desired; `path` in the form of field sets, `str()` for people."""

    path: tuple[str, ...]
    desired: Any
    live: Any

    def __str__(self) -> str:
        return f"{readable(self.path)}: {self.live!r} should be {self.desired!r}"


def differences(desired: Any, live: Any, shape: Shape, at: tuple[str, ...] = ()) -> Iterator[Difference]:
    """Every desired leaf that live does not have, or has otherwise. What live says beyond that is nobody's business here."""
    if isinstance(desired, dict) and not shape.atomic:
        if not isinstance(live, dict):
            if desired or not is_empty(live):
                yield Difference(at, desired, live)
            return
        for name, value in desired.items():
            yield from differences(value, live.get(name), shape.child(name), (*at, f"f:{name}"))
    elif isinstance(desired, list) and isinstance(live, list) and shape.list_kind != "atomic":
        yield from _members(desired, live, shape, at)
    elif not same_but_for_defaults(desired, live, shape):
        yield Difference(at, desired, live)


def _members(desired: list[Any], live: list[Any], shape: Shape, at: tuple[str, ...]) -> Iterator[Difference]:
    try:
        wanted = {member_key(shape, member): member for member in desired}
        there = {member_key(shape, member): member for member in live}
    except BadList:
        yield Difference(at, desired, live)
        return
    for key, member in wanted.items():
        if key not in there:
            yield Difference((*at, key), member, ABSENT)
        else:
            yield from differences(member, there[key], shape.items, (*at, key))
    common = [key for key in there if key in wanted]
    if common != [key for key in wanted if key in there]:
        yield Difference(at, [readable((key,)) for key in wanted], [readable((key,)) for key in common])
