"""Header fields: a case-insensitive multi-dict that keeps order and case, and that no value can break out of.

Names and values are kept as the bytes of the wire. What came from a parser was checked there; what comes from our own
code is checked here, once, so a CR or LF in a value is a ValueError at its origin and never a second header.
"""
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

RawHeader = tuple[bytes, bytes]
HeaderItems = "Iterable[tuple[str, str]] | Mapping[str, str] | Headers"

TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_NAME = re.compile(TOKEN + rb"+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")


def encoded(name: str, value: str) -> RawHeader:
    """One field as bytes, or ValueError if it would not stay one field.

    >>> encoded("Location", "/x\\r\\nSet-Cookie: a=b")
    Traceback (most recent call last):
    ValueError: header 'Location' has a value that cannot be sent
    """
    try:
        raw = name.encode("ascii"), value.strip(" \t").encode("latin-1")
    except UnicodeEncodeError:
        raise ValueError(f"header {name!r} has a value that cannot be sent") from None
    if not _NAME.fullmatch(raw[0]):
        raise ValueError(f"{name!r} is not a header name")
    if not _VALUE.fullmatch(raw[1]):
        raise ValueError(f"header {name!r} has a value that cannot be sent")
    return raw


_remembered = lru_cache(maxsize=4096)(encoded)
REMEMBERED_LENGTH = 128   # longer values are worked out each time: some repeat what a peer sent, who must not fill our memory


class Headers:
    """The fields of one message, in order.

    >>> headers = Headers([("Accept", "a"), ("accept", "b")])
    >>> headers.get("ACCEPT"), headers.get_all("accept"), "host" in headers
    ('a', ['a', 'b'], False)
    """

    __slots__ = ("_index", "block", "raw")

    def __init__(self, items: "Iterable[tuple[str, str]] | Mapping[str, str] | Headers" = ()) -> None:
        self._index: dict[bytes, bytes] | None = None
        self.block: bytes | None = None
        """The fields as bytes of the wire, for who passes them on unchanged; None if they are not at hand."""
        self.raw: list[RawHeader]
        if isinstance(items, Headers):
            self.raw = list(items.raw)
        else:
            pairs = items.items() if isinstance(items, Mapping) else items
            self.raw = [(_remembered if len(value) <= REMEMBERED_LENGTH else encoded)(name, value) for name, value in pairs]

    @classmethod
    def parsed(cls, raw: list[RawHeader], index: dict[bytes, bytes] | None = None, block: bytes | None = None) -> "Headers":
        """Fields that a parser has already judged; `index` maps lower-case names to their first value."""
        self = cls.__new__(cls)
        self.raw = raw
        self.block = block
        self._index = index
        return self

    @classmethod
    def fixed(cls, items: "Iterable[tuple[str, str]]") -> "Headers":
        """Fields that many answers share, written for the wire once. Not to be changed afterwards."""
        self = cls(items)
        self.block = b"".join(b"%b: %b\r\n" % field for field in self.raw)
        return self

    @property
    def index(self) -> dict[bytes, bytes]:
        """Lower-case name to first value, made when first asked for."""
        index = self._index
        if index is None:
            index = self._index = {}
            for name, value in self.raw:
                index.setdefault(name.lower(), value)
        return index

    def get(self, name: str, default: str | None = None) -> str | None:
        value = self.index.get(name.lower().encode("latin-1"))
        return default if value is None else value.decode("latin-1")

    def get_all(self, name: str) -> list[str]:
        wanted = name.lower().encode("latin-1")
        return [value.decode("latin-1") for key, value in self.raw if key.lower() == wanted]

    def tokens(self, name: str) -> list[str]:
        """A comma-separated list field over all its lines, lower-case."""
        parts = ",".join(self.get_all(name)).split(",")
        return [part.strip().lower() for part in parts if part.strip()]

    def items(self) -> list[tuple[str, str]]:
        return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self.raw]

    def set(self, name: str, value: str) -> None:
        """Replace every field of that name by this one."""
        self.remove(name)
        self.add(name, value)

    def add(self, name: str, value: str) -> None:
        field = (_remembered if len(value) <= REMEMBERED_LENGTH else encoded)(name, value)
        self.raw = [*self.raw, field]   # never in place: equal heads share what was read from them
        self._index = self.block = None

    def remove(self, name: str) -> None:
        unwanted = name.lower().encode("latin-1")
        self.raw = [field for field in self.raw if field[0].lower() != unwanted]
        self._index = self.block = None

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower().encode("latin-1") in self.index

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.items())

    def __len__(self) -> int:
        return len(self.raw)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self._folded() == other._folded()

    def __repr__(self) -> str:
        # Credentials pass through here; a repr ends up in logs.
        return f"Headers({[name.decode('latin-1') for name, _ in self.raw]})"

    def _folded(self) -> list[RawHeader]:
        return [(name.lower(), value) for name, value in self.raw]
