"""What the local copy of a model says of itself, for services whose pods wait for it."""
from serveplane.objects import Json
from serveplane.status.deployments import Judgement, replaced

VOLUME_REASONS = frozenset(("VolumeClaimPending", "Unschedulable"))


def with_cache_words(judgement: Judgement, name: str, cache: Json | None) -> Judgement:
    """The judgement on a predictor that mounts a local model; pods that find no volume are told what became of the model."""
    blocker = judgement.blocker
    if not name or blocker is None or blocker.reason not in VOLUME_REASONS:
        return judgement
    return replaced(judgement, f"{blocker.message}; {cache_words(name, cache)}")


def cache_words(name: str, cache: Json | None) -> str:
    """
    >>> cache_words("iris", {"status": {"copies": {"available": 1, "total": 3, "failed": 1}}})
    'the local model cache iris holds the model on 1 of 3 nodes, and failed on 1'
    """
    if cache is None:
        return f"the local model cache {name} is gone; after an edit of the service its pods download the model themselves"
    copies = (cache.get("status") or {}).get("copies") or {}
    available, total, failed = (int(copies.get(key) or 0) for key in ("available", "total", "failed"))
    if not total:
        return f"the local model cache {name} has no node to hold the model yet"
    words = f"the local model cache {name} holds the model on {available} of {total} nodes"
    return f"{words}, and failed on {failed}" if failed else words
