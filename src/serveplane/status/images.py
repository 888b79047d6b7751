"""Whether this Kubernetes can mount model images as volumes, for services whose administrator chose that way."""
import re

from serveplane.objects import Json

CONDITION = "OciImageVolumeCompatible"
_STEPS = (
    ((1, 31), "ImageVolumeUnsupported", "has no image volumes; they came with 1.31"),
    ((1, 33), "ImageVolumeSubPathUnsupported", "cannot mount a folder inside an image volume; that came with 1.33"),
    ((1, 35), "ImageVolumeAlpha", "has image volumes only where the feature gate ImageVolume is switched on"),
)


def parsed_version(answer: Json) -> tuple[int, int] | None:
    """
    >>> parsed_version({"major": "1", "minor": "34+"})
    (1, 34)
    """
    found = [re.match(r"\d+", str(answer.get(field) or "")) for field in ("major", "minor")]
    return (int(found[0][0]), int(found[1][0])) if found[0] and found[1] else None


def image_volume_trouble(version: tuple[int, int] | None) -> tuple[str, str] | None:
    """Reason and message, or nothing where all is well or nothing is known."""
    if version is None:
        return None
    for below, reason, words in _STEPS:
        if version < below:
            return reason, f"Kubernetes {version[0]}.{version[1]} {words}"
    return None
