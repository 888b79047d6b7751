"""The ways an InferenceService can run."""

from enum import StrEnum


class Mode(StrEnum):
    STANDARD = "Standard"
    KNATIVE = "Knative"
    MODEL_MESH = "ModelMesh"


FORMER_NAMES = {"RawDeployment": Mode.STANDARD, "Serverless": Mode.KNATIVE}


def parse_mode(text: str | None) -> Mode | None:
    """The mode a user or an older release wrote; None for nothing or for a word that is no mode.

    >>> parse_mode("RawDeployment")
    <Mode.STANDARD: 'Standard'>
    >>> parse_mode("Turbo") is None
    True
    """
    if not text:
        return None
    if text in FORMER_NAMES:
        return FORMER_NAMES[text]
    return Mode(text) if text in set(Mode) else None
