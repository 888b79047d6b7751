"""What an answer warns of, as the fields of its head: each text once, none that a field cannot hold, no more than a client will read."""

import re
from collections.abc import Iterable

ALTOGETHER, EACH = 4096, 256
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def fields(warnings: Iterable[str]) -> list[str]:
    r"""The values of the Warning fields.

    >>> fields(['unknown field "x"', 'unknown field "x"', "two\nlines", ""])
    ['299 - "unknown field \\"x\\""']
    >>> [len(field) for field in fields("abcdefghijklmnopqrst"[n] * 300 for n in range(20))] == [len('299 - ""') + EACH] * 16
    True
    """
    return [f'299 - "{_quoted(text)}"' for text in _fitting(warnings)]


def _fitting(warnings: Iterable[str]) -> Iterable[str]:
    """All of them; where that is too much, the beginning of each, for as long as there is room."""
    texts = [text for text in dict.fromkeys(warnings) if text and not _CONTROL.search(text)]
    if sum(map(len, texts)) <= ALTOGETHER:
        yield from texts
        return
    written = 0
    for text in texts:
        if written >= ALTOGETHER:
            return
        yield text[:EACH]
        written += len(text[:EACH])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def on_the_wire(field: str) -> str:
    """In UTF-8, whose bytes a header takes for Latin-1."""
    return field.encode().decode("latin-1")
