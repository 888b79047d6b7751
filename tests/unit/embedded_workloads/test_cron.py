"""When a CronJob runs, and what it does then."""
import datetime

import pytest

from serveplane.embedded.workloads import cronjob
from serveplane.embedded.workloads.cron import BadSchedule, parse
from serveplane.objects import Json

UTC = datetime.UTC
NOW = datetime.datetime(2026, 3, 14, 12, 0, 30, tzinfo=UTC)   # a Saturday


def following(text: str, zone: str = "", after: datetime.datetime = NOW) -> str:
    return next(parse(text, zone).after(after)).strftime("%m-%d %H:%M")


@pytest.mark.parametrize(("text", "when"), [
    ("* * * * *", "03-14 12:01"), ("*/5 * * * *", "03-14 12:05"), ("30 3 * * *", "03-15 03:30"), ("0 0 1 * *", "04-01 00:00"),
    ("0 9 * * mon-fri", "03-16 09:00"), ("0 9 * * 0", "03-15 09:00"), ("15,45 10-11 20 MAR *", "03-20 10:15"),
    ("0 0 20 * 1", "03-16 00:00"), ("@daily", "03-15 00:00"), ("@hourly", "03-14 13:00"), ("50/3 * * * *", "03-14 12:50"),
    ("0 0 29 2 *", "02-29 00:00"), ("0 0 */10 * 4", "03-19 00:00"), ("0 0 */1 * 4", "03-19 00:00"), ("0 0 */3 * 4", "03-16 00:00")])
def test_the_next_moment(text: str, when: str) -> None:
    assert following(text) == when


def test_time_zones() -> None:
    assert following("0 9 * * *", "Europe/Berlin") == "03-15 08:00"
    skipped = datetime.datetime(2026, 3, 28, 12, tzinfo=UTC)   # the clocks go from 2 to 3 on the 29th
    assert following("30 2 * * *", "Europe/Berlin", skipped) == "03-30 00:30"


@pytest.mark.parametrize("text", ["", "* * * *", "61 * * * *", "* 5-2 * * *", "*/0 * * * *", "x * * * *", "* * * * fun", "* * * * 7",
                                  "@every 1h"])
def test_what_is_no_schedule(text: str) -> None:
    with pytest.raises(BadSchedule):
        parse(text)
    with pytest.raises(BadSchedule):
        parse("* * * * *", "Nowhere/Land")


def cron_job(last: str = "2026-03-14T11:59:00Z", **spec: object) -> Json:
    return {"apiVersion": "batch/v1", "kind": "CronJob",
            "metadata": {"name": "c", "namespace": "d", "uid": "u", "creationTimestamp": "2026-03-14T11:00:00Z"},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {}}}, **spec},
            "status": {"lastScheduleTime": last} if last else {}}


def job(name: str, condition: str = "", start: str = "2026-03-14T11:59:00Z") -> Json:
    entry = {"type": condition, "status": "True", "lastTransitionTime": start}
    done = {"completionTime": start} if condition == "Complete" else {}
    return {"metadata": {"name": name, "namespace": "d", "uid": name, "resourceVersion": "1"},
            "status": {"startTime": start, **({"conditions": [entry]} if condition else {}), **done}}


def test_a_job_when_its_moment_has_come() -> None:
    step = cronjob.decide(cron_job(), [], NOW)
    assert step.make == datetime.datetime(2026, 3, 14, 12, tzinfo=UTC)
    assert step.look_again == 30
    made = cronjob.new_job(cron_job(), step.make)
    assert made["metadata"]["name"] == f"c-{int(step.make.timestamp()) // 60}"
    assert made["metadata"]["annotations"] == {cronjob.SCHEDULED: "2026-03-14T12:00:00Z"}
    assert (made["metadata"]["labels"], made["metadata"]["ownerReferences"][0]["kind"]) == ({"a": "b"}, "CronJob")
    assert cronjob.decide(cron_job(), [made], NOW).make is None, "not twice for the same moment"
    assert cronjob.decide(cron_job("2026-03-14T12:00:00Z"), [], NOW).make is None
    assert cronjob.decide(cron_job(suspend=True), [], NOW) == cronjob.Step()


def test_missed_moments_are_made_up_for_once_and_not_too_late() -> None:
    assert cronjob.decide(cron_job(""), [], NOW).make == datetime.datetime(2026, 3, 14, 12, tzinfo=UTC)
    assert cronjob.decide(cron_job("2026-01-01T00:00:00Z"), [], NOW).make == datetime.datetime(2026, 3, 14, 12, tzinfo=UTC)
    late = cron_job("2026-03-14T10:00:00Z", schedule="0 11 * * *")
    assert cronjob.decide(late, [], NOW).make == datetime.datetime(2026, 3, 14, 11, tzinfo=UTC)
    late["spec"]["startingDeadlineSeconds"] = 60
    assert cronjob.decide(late, [], NOW).make is None


def test_what_happens_while_the_last_one_runs() -> None:
    running = [job("old")]
    assert cronjob.decide(cron_job(), running, NOW).make
    forbidden = cronjob.decide(cron_job(concurrencyPolicy="Forbid"), running, NOW)
    assert (forbidden.make, forbidden.told and forbidden.told[0]) == (None, "JobAlreadyActive")
    assert cronjob.decide(cron_job(concurrencyPolicy="Replace"), running, NOW).delete == ("old",)


def test_history_and_status() -> None:
    jobs = [job(f"s{hour}", "Complete", f"2026-03-14T0{hour}:00:00Z") for hour in range(5)] + [job("f1", "Failed"), job("run")]
    assert cronjob.history({}, jobs) == ("s0", "s1")
    assert cronjob.history({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0}, jobs) == ("s0", "s1", "s2", "s3", "s4", "f1")
    status = cronjob.cron_job_status(cron_job(), jobs, NOW)
    assert [one["name"] for one in status["active"]] == ["run"]
    assert (status["lastSuccessfulTime"], status["lastScheduleTime"]) == ("2026-03-14T04:00:00Z", "2026-03-14T12:00:30Z")


def test_a_bad_schedule_is_told() -> None:
    step = cronjob.decide(cron_job(schedule="nonsense"), [], NOW)
    assert (step.make, step.told and step.told[0]) == (None, "UnparseableSchedule")
