"""How values are made up: mostly right, at times odd."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Json = dict[str, Any]
Values = SearchStrategy[Any]


def some(required: dict[str, Values] | None = None, **optional: Values) -> SearchStrategy[Json]:
    """An object with these members, and any of those."""
    return st.fixed_dictionaries(required or {}, optional=optional)


def one(*values: Any) -> Values:
    return st.sampled_from(values)


def rarely(usual: Values, odd: Values) -> Values:
    """One in eight is odd."""
    return st.integers(0, 7).flatmap(lambda number: odd if number == 7 else usual)


def members(key: str, names: tuple[str, ...], least: int = 0, **fields: Values) -> Values:
    """A list of objects told apart by a key."""
    return st.lists(
        some({key: st.sampled_from(names)}, **fields), min_size=least, max_size=3, unique_by=lambda item: item[key]
    )


KEYS = ("k", "l", "m")
texts = one("", "0", "1", "two words")
labels = st.dictionaries(one(*KEYS), one("x", "y", ""), max_size=3)
odd_labels = rarely(labels, one({"bad key!": "x"}, {"k": "not valid!"}, {"k": "v" * 64}, {"k": None}))
counts = one(0, 1, 2, 5)
odd_counts = rarely(counts, one(-1, "x", 1.5, None, 2**40))
small_amounts = some(cpu=one("100m", "0.5", 1, "2"), memory=one("1Gi", "1024Mi", "128974848", "1e3"))
amounts = rarely(small_amounts, one({"cpu": "-1"}, {"cpu": "x"}, {"memory": {}}, {"example.com/gpu": "1.5"}))
selector_terms = some(
    matchLabels=labels,
    matchExpressions=st.lists(
        some(
            {"key": one(*KEYS), "operator": rarely(one("In", "NotIn"), one("Exists", "Like"))},
            values=st.lists(one("x", "y"), max_size=2),
        ),
        max_size=2,
    ),
)
