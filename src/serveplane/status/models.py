"""`status.modelStatus`: how many copies there are, what state the model is in, and its last failure."""
import datetime
from collections.abc import Sequence

from serveplane.clock import timestamp
from serveplane.objects import Json
from serveplane.render.runtimes import FailureReason
from serveplane.status.blockers import Blocker, Sight, failed_container, is_ready, newest_first
from serveplane.status.downloads import is_loading


def model_status(pods: Sequence[Json], serving: bool, rolling: bool, previous: Json, now: datetime.datetime) -> Json:
    """From the predictor's pods. A model that serves has no failure to tell of any more."""
    failures = [failure for pod in newest_first(pods) if (failure := failed_container(Sight(pod, now)))]
    result: Json = {"copies": {"failedCopies": len(failures)}}
    if total := sum(is_ready(pod) for pod in pods):      # none is not told, as in KServe
        result["copies"]["totalCopies"] = total
    active = "Loaded" if serving else ""
    if serving and not rolling:
        return {"transitionStatus": "UpToDate", "states": _states("Loaded", "Loaded"), **result}
    if failures:
        info = _failure_info(failures[0], previous, now)
        return {"transitionStatus": "BlockedByFailedLoad", "states": _states(active, "FailedToLoad"), "lastFailureInfo": info, **result}
    target = "Loading" if any(is_loading(pod) for pod in pods) else "Pending"
    return {"transitionStatus": "InProgress", "states": _states(active, target), **result}


def invalid(reason: FailureReason, message: str, previous: Json) -> Json:
    """The spec cannot become a workload at all; copies of what it was before go on."""
    active = ((previous.get("states") or {}).get("activeModelState")) or ""
    copies = {"copies": previous["copies"]} if previous.get("copies") else {}
    return {**copies, "transitionStatus": "InvalidSpec", "states": _states(active, "FailedToLoad"),
            "lastFailureInfo": {"reason": reason.value, "message": message}}


def _states(active: str, target: str) -> Json:
    return {"activeModelState": active, "targetModelState": target}


def _failure_info(failure: Blocker, previous: Json, now: datetime.datetime) -> Json:
    """The same failure keeps its time, so that a crash loop does not rewrite the status at every turn."""
    info: Json = {"reason": FailureReason.MODEL_LOAD_FAILED.value, "message": failure.own_words or failure.message,
                  "location": failure.pod}
    if failure.exit_code is not None:
        info["exitCode"] = failure.exit_code
    before = previous.get("lastFailureInfo") or {}
    same = all(before.get(key) == info.get(key) for key in ("reason", "message", "exitCode"))
    return {**info, "location": before.get("location", info["location"]), "time": before["time"]} if same and before.get("time") \
        else {**info, "time": timestamp(now)}
