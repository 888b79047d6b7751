"""Mutating and validating webhooks: called in order of name, answers checked, failures handled as each asks."""

import asyncio
import base64
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.admission.matching import matched_resource
from serveplane.embedded.apiserver.crd import rules
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.apiserver.webhooks import CallFailed
from serveplane.objects import Json, jsonpatch

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.writing import Write

GROUP = "admissionregistration.k8s.io"
MUTATING, VALIDATING = f"mutatingwebhookconfigurations.{GROUP}", f"validatingwebhookconfigurations.{GROUP}"
OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class Hook(NamedTuple):
    """One webhook of one configuration."""

    configuration: str
    value: Json

    @property
    def name(self) -> str:
        return str(self.value["name"])

    @property
    def place(self) -> tuple[str, str]:
        """Names are unique within their configuration only."""
        return self.configuration, self.name


class Hooks:
    """Configurations are read again only when one changes."""

    def __init__(self, core: "Core") -> None:
        self._core = core
        self._known: dict[str, list[Hook]] = {}
        for bucket in (MUTATING, VALIDATING):
            core.store.observe(bucket, lambda change: self._known.clear())

    def _hooks(self, bucket: str) -> list[Hook]:
        known = self._known.get(bucket)
        if known is None:
            known = self._known[bucket] = [
                Hook(record.key.name, webhook)
                for record in self._core.store.records(bucket)
                for webhook in record.value().get("webhooks") or ()
            ]
        return known

    def _concerned(self, bucket: str, write: "Write", operation: str) -> Iterator[tuple[Hook, Resource]]:
        for hook in self._hooks(bucket):
            resource = matched_resource(self._core, hook.value, write, operation)
            if resource is not None and self._conditions_hold(hook, write, operation):
                yield hook, resource

    # --- mutation

    async def mutate(self, write: "Write", operation: str) -> None:
        """Each in turn; if a later one changed the object, those that ask for it see it once more."""
        if not self._hooks(MUTATING):
            return
        seen: dict[tuple[str, str], Json] = {}
        for hook, resource in self._concerned(MUTATING, write, operation):
            seen[hook.place] = await self._mutate_by(hook, resource, write, operation)
        for hook, resource in self._concerned(MUTATING, write, operation):
            if (
                hook.value.get("reinvocationPolicy") == "IfNeeded"
                and hook.place in seen
                and seen[hook.place] != write.value
            ):
                seen[hook.place] = await self._mutate_by(hook, resource, write, operation)

    async def _mutate_by(self, hook: Hook, resource: Resource, write: "Write", operation: str) -> Json:
        response = await self._ask(hook, resource, write, operation, "mutating")
        if response is not None and response.get("patch"):
            if operation == "DELETE":
                what = "attempted to modify the object, which is not supported for this operation"
                raise errors.internal(f'admission webhook "{hook.name}" {what}')
            await self._patch(hook, resource, write, response)
        return self._core.convert.copied(write.value)

    async def _patch(self, hook: Hook, resource: Resource, write: "Write", response: Json) -> None:
        if response.get("patchType") != "JSONPatch":
            raise errors.internal(
                f'failed calling webhook "{hook.name}": webhook response patch type must be JSONPatch'
            )
        before = await self._seen(resource, write, write.value)
        try:
            operations = _operations(base64.b64decode(response["patch"]))
            after = jsonpatch.json_patched(before, operations)
        except (jsonpatch.PatchFailed, ValueError) as error:
            raise errors.internal(f"jsonpatch of webhook {hook.name!r} failed: {error}") from None
        value = await self._core.convert_between(resource, write.resource, after)
        try:
            write.value = self._core.kinds.canonical(write.resource, value, [])
        except errors.Refusal as refusal:  # whoever sent the object is not to blame for what became of it
            raise errors.internal(f"the patch of webhook {hook.name!r} gave no object: {refusal.message}") from None
        if write.live:
            self._core.kinds.keep_server_fields(write)

    # --- validation

    async def validate(self, write: "Write", operation: str) -> None:
        """All at once; one refusal is enough."""
        concerned = list(self._concerned(VALIDATING, write, operation)) if self._hooks(VALIDATING) else []
        if concerned:
            results = await asyncio.gather(
                *(self._ask(hook, resource, write, operation, "validating") for hook, resource in concerned),
                return_exceptions=True,
            )
            for result in results:
                if isinstance(result, BaseException):
                    raise result

    # --- one call

    async def _ask(self, hook: Hook, resource: Resource, write: "Write", operation: str, kind: str) -> Json | None:
        value = hook.value
        if write.request.dry_run and value.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise errors.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        uid, seconds = self._core.clock.uuid(), value.get("timeoutSeconds") or 10
        review = await self._review(hook, resource, write, operation, uid)
        try:
            answer = await self._core.webhooks.call(
                value["clientConfig"], review, float(seconds), f"?timeout={seconds}s"
            )
            response = _checked(answer, uid)
        except CallFailed as failure:
            if (value.get("failurePolicy") or "Fail") == "Ignore":
                self._core.log.warning("webhook %s: %s (ignored as its failurePolicy asks)", hook.name, failure)
                return None
            raise errors.internal(f'failed calling webhook "{hook.name}": failed to call webhook: {failure}') from None
        write.request.warnings.extend(str(text) for text in response.get("warnings") or ())
        if not response.get("allowed"):
            raise _denied(hook, response)
        return response

    async def _review(self, hook: Hook, resource: Resource, write: "Write", operation: str, uid: str) -> Json:
        version = next((v for v in hook.value.get("admissionReviewVersions") or () if v in ("v1", "v1beta1")), "v1")
        return {
            "kind": "AdmissionReview",
            "apiVersion": f"admission.k8s.io/{version}",
            "request": await self._request(resource, write, operation, uid),
        }

    async def _request(self, resource: Resource, write: "Write", operation: str, uid: str) -> Json:
        original, value = write.resource, write.value or write.live
        request: Json = {
            "uid": uid,
            "kind": _kind(resource),
            "resource": _resource(resource),
            "requestKind": _kind(original),
            "requestResource": _resource(original),
            "operation": operation,
            "userInfo": write.request.user.info(),
            "object": await self._seen(resource, write, write.value) if write.value else None,
            "oldObject": await self._seen(resource, write, write.live) if write.live else None,
            "dryRun": write.request.dry_run,
            "options": {"kind": OPTIONS[operation], "apiVersion": "meta.k8s.io/v1", **_options(write, operation)},
        }
        for field in ("namespace",) if _of_a_collection(write, operation) else ("name", "namespace"):
            if value["metadata"].get(field):
                request[field] = value["metadata"][field]
        if write.subresource:
            request["subResource"] = request["requestSubResource"] = write.subresource
        return request

    async def _seen(self, resource: Resource, write: "Write", value: Json) -> Json:
        typed = {
            "kind": write.resource.kind,
            "apiVersion": write.resource.api_version,
            **{k: v for k, v in value.items() if k not in ("kind", "apiVersion")},
        }
        return await self._core.convert_between(write.resource, resource, typed)

    def _conditions_hold(self, hook: Hook, write: "Write", operation: str) -> bool:
        """Match conditions: any that is false takes the webhook out; one that cannot be judged counts by failure policy."""
        for condition in hook.value.get("matchConditions") or ():
            program, trouble = rules.compiled(condition["expression"])
            result: Any = None
            if program is not None:
                names = {
                    "object": write.value or None,
                    "oldObject": write.live or None,
                    "request": {
                        "operation": operation,
                        "userInfo": write.request.user.info(),
                        "dryRun": write.request.dry_run,
                        "namespace": (write.value or write.live)["metadata"].get("namespace", ""),
                        "kind": _kind(write.resource),
                        "resource": _resource(write.resource),
                        "subResource": write.subresource,
                    },
                }
                result, trouble = rules.evaluated(program, names)
            if result is False:
                return False
            if result is not True:
                if hook.value.get("failurePolicy") == "Ignore":
                    return False
                raise errors.forbidden(
                    write.resource.plural,
                    write.resource.group,
                    (write.value or write.live)["metadata"].get("name", ""),
                    f"expression '{condition['expression']}' resulted in error: {trouble}",
                )
        return True


def _operations(data: bytes) -> Any:
    value = msgspec.json.decode(data)
    if not isinstance(value, list):
        raise ValueError("the patch is no list of operations")
    return value


def _checked(answer: Json, uid: str) -> Json:
    response = answer.get("response")
    if answer.get("kind") != "AdmissionReview" or not isinstance(response, dict):
        given = f"{answer.get('apiVersion')}, Kind={answer.get('kind')}"
        raise CallFailed(f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {given}")
    if response.get("uid") != uid:
        raise CallFailed(f"expected response.uid={uid!r}, got {response.get('uid')!r}")
    return response


def _denied(hook: Hook, response: Json) -> errors.Refusal:
    status = response.get("status") or {}
    reason = status.get("reason") or ""
    told = f": {status['message']}" if status.get("message") else f": {reason}" if reason else " without explanation"
    code, text = status.get("code") or 0, f'admission webhook "{hook.name}" denied the request{told}'
    return errors.Refusal(code if code >= 400 else 400, reason, text, status.get("details"))


def _kind(resource: Resource) -> Json:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _resource(resource: Resource) -> Json:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _of_a_collection(write: "Write", operation: str) -> bool:
    """Whether all of a kind are being deleted: the real server then names none of them."""
    target = write.request.target
    return operation == "DELETE" and target.resource == write.resource.plural and not target.name


def _options(write: "Write", operation: str) -> Json:
    if operation == "DELETE":
        return write.options
    query = write.request.query
    found: Json = {name: query[name] for name in ("fieldManager", "fieldValidation") if query.get(name)}
    return found | ({"dryRun": ["All"]} if write.request.dry_run else {})
