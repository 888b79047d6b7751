"""Where a value stands in an object, and what is wrong with it there.

Wrong input is data: a check yields every problem it finds, and only the edge (a webhook, a command) turns them into an answer.
"""

from typing import NamedTuple


class FieldPath(str):
    """A path as users read it: `spec.predictor.containers[0].env`.

    >>> FieldPath("spec") / "predictor" / "containers" / 0 / "name"
    'spec.predictor.containers[0].name'
    >>> FieldPath("metadata.annotations") / "serving.kserve.io/stop"
    'metadata.annotations[serving.kserve.io/stop]'
    """

    __slots__ = ()

    def __truediv__(self, step: str | int) -> "FieldPath":
        if isinstance(step, int) or not step.replace("-", "").replace("_", "").replace("$", "").isalnum():
            return FieldPath(f"{self}[{step}]")
        return FieldPath(f"{self}.{step}" if self else step)


SPEC = FieldPath("spec")
METADATA = FieldPath("metadata")
ANNOTATIONS = FieldPath("metadata.annotations")


class FieldError(NamedTuple):
    """One problem: where it is, and what would be right there."""

    path: FieldPath
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message
