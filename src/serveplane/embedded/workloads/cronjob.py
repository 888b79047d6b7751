"""CronJobs: a Job at every moment of a schedule."""
import contextlib
import datetime
import itertools
from dataclasses import dataclass, replace
from datetime import timedelta

from serveplane.clock import parse_timestamp, timestamp
from serveplane.embedded.workloads.cluster import CRON_JOB, JOB, Cluster
from serveplane.embedded.workloads.cron import BadSchedule, Schedule, parse
from serveplane.embedded.workloads.job import ended_at
from serveplane.kube.controller import Controller
from serveplane.kube.errors import AlreadyExists
from serveplane.kube.kind import Key, controller_reference, is_being_deleted
from serveplane.kube.watches import Owned, Primary
from serveplane.objects import Json
from serveplane.objects.conditions import is_true

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MANY_MISSED = 100   # more than these are not counted one by one; only the latest is made up for


@dataclass(frozen=True)
class Step:
    """What to do now, and when to look again."""
    make: datetime.datetime | None = None
    delete: tuple[str, ...] = ()          # names of Jobs: replaced ones, and old history
    look_again: float | None = None
    told: tuple[str, str] | None = None   # reason and message of a warning


def decide(cron_job: Json, jobs: list[Json], now: datetime.datetime) -> Step:
    spec = cron_job["spec"]
    old = history(spec, jobs)
    try:
        schedule = parse(spec["schedule"], spec.get("timeZone") or "")
    except BadSchedule as problem:
        return Step(delete=old, told=("UnparseableSchedule", f"unparseable schedule: {problem}"))
    if spec.get("suspend"):
        return Step(delete=old)
    following = next(schedule.after(now), None)
    wait = None if following is None else (following - now).total_seconds()
    due = _due(schedule, cron_job, now)
    if due is None:
        return Step(delete=old, look_again=wait)
    return replace(_run(cron_job, jobs, due, old), look_again=wait)


def _run(cron_job: Json, jobs: list[Json], due: datetime.datetime, old: tuple[str, ...]) -> Step:
    active = tuple(job["metadata"]["name"] for job in jobs if ended_at(job) is None)
    policy = cron_job["spec"].get("concurrencyPolicy", "Allow")
    if job_name(cron_job, due) in {job["metadata"]["name"] for job in jobs}:   # made, but not yet in the status
        return Step(delete=old)
    if active and policy == "Forbid":
        return Step(delete=old, told=("JobAlreadyActive", "the job before still runs, and the concurrency policy is Forbid"))
    return Step(make=due, delete=(*old, *(active if policy == "Replace" else ())))


def _due(schedule: Schedule, cron_job: Json, now: datetime.datetime) -> datetime.datetime | None:
    """The latest moment that has come and was not run for yet."""
    last = (cron_job.get("status") or {}).get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"]
    since, deadline = parse_timestamp(last), cron_job["spec"].get("startingDeadlineSeconds")
    if deadline is not None:
        since = max(since, now - timedelta(seconds=deadline))
    missed = list(itertools.islice(itertools.takewhile(lambda time: time <= now, schedule.after(since)), MANY_MISSED))
    if len(missed) < MANY_MISSED:
        return missed[-1] if missed else None
    recent = max(since, now - timedelta(days=1))
    found = list(itertools.takewhile(lambda time: time <= now, schedule.after(recent)))
    return found[-1] if found else missed[-1]


def history(spec: Json, jobs: list[Json]) -> tuple[str, ...]:
    """Ended Jobs beyond those that are kept, the oldest first."""
    found: list[str] = []
    for kind, limit in (("Complete", spec.get("successfulJobsHistoryLimit", 3)), ("Failed", spec.get("failedJobsHistoryLimit", 1))):
        ended = sorted((job for job in jobs if is_true((job.get("status") or {}).get("conditions"), kind)),
                       key=lambda job: str((job.get("status") or {}).get("startTime") or ""))
        found += [job["metadata"]["name"] for job in ended[:max(len(ended) - limit, 0)]]
    return tuple(found)


def job_name(cron_job: Json, due: datetime.datetime) -> str:
    """The same moment gives the same name, so that no moment is run for twice."""
    return f"{cron_job['metadata']['name']}-{int(due.timestamp()) // 60}"


def new_job(cron_job: Json, due: datetime.datetime) -> Json:
    template = cron_job["spec"]["jobTemplate"]
    metadata = template.get("metadata") or {}
    own = {"name": job_name(cron_job, due), "namespace": cron_job["metadata"]["namespace"], "labels": metadata.get("labels") or {},
           "annotations": {**(metadata.get("annotations") or {}), SCHEDULED: timestamp(due)},
           "ownerReferences": [controller_reference(cron_job)]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": own, "spec": template["spec"]}


def cron_job_status(cron_job: Json, jobs: list[Json], made: datetime.datetime | None) -> Json:
    before = cron_job.get("status") or {}
    active = [{"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "namespace": job["metadata"]["namespace"],
               "uid": job["metadata"]["uid"], "resourceVersion": job["metadata"]["resourceVersion"]}
              for job in jobs if ended_at(job) is None and not is_being_deleted(job)]
    successes = [str(job["status"]["completionTime"]) for job in jobs if (job.get("status") or {}).get("completionTime")]
    last = max([*successes, before.get("lastSuccessfulTime") or ""])
    status: Json = {"active": active, "lastSuccessfulTime": last,
                    "lastScheduleTime": timestamp(made) if made else before.get("lastScheduleTime")}
    return {name: value for name, value in status.items() if value}


class CronJobs:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def controller(self) -> Controller:
        return Controller("cronjob", self.reconcile, [Primary(CRON_JOB), Owned(JOB)], workers=1, clock=self._cluster.clock)

    async def reconcile(self, key: Key) -> timedelta | None:
        cron_job = self._cluster.informer(CRON_JOB).get(*key)
        if cron_job is None or is_being_deleted(cron_job):
            return None
        jobs = self._cluster.owned(JOB, cron_job)
        step = decide(cron_job, jobs, self._cluster.clock.now())
        if step.told:
            self._cluster.record(cron_job, "Warning", *step.told)
        for job in jobs:
            if job["metadata"]["name"] in step.delete:
                await self._cluster.delete(job)
        if step.make:
            with contextlib.suppress(AlreadyExists):
                made = await self._cluster.create(new_job(cron_job, step.make))
                self._cluster.record(cron_job, "Normal", "SuccessfulCreate", f"Created job {made['metadata']['name']}")
        await self._cluster.write_status(cron_job, cron_job_status(cron_job, self._cluster.owned(JOB, cron_job), step.make))
        return None if step.look_again is None else timedelta(seconds=max(step.look_again, 0.0) + 0.01)
