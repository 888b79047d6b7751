"""What users install with us."""

from importlib import metadata

from packaging.requirements import Requirement

PACKAGE = "serveplane"


def runtime_distributions() -> set[str]:
    """Everything that `pip install serveplane` brings, and what that brings."""
    pending, seen = [PACKAGE], set()
    while pending:
        for text in metadata.requires(pending.pop()) or ():
            wanted = Requirement(text)
            if wanted.name.lower() not in seen and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
                seen.add(wanted.name.lower())
                pending.append(wanted.name)
    return seen
