"""What a node answers over HTTPS, as kubelets do: logs, and what pods use. Only the API server's certificate may ask."""
import datetime
from pathlib import Path
from urllib.parse import parse_qs

from serveplane.clock import Clock, parse_timestamp, timestamp
from serveplane.embedded.node.agent import Agent
from serveplane.embedded.node.containers import Container
from serveplane.embedded.node.exec import Options, execute, show, upgraded
from serveplane.embedded.node.logs import LogQuery, LogWriter, follow_log, read_log
from serveplane.embedded.node.volumes import MountFailed, check_part
from serveplane.http import Handler, Request, Response, Router, StatusError
from serveplane.kube.kind import Key
from serveplane.objects import Json

CALLERS = ("kube-apiserver-kubelet-client", "kube-apiserver")
MASTERS = "system:masters"


class NodeServer:
    """The handler; `router` is what is served."""

    def __init__(self, agent: Agent, clock: Clock) -> None:
        self._agent = agent
        self._clock = clock
        self.router = Router([("GET", "/containerLogs/{namespace}/{pod}/{container}", self._guarded(self.logs)),
                              ("GET,POST", "/exec/{namespace}/{pod}/{container}", self._guarded(self.execute)),
                              ("GET,POST", "/attach/{namespace}/{pod}/{container}", self._guarded(self.attach)),
                              ("GET", "/stats/summary", self._guarded(self.summary)),
                              ("GET", "/healthz", self.health)])

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: Request) -> Response:
            names = request.peer.subject.get("commonName", ())
            groups = request.peer.subject.get("organizationName", ())
            if not set(names) & set(CALLERS) and MASTERS not in groups:
                raise StatusError(403, "only the API server may ask a node\n")
            return await handler(request)
        return guarded

    async def health(self, request: Request) -> Response:
        return Response.text("ok")

    async def logs(self, request: Request) -> Response:
        params = request.params
        query = _log_query(request.query, self._clock.now())
        options = parse_qs(request.query)
        file, writer = self._log_file(Key(params["namespace"], params["pod"]), params["container"],
                                      _flag(options, "previous"))
        headers = [("Content-Type", "text/plain; charset=utf-8")]
        if query.follow:
            return Response(200, headers, follow_log(file, writer, query))
        return Response(200, headers, read_log(file, query))

    async def execute(self, request: Request) -> Response:
        options, run = Options.of(request.query), self._container(request).latest_run
        if run is None:
            raise StatusError(400, f'container "{request.params["container"]}" is not running\n')
        if not options.words:
            raise StatusError(400, "you must specify at least 1 command for the container\n")
        return upgraded(request, options, lambda channels: execute(run, options, channels))

    async def attach(self, request: Request) -> Response:
        params = request.params
        file, writer = self._log_file(Key(params["namespace"], params["pod"]), params["container"], previous=False)
        lines = follow_log(file, writer, LogQuery(follow=True, tail=0))
        return upgraded(request, Options.of(request.query), lambda channels: show(lines, channels))

    def _container(self, request: Request) -> Container:
        params = request.params
        pod = self._agent.pods.get(Key(params["namespace"], params["pod"]))
        container = pod.container(params["container"]) if pod else None
        if container is None:
            raise StatusError(404, f'container "{params["container"]}" is not on this node\n')
        return container

    def _log_file(self, key: Key, name: str, previous: bool) -> tuple[Path, LogWriter | None]:
        pod = self._agent.pods.get(key)
        container = pod.container(name) if pod else None
        folder = self._log_folder(key)
        if folder is None:
            raise StatusError(404, f'pod "{key}" has no log on this node\n')
        try:
            runs = sorted((folder / check_part(name)).glob("*.log"), key=lambda file: int(file.stem))
        except (MountFailed, ValueError):
            runs = []
        wanted = -2 if previous else -1
        if len(runs) < -wanted:
            if previous:
                raise StatusError(400, f'previous terminated container "{name}" in pod "{key.name}" not found\n')
            waiting = container.status.state.get("waiting") if container else None
            why = (waiting or {}).get("reason") or "has not started"
            raise StatusError(400, f'container "{name}" in pod "{key.name}" is waiting to start: {why}\n')
        return runs[wanted], container.writer if container and not previous else None

    def _log_folder(self, key: Key) -> Path | None:
        """By the running pod, or (a pod that is over) by name: the latest one."""
        pod = self._agent.pods.get(key)
        if pod is not None:
            return self._agent.context.log_folder(pod.pod)
        folder = self._agent.context.folder / "logs"
        found = [one for one in folder.glob(f"{key.namespace}_{key.name}_*") if one.is_dir()]
        return max(found, key=lambda one: one.stat().st_mtime, default=None)

    async def summary(self, request: Request) -> Response:
        """The part of a kubelet's summary that autoscaling reads."""
        now = timestamp(self._clock.now())
        pods: list[Json] = []
        for key, pod in self._agent.pods.items():
            used, rates = self._agent.figures.get(pod.uid, {}), self._agent.rates.get(pod.uid, {})
            containers = [{"name": name,
                           "cpu": {"time": now, "usageCoreNanoSeconds": int(figures.cpu_seconds * 1e9),
                                   **({"usageNanoCores": int(rates[name] * 1e9)} if name in rates else {})},
                           "memory": {"time": now, "workingSetBytes": figures.memory, "rssBytes": figures.memory}}
                          for name, figures in used.items()]
            pods.append({"podRef": {"name": key.name, "namespace": key.namespace, "uid": pod.uid},
                         "containers": containers})
        return Response.json({"node": {"nodeName": self._agent.context.name}, "pods": pods})


def _flag(options: dict[str, list[str]], name: str) -> bool:
    return options.get(name, ["false"])[-1].lower() in ("true", "1")


def _number(options: dict[str, list[str]], name: str) -> int | None:
    text = options.get(name, [""])[-1]
    return int(text) if text.isdigit() else None


def _log_query(text: str, now: datetime.datetime) -> LogQuery:
    options = parse_qs(text)
    since = None
    seconds = _number(options, "sinceSeconds")
    try:
        if seconds is not None:
            since = now - datetime.timedelta(seconds=seconds)
        elif options.get("sinceTime"):
            since = parse_timestamp(options["sinceTime"][-1])
    except (ValueError, OverflowError) as problem:
        raise StatusError(400, f"since when? {problem}\n") from None
    return LogQuery(_flag(options, "follow"), _flag(options, "timestamps"), _number(options, "tailLines"), since,
                    _number(options, "limitBytes"))
