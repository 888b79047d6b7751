"""Why pods do not come up, in one sentence: the object, the container, the exit reason, the container's own last words.

Each rule looks at one pod and says nothing or names a `Blocker`. The first pod that has one speaks for its workload.
"""
import datetime
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from serveplane.clock import parse_timestamp
from serveplane.objects import Json
from serveplane.objects.conditions import condition
from serveplane.render.names import STORAGE_INITIALIZER

LONGEST_WORDS = 400
IMAGE_REASONS = frozenset(("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
                           "RegistryUnavailable"))
CONFIG_REASONS = frozenset(("CreateContainerConfigError", "CreateContainerError", "RunContainerError"))
_CLAIM = re.compile(r"persistentvolumeclaims?|volume node affinity|volume claim", re.IGNORECASE)


@dataclass(frozen=True)
class Blocker:
    """What stands in the way of readiness."""
    reason: str
    message: str
    exit_code: int | None = None
    own_words: str = ""
    """The container's termination message, if it left one."""
    pod: str = ""
    container: str = ""
    of_model: bool = False
    """Whether it is the model that failed to load, and not its surroundings."""


@dataclass(frozen=True)
class Sight:
    """A pod, and the moment at which it is looked at."""
    pod: Json
    now: datetime.datetime

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def status(self) -> Json:
        return self.pod.get("status") or {}

    def containers(self) -> Iterator[tuple[Json, bool]]:
        """Container statuses, those of init containers first, each with whether it is one."""
        for status in self.status.get("initContainerStatuses") or []:
            yield status, True
        for status in self.status.get("containerStatuses") or []:
            yield status, False


Rule = Callable[[Sight], Blocker | None]


def first_blocker(pods: Sequence[Json], now: datetime.datetime) -> Blocker | None:
    """The most telling trouble among the pods: rules in order of weight, newest pod first."""
    sights = [Sight(pod, now) for pod in newest_first(pods) if not _is_leaving(pod)]
    return next((found for rule in RULES for sight in sights if (found := rule(sight))), None)


def newest_first(pods: Iterable[Json]) -> list[Json]:
    by_name = sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))
    return sorted(by_name, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""), reverse=True)


def is_ready(pod: Json) -> bool:
    status = pod.get("status") or {}
    ready = condition(status.get("conditions"), "Ready")
    return status.get("phase") == "Running" and ready is not None and ready.get("status") == "True"


def failed_container(sight: Sight) -> Blocker | None:
    """The model could not be downloaded, or its server ended."""
    for status, is_init in sight.containers():
        terminated = _failure(status)
        if terminated is not None:
            return _termination(sight, status, terminated, is_init)
    return None


def _image_pull(sight: Sight) -> Blocker | None:
    for status, _ in sight.containers():
        waiting = _waiting(status)
        if waiting.get("reason") in IMAGE_REASONS:
            return _blocker(sight, status, "ImagePullFailed", f"cannot pull the image {status.get('image') or ''}".rstrip(),
                            waiting.get("message") or waiting["reason"])
    return None


def _configuration(sight: Sight) -> Blocker | None:
    for status, _ in sight.containers():
        waiting = _waiting(status)
        if waiting.get("reason") in CONFIG_REASONS:
            return _blocker(sight, status, "ContainerNotCreated", "cannot be created", waiting.get("message") or waiting["reason"])
    return None


def _unschedulable(sight: Sight) -> Blocker | None:
    scheduled = condition(sight.status.get("conditions"), "PodScheduled")
    if scheduled is None or scheduled.get("status") != "False":
        return None
    words = scheduled.get("message") or scheduled.get("reason") or "no node was found"
    if _CLAIM.search(words):
        return Blocker("VolumeClaimPending", f"Pod {sight.name} waits for its volume: {words}", pod=sight.name)
    return Blocker("Unschedulable", f"Pod {sight.name} cannot be scheduled: {words}", pod=sight.name)


def _probe(sight: Sight) -> Blocker | None:
    """Running, past the time its probe allows, and still not ready."""
    specs = {container["name"]: container for container in sight.pod["spec"].get("containers") or []}
    for status, is_init in sight.containers():
        probe = specs.get(status.get("name", ""), {}).get("readinessProbe")
        running = (status.get("state") or {}).get("running")
        if is_init or not probe or running is None or status.get("ready"):
            continue
        waited = (sight.now - parse_timestamp(running["startedAt"])).total_seconds() if running.get("startedAt") else 0.0
        if waited >= patience(probe):
            return _blocker(sight, status, "ProbeFailing",
                            f"runs but its readiness probe ({_probe_words(probe)}) has not succeeded since it started", "")
    return None


def _evicted(sight: Sight) -> Blocker | None:
    if sight.status.get("phase") != "Failed":
        return None
    words = sight.status.get("message") or sight.status.get("reason") or "no reason is given"
    return Blocker("PodFailed", f"Pod {sight.name} failed: {words}", pod=sight.name)


RULES: tuple[Rule, ...] = (_image_pull, _configuration, failed_container, _unschedulable, _probe, _evicted)


def patience(probe: Json) -> float:
    """How long a container may run before its probe must have succeeded, by the probe's own figures."""
    period = probe.get("periodSeconds") or 10
    return float((probe.get("initialDelaySeconds") or 0) + period * (probe.get("failureThreshold") or 3))


def probe_deadline(pods: Iterable[Json], now: datetime.datetime) -> float | None:
    """Seconds until the first running container outlives the patience of its probe; None if none is waited for."""
    waits = [left for pod in pods for left in _probe_waits(Sight(pod, now)) if left > 0]
    return min(waits, default=None)


def _probe_waits(sight: Sight) -> Iterator[float]:
    specs = {container["name"]: container for container in sight.pod["spec"].get("containers") or []}
    for status, is_init in sight.containers():
        probe = specs.get(status.get("name", ""), {}).get("readinessProbe")
        running = (status.get("state") or {}).get("running") or {}
        if not is_init and probe and not status.get("ready") and running.get("startedAt"):
            yield patience(probe) - (sight.now - parse_timestamp(running["startedAt"])).total_seconds()


def _failure(status: Json) -> Json | None:
    """How the container ended, if it ended badly and is not on its feet again."""
    state, last = status.get("state") or {}, status.get("lastState") or {}
    ended: Json | None = state.get("terminated")
    if ended is None and _waiting(status).get("reason") == "CrashLoopBackOff":
        ended = last.get("terminated") or {}
    if ended is None and "running" in state and not status.get("ready") and (status.get("restartCount") or 0) > 0:
        ended = last.get("terminated")
    if ended is None or (ended.get("exitCode") == 0 and ended.get("reason") in (None, "Completed")):
        return None
    return ended


def _termination(sight: Sight, status: Json, ended: Json, is_init: bool) -> Blocker:
    code, cause, words = ended.get("exitCode"), ended.get("reason") or "Error", (ended.get("message") or "").strip()
    downloads = is_init and status.get("name") == STORAGE_INITIALIZER
    restarts = status.get("restartCount") or 0
    if downloads and cause != "OOMKilled":
        reason, what = "ModelDownloadFailed", "could not download the model"
    elif cause == "OOMKilled":
        reason, what = "OutOfMemory", "was killed for using more memory than its limit"
    elif restarts or _waiting(status).get("reason") == "CrashLoopBackOff":
        reason, what = "CrashLoop", "keeps ending"
    else:
        reason, what = "ContainerFailed", "ended"
    details = ", ".join(part for part in (f"exit code {code}" if code is not None else "", cause if cause != "Error" else "",
                                          f"{restarts} restarts" if restarts else "") if part)
    return _blocker(sight, status, reason, f"{what} ({details})" if details else what, words, exit_code=code, of_model=True)


def _blocker(sight: Sight, status: Json, reason: str, what: str, words: str, exit_code: int | None = None,
             of_model: bool = False) -> Blocker:
    name = status.get("name") or ""
    last_words = _one_line(words)
    sentence = f"Pod {sight.name}: container {name} {what}" + (f": {last_words}" if last_words else "")
    return Blocker(reason, sentence, exit_code, words, sight.name, name, of_model)


def _one_line(text: str) -> str:
    """The end of what was said, since the cause stands last."""
    joined = " ".join(text.split())
    return joined if len(joined) <= LONGEST_WORDS else f"… {joined[-LONGEST_WORDS:]}"


def _probe_words(probe: Json) -> str:
    if action := probe.get("httpGet"):
        return f"HTTP GET {action.get('path') or '/'} on port {action.get('port')}"
    if action := probe.get("tcpSocket"):
        return f"a connection to port {action.get('port')}"
    if action := probe.get("grpc"):
        return f"gRPC health on port {action.get('port')}"
    return "a command"


def _waiting(status: Json) -> Json:
    found: Json = (status.get("state") or {}).get("waiting") or {}
    return found


def _is_leaving(pod: Json) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))
