"""Whether a workload serves, judged by its Deployments and, where they are silent, by its pods."""
import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace

from serveplane.objects import Json
from serveplane.objects.conditions import condition
from serveplane.status.blockers import Blocker, first_blocker

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
NOT_AVAILABLE = ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")


@dataclass(frozen=True)
class Judgement:
    """The word on one workload."""
    status: str
    reason: str = ""
    message: str = ""
    rolling: str = ""
    """What is still to be replaced; empty once the wanted generation is all there is."""
    blocker: Blocker | None = None

    @property
    def serves(self) -> bool:
        return self.status == TRUE


def judged(deployments: Sequence[Json | None], pods: Sequence[Json], now: datetime.datetime) -> Judgement:
    """A workload serves when all its Deployments do; of several, the first that does not speaks."""
    verdicts = [_one(deployment) for deployment in deployments]
    worst = next((verdict for verdict in verdicts if verdict.status != TRUE), None)
    rolling = "; ".join(verdict.rolling for verdict in verdicts if verdict.rolling)
    blocker = (_quota(deployments) or first_blocker(pods, now)) if worst or rolling else None
    if worst is None:
        return Judgement(TRUE, verdicts[0].reason, verdicts[0].message, rolling, blocker)
    if blocker is not None:
        return Judgement(FALSE, blocker.reason, blocker.message, rolling, blocker)
    return Judgement(worst.status, worst.reason, worst.message, rolling)


def replaced(judgement: Judgement, message: str) -> Judgement:
    """The same judgement, with more to say of what blocks it."""
    assert judgement.blocker is not None
    blocker = replace(judgement.blocker, message=message)
    is_told = judgement.message == judgement.blocker.message
    return replace(judgement, blocker=blocker, message=message if is_told else judgement.message)


def available_replicas(deployment: Json | None) -> int:
    return int(((deployment or {}).get("status") or {}).get("availableReplicas") or 0)


def _one(deployment: Json | None) -> Judgement:
    """By the Deployment's own conditions; later ones outweigh earlier ones."""
    if deployment is None:
        return Judgement(FALSE, *NOT_AVAILABLE)
    status = deployment.get("status") or {}
    available, progressing = (condition(status.get("conditions"), kind) for kind in ("Available", "Progressing"))
    verdict = Judgement(FALSE, *NOT_AVAILABLE)
    if _says(available, TRUE):
        verdict = _told(TRUE, available)
    if _says(progressing, FALSE) and (progressing or {}).get("message") and not _says(available, TRUE):
        verdict = _told(FALSE, progressing)
    if _says(progressing, TRUE) and (progressing or {}).get("reason") == "NewReplicaSetAvailable":
        verdict = _told(TRUE, progressing)
    if _says(available, FALSE):
        verdict = verdict if _says(progressing, FALSE) else _told(FALSE, available)
    return Judgement(verdict.status, verdict.reason, verdict.message, _rolling(deployment, status))


def _rolling(deployment: Json, status: Json) -> str:
    metadata, wanted = deployment["metadata"], (deployment.get("spec") or {}).get("replicas")
    wanted = 1 if wanted is None else wanted
    updated = status.get("updatedReplicas") or 0
    if (metadata.get("generation") or 0) > (status.get("observedGeneration") or 0):
        return f"Deployment {metadata['name']} is about to be rolled out"
    if updated < wanted or (status.get("replicas") or 0) > updated:
        return f"Deployment {metadata['name']}: {updated} of {wanted} replicas are of the new version"
    return ""


def _quota(deployments: Sequence[Json | None]) -> Blocker | None:
    """Pods that could not even be created: the API server's own words."""
    for deployment in deployments:
        found = condition(((deployment or {}).get("status") or {}).get("conditions"), "ReplicaFailure")
        if deployment is not None and _says(found, TRUE):
            words = (found or {}).get("message") or "no reason is given"
            reason = "QuotaExceeded" if "exceeded quota" in words else (found or {}).get("reason") or "PodsNotCreated"
            return Blocker(reason, f"Deployment {deployment['metadata']['name']} cannot create pods: {words}")
    return None


def _says(found: Json | None, status: str) -> bool:
    return found is not None and found.get("status") == status


def _told(status: str, found: Json | None) -> Judgement:
    return Judgement(status, (found or {}).get("reason") or "", (found or {}).get("message") or "")
