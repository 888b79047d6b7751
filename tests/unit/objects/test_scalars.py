"""Quantities and selectors."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serveplane.objects import quantity, selectors


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("0.1", "100m"), ("1000m", "1"), ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("1500M", "1500M"), ("1e3", "1e3"), ("1E", "1E"),
        ("0", "0"), ("0.5Ki", "512"), ("100Ki", "100Ki"), ("1.0", "1"), ("-1500m", "-1500m"), ("12e6", "12e6"), ("1024", "1024"),
        ("0.0000000001", "1n"), ("500e-3", "500e-3"), ("2000k", "2M"),
    ],
)  # fmt: skip
def test_canonical_form(text: str, stored: str) -> None:
    assert quantity.canonical(text) == stored


@pytest.mark.parametrize("text", ["", "1 Gi", "1gi", "abc", "1.2.3", "Gi", "1e", "--1", "1Kib", "٣", "9" * 5000])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(quantity.NotAQuantity):
        quantity.parse(text)


@given(st.integers(-(10**12), 10**12), st.sampled_from([*quantity.BINARY, *quantity.DECIMAL]))
def test_canonical_form_is_the_same_number(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    assert quantity.parse(quantity.canonical(text)) == quantity.parse(text)
    assert quantity.canonical(quantity.canonical(text)) == quantity.canonical(text)


def test_exact() -> None:
    assert quantity.parse("0.1") == Fraction(1, 10)
    assert quantity.equal("1024Mi", "1Gi")
    assert not quantity.equal("1G", "1Gi")


LABELS = {"app": "iris", "tier": "a", "n": "5"}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True), ("app=iris", True), ("app==iris,tier!=b", True), ("tier in (a,b)", True), ("tier notin (a)", False), ("app", True),
        ("!app", False), ("!other", True), ("other!=x", True), ("other notin (x)", True), ("n>4", True), ("n<4", False),
        ("app in (iris),!x,tier", True), ("app=", False),
    ],
)  # fmt: skip
def test_label_selectors(selector: str, matches: bool) -> None:
    assert selectors.parse_labels(selector).matches(LABELS) is matches


@pytest.mark.parametrize("selector", ["a b", "a in b", "=x", "a in (x y)", "a,,b", "-a=b"])
def test_bad_selectors(selector: str) -> None:
    with pytest.raises(selectors.BadSelector):
        selectors.parse_labels(selector)


def test_selector_objects() -> None:
    chosen = {"matchLabels": {"app": "iris"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a"]}]}
    assert selectors.from_selector(chosen).matches(LABELS)
    assert selectors.from_selector({}).matches({})
    assert not selectors.from_selector(None).matches(LABELS)


def test_field_selectors() -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    assert selectors.parse_fields("spec.nodeName=n,status.phase!=Failed").matches(pod)
    assert selectors.parse_fields("spec.nodeName=").matches({"spec": {}})
    assert not selectors.parse_fields("metadata.name=b").matches(pod)
