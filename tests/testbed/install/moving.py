"""A cluster that KServe has run: its recorded objects, written the way its manager writes them, and looked at before and after a move."""

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.conformance.recorded import Case
from tests.kit.api import Api
from tests.kit.waiting import eventually

Json = dict[str, Any]
SERVICE = ("serving.kserve.io/v1beta1", "InferenceService")
THEIRS = "manager"  # the field manager of KServe's program, named after its binary
LONG_AGO = "2026-01-01T00:00:00Z"


class Id(NamedTuple):
    api_version: str
    kind: str
    namespace: str
    name: str


Snapshot = dict[Id, Json]


class Past:
    """The services of some recorded cases and their children, as KServe left them."""

    def __init__(self, api: Api, cases: Iterable[Case]) -> None:
        self.api, self.cases = api, list(cases)
        self.written: dict[Id, Json] = {}

    async def write(self) -> None:
        for case in self.cases:
            await self._write(case)

    async def _write(self, case: Case) -> None:
        (step,) = case.steps
        await self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case.name}})
        for name in case.accounts:
            await self.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}, case.name)
        for obj in step.objects:
            if obj["kind"] != SERVICE[1]:
                await self.api.create(obj, case.name)
        services = [obj for obj in step.expected["object"] if (obj["apiVersion"], obj["kind"]) == SERVICE]
        uids = {obj["metadata"]["name"]: (await self.api.create(obj, case.name))["metadata"]["uid"] for obj in services}
        for child in step.expected["children"]:
            await self._write_child(child, uids)
        for told in step.expected["status"]:
            if told["kind"] == SERVICE[1]:
                await self._write_status(case.name, told)

    async def _write_child(self, child: Json, uids: dict[str, str]) -> None:
        """Created by one request and updated by a second, as KServe does when it finds the object again."""
        for owner in child["metadata"].get("ownerReferences") or []:
            owner["uid"] = uids[owner["name"]]
        made = await self.api.call("POST", f"{await self.api.collection_of(child)}?fieldManager={THEIRS}", child)
        where = id_of(made | {"apiVersion": child["apiVersion"], "kind": child["kind"]})
        self.written[where] = child
        await self.update(where)

    async def _write_status(self, namespace: str, told: Json) -> None:
        where = Id(*SERVICE, namespace, told["metadata"]["name"])
        conditions = [{**condition, "lastTransitionTime": LONG_AGO} for condition in told["status"]["conditions"]]
        live = await self.live(where)
        body = {**live, "status": {**told["status"], "conditions": conditions, "observedGeneration": live["metadata"]["generation"]}}
        await self._put(where, body, "/status")

    async def live(self, where: Id) -> Json:
        found = await self.api.get(where.api_version, where.kind, where.name, where.namespace)
        assert found is not None, f"{where} is gone"
        return found

    async def update(self, where: Id, **changed: Any) -> Json:
        """The desired state over what the server has, and the whole of it sent back; an autoscaler's replicas are left to it."""
        for _ in range(10):
            live, wanted = await self.live(where), self.written[where]
            metadata = {**live["metadata"], **_own(live["metadata"], wanted["metadata"])}
            spec = {**live.get("spec", {}), **wanted.get("spec", {}), **changed}
            if where.kind == "Deployment":
                spec["replicas"] = live["spec"]["replicas"]
            body = {**live, "metadata": metadata} | ({"spec": spec} if spec else {})
            try:
                return await self._put(where, body)
            except Exception as refusal:  # someone wrote its status meanwhile: read again, as any controller would
                if getattr(refusal, "status", 0) != 409:
                    raise
        raise AssertionError(f"{where} cannot be updated")

    async def _put(self, where: Id, body: Json, subresource: str = "") -> Json:
        path = f"{await self.api.collection_of(body)}/{where.name}{subresource}"
        return await self.api.call("PUT", f"{path}?fieldManager={THEIRS}", body)

    async def services(self) -> Snapshot:
        return await self.look([SERVICE])

    async def children(self) -> Snapshot:
        """Whatever belongs to a service, of any kind that KServe makes."""
        kinds = {(where.api_version, where.kind) for where in self.written} | {("networking.k8s.io/v1", "Ingress")}
        found = await self.look(sorted(kinds))
        return {where: obj for where, obj in found.items() if obj["metadata"].get("ownerReferences")}

    async def pods(self) -> Snapshot:
        return await self.look([("v1", "Pod"), ("apps/v1", "ReplicaSet")])

    async def look(self, kinds: Iterable[tuple[str, str]]) -> Snapshot:
        names = {case.name for case in self.cases}
        found = await asyncio.gather(*(self.api.list(*kind) for kind in kinds))
        return {id_of(obj): obj for objects in found for obj in objects if obj["metadata"].get("namespace") in names}

    async def await_rest(self) -> None:
        """Until whoever plays the nodes has brought all of it up, at the size that the autoscaler wants."""

        async def is_up() -> bool:
            deployments = await self.look([("apps/v1", "Deployment")])
            scalers = (await self.look([("autoscaling/v2", "HorizontalPodAutoscaler")])).values()
            least = {(obj["metadata"]["namespace"], obj["spec"]["scaleTargetRef"]["name"]): obj["spec"]["minReplicas"] for obj in scalers}
            return all(_is_up(obj, least.get((where.namespace, where.name), 1)) for where, obj in deployments.items())
        await eventually(is_up, 120, "every Deployment is up")

    async def await_adoption(self) -> None:
        async def is_ours() -> list[Id]:
            return [where for where, obj in (await self.children()).items() if (THEIRS, "Update") in writers(obj)]

        async def is_done() -> bool:
            return not await is_ours()
        try:
            await eventually(is_done, 120, "every child is taken over")
        except Exception as late:
            raise AssertionError(f"not taken over: {await is_ours()}") from late


def _is_up(deployment: Json, least: int) -> bool:
    status, replicas = deployment.get("status", {}), deployment["spec"]["replicas"]
    is_seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
    return is_seen and replicas >= least and status.get("readyReplicas", 0) == replicas


def _own(live: Json, wanted: Json) -> Json:
    """The metadata KServe writes; what others have put beside it (the Deployment controller's annotations) stays."""
    merged = {key: {**live.get(key, {}), **wanted[key]} for key in ("labels", "annotations") if key in wanted}
    return merged | {key: wanted[key] for key in ("ownerReferences", "finalizers") if key in wanted}


def id_of(obj: Json) -> Id:
    return Id(obj["apiVersion"], obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def writers(obj: Json) -> set[tuple[str, str]]:
    """Who owns fields of the object itself, not of its status or scale."""
    return {(entry["manager"], entry["operation"]) for entry in obj["metadata"]["managedFields"] if not entry.get("subresource")}
