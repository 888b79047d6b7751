"""What pods use, asked of their nodes over HTTPS, as a metrics server asks kubelets."""
import msgspec

from serveplane.clock import Clock
from serveplane.embedded.workloads.autoscaling import Usage
from serveplane.http import Client, ClientError
from serveplane.kube.informers import Informer
from serveplane.objects import Json

FRESH = 5.0   # seconds for which a reading is good enough for everyone who asks


class NodeUsage:
    """Two readings of processor time make a rate; the first one gives none."""

    def __init__(self, nodes: Informer, client: Client, clock: Clock) -> None:
        self._nodes = nodes
        self._client = client
        self._clock = clock
        self._at = -FRESH
        self._spent: dict[tuple[str, str], tuple[float, float]] = {}   # (uid, container) → when, seconds
        self._known: dict[str, dict[str, dict[str, Usage]]] = {}        # namespace → pod → container

    async def __call__(self, namespace: str) -> dict[str, dict[str, Usage]]:
        if self._clock.monotonic() - self._at > FRESH:
            self._at = self._clock.monotonic()
            await self._read()
        return self._known.get(namespace, {})

    async def _read(self) -> None:
        known: dict[str, dict[str, dict[str, Usage]]] = {}
        spent: dict[tuple[str, str], tuple[float, float]] = {}
        for node in self._nodes.list():
            for pod in (await self._summary(node)).get("pods") or ():
                place = known.setdefault(pod["podRef"]["namespace"], {}).setdefault(pod["podRef"]["name"], {})
                for container in pod.get("containers") or ():
                    self._take(pod["podRef"]["uid"], container, place, spent)
        self._known, self._spent = known, spent

    def _take(self, uid: str, container: Json, place: dict[str, Usage],
              spent: dict[tuple[str, str], tuple[float, float]]) -> None:
        key, now = (uid, container["name"]), self._clock.monotonic()
        seconds = container["cpu"]["usageCoreNanoSeconds"] / 1e9
        before = self._spent.get(key)
        spent[key] = (now, seconds)
        if before is not None and now > before[0] and seconds >= before[1]:
            rate = (seconds - before[1]) / (now - before[0])
            place[container["name"]] = Usage(rate, float(container["memory"]["workingSetBytes"]))

    async def _summary(self, node: Json) -> Json:
        status = node.get("status") or {}
        host = next((entry["address"] for entry in status.get("addresses") or ()
                     if entry["type"] == "InternalIP"), "")
        port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
        if not host or not port:
            return {}
        try:
            answer = await self._client.request("GET", f"https://{host}:{port}/stats/summary", timeout=5.0)
            body = await answer.read()
            value: Json = msgspec.json.decode(body) if answer.status == 200 else {}
        except (ClientError, OSError, msgspec.DecodeError):   # a node that is away has no figures
            return {}
        return value
