"""What a validator finds, in the plainest form that webhooks answer."""
from typing import NamedTuple


class Problem(NamedTuple):
    path: str
    message: str


class Verdict(NamedTuple):
    errors: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
