"""Kubernetes quantities: `100m`, `1Gi`, `1e3`, read exactly and written in the canonical form.

Small enough to write by hand: the packages that parse quantities give floats or cannot write them back.
"""

import re
from fractions import Fraction
from functools import lru_cache

BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:(Ki|Mi|Gi|Ti|Pi|Ei)|([numkMGTPE]?)|[eE]([+-]?\d{1,3}))", re.ASCII)
NANO = Fraction(1, 10**9)
LONGEST = 1000   # digits; Python reads no number of more than some thousands


class NotAQuantity(ValueError):
    """Text that the API server would refuse as a quantity."""


@lru_cache(maxsize=4096)
def parse(value: str | int | float) -> Fraction:
    """The number itself.

    >>> parse("1.5Gi") == 1610612736, parse("100m") == Fraction(1, 10), parse("2e3") == 2000
    (True, True, True)
    """
    number, _, _ = _parts(str(value))
    return number


def _parts(text: str) -> tuple[Fraction, str, int | None]:
    """The number, its suffix, and the exponent if it was written with one."""
    match = _FORM.fullmatch(text) if len(text) <= LONGEST else None
    if not match:
        raise NotAQuantity(f"{text[:LONGEST]!r} is not a quantity such as 100m, 2 or 1.5Gi")
    digits, binary, decimal, exponent = match.groups()
    number = Fraction(digits)
    if binary:
        return number * BINARY[binary], binary, None
    if exponent is not None:
        return number * Fraction(10) ** int(exponent), "e", int(exponent)
    return number * Fraction(10) ** DECIMAL[decimal or ""], decimal or "", None


def to_milli(value: str) -> str:
    """A canonical quantity without anything finer than a thousandth: amounts of resources are rounded up to that.

    >>> to_milli("1000500u"), to_milli("1500m"), to_milli("1Gi")
    ('1001m', '1500m', '1Gi')
    """
    if value[-1] not in "nu":
        return value
    return _decimal(Fraction((parse(value) * 1000).__ceil__(), 1000), exponent=False)


def total(one: str | int | float, other: str | int | float) -> str:
    """The sum, written in the style of the first, or of the second where the first is nothing.

    >>> total("512Mi", "1Gi"), total("0", "1Gi"), total("500m", "1500m")
    ('1536Mi', '1Gi', '2')
    """
    first, second = _parts(str(one)), _parts(str(other))
    number, style = first[0] + second[0], (second if first[0] == 0 else first)[1]
    return _written(_rounded_up(number), style)


@lru_cache(maxsize=4096)
def canonical(value: str | int | float) -> str:
    """The form in which the API server stores a quantity.

    >>> canonical("0.5"), canonical("1000m"), canonical("1024Mi"), canonical("1.5Gi"), canonical("1500M")
    ('500m', '1', '1Gi', '1536Mi', '1500M')
    """
    number, suffix, _ = _parts(str(value))
    return _written(_rounded_up(number), suffix)


def _written(number: Fraction, suffix: str) -> str:
    if suffix in BINARY and (abs(number) >= 1024 or number == 0) and number.denominator == 1:
        return _binary(int(number))
    return _decimal(number, exponent=suffix == "e")


def _rounded_up(number: Fraction) -> Fraction:
    """Nothing finer than a billionth is kept; what is cut away counts as one more."""
    nanos = number / NANO
    return number if nanos.denominator == 1 else Fraction(nanos.__ceil__() if number > 0 else nanos.__floor__()) * NANO


def _binary(number: int) -> str:
    if number == 0:
        return "0"
    for suffix, size in reversed(BINARY.items()):
        if number % size == 0:
            return f"{number // size}{suffix}"
    return str(number)


def _decimal(number: Fraction, exponent: bool) -> str:
    if number == 0:
        return "0"
    for suffix, power in reversed(DECIMAL.items()):
        scaled = number / Fraction(10) ** power
        if scaled.denominator == 1:
            return f"{scaled}e{power}" if exponent and power else f"{scaled}{'' if exponent else suffix}"
    return str(number)


def equal(one: str | int | float, other: str | int | float) -> bool:
    """Whether two quantities are the same number, however they are written."""
    try:
        return one == other or parse(one) == parse(other)
    except NotAQuantity:
        return False


def is_quantity(value: object) -> bool:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return False
    return _FORM.fullmatch(str(value)) is not None
