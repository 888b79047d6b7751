"""Watches the cluster and writes the statuses that its missing inhabitants would write.

    async with World(kubeconfig): …                       everything succeeds
    async with World(kubeconfig, [Rule(Outcome.CRASH_LOOP, name="iris-*")]): …
    python -m tests.kit.world KUBECONFIG                  the same as a program of its own

Rules are looked up in the pod's annotation, then on its Namespace (both may change at any time), then in the list handed in.
"""
import asyncio
import contextlib
import datetime
import functools
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp

from tests.kit.api import MERGE, Api, Refused
from tests.kit.world import others
from tests.kit.world.pods import pod_status
from tests.kit.world.rules import OFF, RULES, Outcome, Rule, parse_rules, rule_for

Json = dict[str, Any]
Reporter = Callable[[Json, Rule, str], Json | None]
AT_ONCE = 48
PAUSE = 0.5          # before a lost watch is taken up again, or a kind that is not served is asked for again
NAMESPACES = "/api/v1/namespaces"


@dataclass
class Part:
    """A kind of object that somebody would look after."""
    kind: str        # as rules name it
    path: str        # of all objects of the kind
    report: Reporter
    seen: dict[str, Json] = field(default_factory=dict)    # uid -> as last seen


def parts() -> list[Part]:
    gateway, inference = "/apis/gateway.networking.k8s.io/v1", "/apis/inference.networking"
    return [
        Part("Pod", "/api/v1/pods", pod_status),
        Part("Knative", "/apis/serving.knative.dev/v1/services", others.knative_status),
        Part("HTTPRoute", f"{gateway}/httproutes", others.route_status),
        Part("Gateway", f"{gateway}/gateways", others.gateway_status),
        Part("LeaderWorkerSet", "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets", others.leader_worker_set_status),
        Part("InferencePool", f"{inference}.k8s.io/v1/inferencepools", others.pool_status),
        Part("InferencePool", f"{inference}.x-k8s.io/v1alpha2/inferencepools", others.pool_status),
        Part("ScaledObject", "/apis/keda.sh/v1alpha1/scaledobjects", others.scaled_object_status),
    ]


class World:
    def __init__(self, kubeconfig: Path | str, rules: Iterable[Rule] = ()) -> None:
        self._api, self._rules, self._parts = Api(kubeconfig, agent="world"), list(rules), parts()
        self._namespaces: dict[str, list[Rule] | None] = {}     # None: not ours to play in
        self._played: dict[str, Rule] = {}                       # pod uid -> the rule its status follows
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._api.__aenter__()
        known = asyncio.Event()
        self._start(self._follow(NAMESPACES, self._see_namespace, self._forget_namespace, known))
        await known.wait()                                       # before a pod is played, the rules of its namespace are known
        for part in self._parts:
            self._start(self._follow(part.path, functools.partial(self._see, part), functools.partial(self._forget, part)))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._api.__aexit__(None, None, None)

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, path: str, see: Callable[[Json], None], forget: Callable[[Json], None],
                      listed: asyncio.Event | None = None) -> None:
        """List, then watch, for ever; a kind that is not served yet is waited for."""
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValueError, Refused):
                everything = await self._api.call("GET", path)
                for obj in everything["items"]:
                    see({"apiVersion": everything["apiVersion"], **obj})
                if listed:
                    listed.set()
                async for event, obj in self._api.watch(path, everything["metadata"]["resourceVersion"]):
                    if event == "ERROR":
                        break
                    if event != "BOOKMARK":
                        (forget if event == "DELETED" else see)(obj)
            await asyncio.sleep(PAUSE)

    def _see_namespace(self, namespace: Json) -> None:
        name, notes = namespace["metadata"]["name"], namespace["metadata"].get("annotations") or {}
        before = self._namespaces.get(name, [])
        self._namespaces[name] = None if notes.get(OFF) == "true" else parse_rules(notes.get(RULES, ""))
        if self._namespaces[name] != before:
            for part in self._parts:
                for obj in list(part.seen.values()):
                    if obj["metadata"].get("namespace") == name:
                        self._see(part, obj)

    def _forget_namespace(self, namespace: Json) -> None:
        self._namespaces.pop(namespace["metadata"]["name"], None)

    def _forget(self, part: Part, obj: Json) -> None:
        part.seen.pop(obj["metadata"]["uid"], None)
        self._played.pop(obj["metadata"]["uid"], None)

    def _see(self, part: Part, obj: Json) -> None:
        part.seen[obj["metadata"]["uid"]] = obj
        status = self._verdict(part, obj)
        if status is not None:
            self._start(self._write(part, obj, status))

    def _verdict(self, part: Part, obj: Json) -> Json | None:
        meta = obj["metadata"]
        rules = self._namespaces.get(meta["namespace"], [])
        if rules is None or meta.get("deletionTimestamp"):
            return None
        rule = rule_for(obj, part.kind, rules, self._rules)
        if rule.outcome is Outcome.NOTHING or (part.kind == "Pod" and not self._is_due(obj, rule)):
            return None
        return part.report(obj, rule, _now())

    def _is_due(self, pod: Json, rule: Rule) -> bool:
        """A pod is told its fate once per rule. One that a real node has taken, or that has ended, is none of our business."""
        if pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return False
        uid = pod["metadata"]["uid"]
        if self._played.get(uid) == rule:
            return False
        self._played[uid] = rule
        return True

    async def _write(self, part: Part, obj: Json, status: Json) -> None:
        meta, (head, plural) = obj["metadata"], part.path.rsplit("/", 1)
        path = f"{head}/namespaces/{meta['namespace']}/{plural}/{meta['name']}/status"
        async with self._turns:
            try:
                await self._api.call("PATCH", path, {"metadata": {"uid": meta["uid"]}, "status": status}, MERGE)
            except Refused as refusal:
                if refusal.status not in (404, 409):             # gone, or replaced by one of the same name
                    print(f"world: {path}: {refusal.message}", file=sys.stderr, flush=True)
            except (aiohttp.ClientError, TimeoutError):
                self._played.pop(meta["uid"], None)              # the next event, or the relist, tries again


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def play(kubeconfig: Path | str) -> None:
    """Until cancelled."""
    async with World(kubeconfig):
        await asyncio.Event().wait()
