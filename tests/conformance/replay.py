"""Replays recorded cases on a running control plane, many at once, and says for each how the outcome differs."""
import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.compare import Difference, differences
from tests.conformance.deviations import REFUSED_BY_US, broken_promises, comparable, is_meant
from tests.conformance.observe import Eye, Mirror
from tests.conformance.recorded import Case, Observation, Step
from tests.kit.api import Api, Refused
from tests.kit.waiting import eventually

Json = dict[str, Any]
AT_ONCE = 12
CALM = 1.5           # seconds for which an outcome must stay as recorded
PATIENCE = 10.0      # seconds without any change after which a difference is final
UNTOUCHED = 40.0     # the same while no controller has written anything yet
LIMIT = 180.0        # seconds after which a case is judged although it still changes
ALONE = {"localmodel"}     # areas of cluster-wide objects: one case at a time
SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inferenceservice-config", "namespace": "kserve"}}


@dataclass
class Result:
    problems: list[str] = field(default_factory=list)      # empty: as recorded


class Player:
    """One case from an empty namespace to the last comparison."""

    def __init__(self, case: Case, api: Api, mirror: Mirror, slowness: float) -> None:
        self._case, self._api, self._mirror, self._slowness = case, api, mirror, slowness
        self._eye = Eye(mirror, api, case.name, case.area in ALONE)
        self._refusals: list[str] = []

    async def play(self) -> Result:
        await self._open_namespace()
        result = Result()
        try:
            for number, step in enumerate(self._case.steps, 1):
                await self._do(step)
                if self._is_over():
                    break
                prefix = f"after step {number}: " if number < len(self._case.steps) else ""
                result.problems += [prefix + str(problem) for problem in await self._judge(step.expected)]
            result.problems += self._refusal_problems()
        finally:
            await self._clear()
        return result

    async def _open_namespace(self) -> None:
        await self._api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._case.name}})
        await eventually(lambda: self._mirror.find("ServiceAccount", self._case.name, "default", "v1"))
        for name in self._case.accounts:
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
            await self._api.create(account, self._case.name)
            self._eye.applied["ServiceAccount", self._case.name, name] = account

    async def _do(self, step: Step) -> None:
        for obj in step.objects:
            key = await self._key(obj)
            try:
                if step.is_delete:
                    await self._api.delete(obj, self._case.name)
                    self._eye.applied.pop(key, None)
                else:
                    await self._api.kubectl_apply(obj, self._case.name, self._eye.applied.get(key))
                    self._eye.applied[key] = obj
            except Refused as refusal:
                self._refusals.append(refusal.message)

    async def _key(self, obj: Json) -> tuple[str, str, str]:
        namespaced = (await self._api.resource(obj["apiVersion"], obj["kind"])).namespaced
        return obj["kind"], (obj["metadata"].get("namespace") or self._case.name) if namespaced else "", obj["metadata"]["name"]

    def _is_over(self) -> bool:
        """A refusal ends a case of one step; in others it is one event among several."""
        return bool(self._refusals) and len(self._case.steps) == 1

    async def _judge(self, expected: Observation) -> list[Difference | str]:
        """Watch until the outcome is as recorded and stays so, or differs and nothing happens any more."""
        clock = asyncio.get_running_loop().time
        began = changed = clock()
        while True:
            found = await self._eye.look()
            problems = self._problems(expected, found)
            now = clock()
            patience = CALM if not problems else PATIENCE if found.get("children") or found.get("status") else UNTOUCHED
            if now - changed > patience * self._slowness or now - began > LIMIT * self._slowness:
                return problems
            if await self._mirror.change(self._case.name, min(patience, 0.5)):
                changed = clock()

    def _problems(self, expected: Observation, found: Observation) -> list[Difference | str]:
        wanted, got = comparable(expected, found)
        problems = [difference for difference in differences(wanted, got) if not is_meant(self._case, difference)]
        stale = (Difference("status", f"InferenceService/{name}", "observedGeneration", "its own", "another") for name in self._eye.stale())
        return [*problems, *stale, *broken_promises(self._case, found)]

    def _refusal_problems(self) -> list[str]:
        wanted = self._case.is_refused or str(self._case) in REFUSED_BY_US
        if wanted and not self._refusals:
            return ["accepted, but must be refused"]
        return [f"refused, but must be accepted: {text}" for text in self._refusals] if not wanted else []

    async def _clear(self) -> None:
        for obj in reversed(list(self._eye.applied.values())):
            await self._delete(obj)
        await self._delete({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._case.name}})

    async def _delete(self, obj: Json) -> None:
        with contextlib.suppress(Refused):       # a webhook holds it back; the namespace takes it along later
            await self._api.delete(obj, self._case.name)


Report = Callable[[Case, Result], None]


async def replay(api: Api, cases: Iterable[Case], report: Report, slowness: float = 1) -> None:
    """All cases, grouped by what they need the central ConfigMap to be. `slowness` stretches all patience."""
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        groups[json.dumps(case.settings, sort_keys=True)].append(case)
    shipped = await api.call("GET", await _settings_path(api))
    turns = asyncio.Semaphore(AT_ONCE)
    async with Mirror(api) as mirror:
        for settings, members in sorted(groups.items(), key=lambda group: len(group[0])):
            await _configure(api, shipped["data"], json.loads(settings))
            for crowd in ([c for c in members if c.area not in ALONE], *([c] for c in members if c.area in ALONE)):
                await asyncio.gather(*(_play(Player(case, api, mirror, slowness), case, turns, report) for case in crowd))
    await _configure(api, shipped["data"], {})


async def _play(player: Player, case: Case, turns: asyncio.Semaphore, report: Report) -> None:
    async with turns:
        try:
            result = await player.play()
        except Exception as problem:       # one broken case must not hide the others
            result = Result([f"could not be played: {problem!r}"])
    report(case, result)


async def _settings_path(api: Api) -> str:
    return f"{await api.collection_of(SETTINGS)}/{SETTINGS['metadata']['name']}"


async def _configure(api: Api, shipped: dict[str, str], changes: Json) -> None:
    """The central ConfigMap as shipped, but for the changes."""
    data = dict(shipped)
    for key, change in changes.items():
        data[key] = json.dumps({**json.loads(data.get(key, "{}")), **change})
    before = await api.call("GET", await _settings_path(api))
    if before["data"] != data:
        await api.call("PUT", await _settings_path(api), {**SETTINGS, "data": data})
        await asyncio.sleep(1)             # until the managers have seen it
