"""Pods that wait for the volume of a local model are told how the model is doing."""
import datetime
from typing import Any

import pytest

from serveplane.status.deployments import judged
from serveplane.status.localmodels import cache_words, with_cache_words

Json = dict[str, Any]
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def waiting(words: str) -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    return {"metadata": {"name": "iris-1"}, "spec": {"containers": []}, "status": {"phase": "Pending", "conditions": [condition]}}


def copies(**numbers: int) -> Json:
    return {"status": {"copies": numbers}}


@pytest.mark.parametrize(("cache", "words"), [
    (copies(available=0, total=2), "on 0 of 2 nodes"),
    (copies(available=1, total=2, failed=1), "on 1 of 2 nodes, and failed on 1"),
    ({}, "no node to hold the model yet"),
    (None, "is gone"),
])
def test_the_cache_tells_of_itself(cache: Json | None, words: str) -> None:
    judgement = judged([None], [waiting("1 node had volume node affinity conflict")], NOW)
    told = with_cache_words(judgement, "iris-cache", cache)
    assert told.reason == "VolumeClaimPending"
    assert told.message == f"{judgement.message}; {cache_words('iris-cache', cache)}"
    assert words in told.message


def test_nobody_else_hears_of_it() -> None:
    judgement = judged([None], [waiting("no nodes available")], NOW)
    assert with_cache_words(judgement, "", None) is judgement
    fine = judged([None], [], NOW)
    assert with_cache_words(fine, "iris-cache", None) is fine
