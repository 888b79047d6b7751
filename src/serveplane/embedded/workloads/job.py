"""Jobs: pods that run to their end, as often as wanted, with a limit on failures."""
import datetime
from dataclasses import dataclass
from datetime import timedelta

from serveplane.clock import parse_timestamp
from serveplane.embedded.workloads.cluster import JOB, POD, Cluster
from serveplane.embedded.workloads.pods import is_active, is_ready, phase, pod_from_template
from serveplane.kube.controller import Controller
from serveplane.kube.kind import Key, is_being_deleted
from serveplane.kube.watches import Owned, Primary
from serveplane.objects import Json
from serveplane.objects.conditions import condition

INDEX = "batch.kubernetes.io/job-completion-index"
BACKOFF_FIRST, BACKOFF_LAST = 10.0, 360.0
LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid"), ("job-name", "batch.kubernetes.io/job-name")


@dataclass(frozen=True)
class Step:
    """What to do next with a Job."""
    make: tuple[int | None, ...] = ()     # one entry per pod; its index if the Job is indexed
    delete: tuple[str, ...] = ()          # names of pods
    end: Json | None = None               # the condition that ends the Job
    look_again: float | None = None


def decide(job: Json, pods: list[Json], now: datetime.datetime) -> Step:
    """The next step, from the Job and all pods it ever made."""
    spec = job["spec"]
    active = [pod for pod in pods if is_active(pod)]
    succeeded = [pod for pod in pods if phase(pod) == "Succeeded"]
    failed = [pod for pod in pods if phase(pod) == "Failed"]
    names = tuple(pod["metadata"]["name"] for pod in active)
    problem = _problem(job, failed, pods, now)
    if problem:
        return Step(delete=names, end={"type": "Failed", "status": "True", **problem})
    if spec.get("suspend"):
        return Step(delete=names)
    done = _done(spec, succeeded)
    if _is_complete(spec, done, active, succeeded):
        return Step(delete=names if spec.get("completions") is not None else (),
                    end={"type": "Complete", "status": "True", "reason": "CompletionsReached",
                         "message": "Reached expected number of succeeded pods"})
    wait, deadline = _backoff(failed, now), _deadline_in(job, now)
    if wait > 0:
        return Step(look_again=wait if deadline is None else min(wait, deadline))
    return Step(make=_missing(spec, done, active, bool(succeeded)), look_again=deadline)


def _done(spec: Json, succeeded: list[Json]) -> set[int] | int:
    if spec.get("completionMode") == "Indexed":
        return {index_of(pod) for pod in succeeded}
    return len(succeeded)


def _is_complete(spec: Json, done: set[int] | int, active: list[Json], succeeded: list[Json]) -> bool:
    completions = spec.get("completions")
    if completions is None:   # a work queue: one success, and the rest may finish
        return bool(succeeded) and not active
    return (len(done) if isinstance(done, set) else done) >= int(completions)


def _missing(spec: Json, done: set[int] | int, active: list[Json], any_success: bool) -> tuple[int | None, ...]:
    completions: int | None = spec.get("completions")
    room = max(int(spec.get("parallelism", 1)) - len(active), 0)
    if completions is None:
        return () if any_success else (None,) * room
    if isinstance(done, set):
        busy = {index_of(pod) for pod in active}
        return tuple(index for index in range(completions) if index not in done | busy)[:room]
    return (None,) * min(room, completions - done - len(active))


def _problem(job: Json, failed: list[Json], pods: list[Json], now: datetime.datetime) -> Json | None:
    limit = job["spec"].get("backoffLimit", 6)
    restarts = sum(entry.get("restartCount", 0) for pod in pods if pod["spec"].get("restartPolicy") == "OnFailure"
                   for entry in (pod.get("status") or {}).get("containerStatuses") or ())
    if len(failed) + restarts > limit:
        return {"reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}
    remaining = _deadline_in(job, now)
    if remaining is not None and remaining <= 0:
        return {"reason": "DeadlineExceeded", "message": "Job was active longer than specified deadline"}
    return None


def _deadline_in(job: Json, now: datetime.datetime) -> float | None:
    limit, started = job["spec"].get("activeDeadlineSeconds"), (job.get("status") or {}).get("startTime")
    if not limit or not started:
        return None
    return float(limit - (now - parse_timestamp(started)).total_seconds())


def _backoff(failed: list[Json], now: datetime.datetime) -> float:
    """Seconds to wait after failures: 10, 20, 40 ... since the last one."""
    ends = sorted(_ended(pod) for pod in failed)
    if not ends:
        return 0.0
    pause: float = min(BACKOFF_FIRST * 2 ** (len(ends) - 1), BACKOFF_LAST)
    return pause - (now - ends[-1]).total_seconds()


def _ended(pod: Json) -> datetime.datetime:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    times = [entry["state"]["terminated"]["finishedAt"] for entry in statuses
             if (entry.get("state") or {}).get("terminated", {}).get("finishedAt")]
    return parse_timestamp(max(times, default=pod["metadata"]["creationTimestamp"]))


def index_of(pod: Json) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(INDEX, "-1"))


def job_status(job: Json, pods: list[Json], end: Json | None, now: str) -> Json:
    before = job.get("status") or {}
    active = [pod for pod in pods if is_active(pod)]
    counts = {"active": len(active), "ready": sum(map(is_ready, active)),
              "succeeded": sum(phase(pod) == "Succeeded" for pod in pods),
              "failed": sum(phase(pod) == "Failed" for pod in pods)}
    if end:
        counts["active"] = counts["ready"] = 0
    status: Json = {"startTime": before.get("startTime") or now, "ready": counts.pop("ready")}
    status |= {name: count for name, count in counts.items() if count}
    if job["spec"].get("suspend"):
        status.pop("startTime")
    if end and end["type"] == "Complete":
        status["completionTime"] = now
    conditions = list(before.get("conditions") or ())
    if end and not condition(conditions, end["type"]):
        conditions.append({**end, "lastProbeTime": now, "lastTransitionTime": now})
    return status | ({"conditions": conditions} if conditions else {})


def ended_at(job: Json) -> datetime.datetime | None:
    for kind in ("Complete", "Failed"):
        entry = condition((job.get("status") or {}).get("conditions"), kind)
        if entry and entry.get("status") == "True":
            return parse_timestamp(entry["lastTransitionTime"])
    return None


def new_pod(job: Json, index: int | None, letters: str) -> Json:
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    labels = {label: value for group, value in zip(LABELS, (uid, name), strict=True) for label in group}
    pod = pod_from_template(job["spec"]["template"], job, labels=labels)
    if index is None:
        return pod
    pod["metadata"] |= {"annotations": {**(pod["metadata"].get("annotations") or {}), INDEX: str(index)},
                        "labels": {**pod["metadata"]["labels"], INDEX: str(index)}}
    pod["metadata"].pop("generateName")
    pod["metadata"]["name"] = f"{name}-{index}-{letters}"
    variable = {"name": "JOB_COMPLETION_INDEX", "value": str(index)}
    for container in pod["spec"].get("containers") or ():
        container["env"] = [*(container.get("env") or ()), variable]
    return pod


class Jobs:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def controller(self) -> Controller:
        return Controller("job", self.reconcile, [Primary(JOB), Owned(POD)], workers=4, clock=self._cluster.clock)

    async def reconcile(self, key: Key) -> timedelta | None:
        job = self._cluster.informer(JOB).get(*key)
        if job is None or is_being_deleted(job):
            return None
        if ended_at(job):
            return await self._expire(job)
        pods = self._cluster.owned(POD, job)
        step = decide(job, pods, self._cluster.clock.now())
        for index in step.make:
            await self._cluster.create(new_pod(job, index, self._cluster.clock.letters(5)))
        for name in step.delete:
            await self._cluster.delete(next(pod for pod in pods if pod["metadata"]["name"] == name))
        if step.end:
            self._cluster.record(job, "Normal" if step.end["type"] == "Complete" else "Warning", step.end["reason"],
                                 step.end["message"])
        await self._cluster.write_status(job, job_status(job, self._cluster.owned(POD, job), step.end,
                                                         self._cluster.now))
        return timedelta(seconds=max(step.look_again, 0.1)) if step.look_again is not None else None

    async def _expire(self, job: Json) -> timedelta | None:
        """A finished Job goes when its time to live is over."""
        seconds, ended = job["spec"].get("ttlSecondsAfterFinished"), ended_at(job)
        if seconds is None or ended is None:
            return None
        left = seconds - (self._cluster.clock.now() - ended).total_seconds()
        if left > 0:
            return timedelta(seconds=left)
        await self._cluster.delete(job)
        return None
