"""What the server does to objects of each kind around a write: defaults, what only the server decides, validation.

One facade for Kubernetes' own kinds and custom ones, so that the verbs know no kind.
"""

from typing import TYPE_CHECKING, Any

from serveplane.clock import timestamp
from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.crd import checks, registrar
from serveplane.embedded.apiserver.kinds import builtin, codec, custom, warnings
from serveplane.embedded.apiserver.kinds.metadata import check_metadata, check_metadata_update
from serveplane.embedded.apiserver.request import Request
from serveplane.embedded.apiserver.resources import EVENT_BUCKET, Resource
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.writing import Write

SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")

SPEC_FIRST = frozenset({"poddisruptionbudgets.policy", EVENT_BUCKET})
"""Kinds whose metadata is only looked at once the rest is right."""


class Kinds:
    def canonical(self, resource: Resource, value: Json, problems: list[str], converting: bool = False) -> Json:
        """The object as the server's own types would hold it: types checked, unknown fields dropped and told.

        `converting`: as those types are filled from a merged value instead of a text; a misfit is then a `WrongType`.
        """
        if resource.custom:
            return custom.canonical(resource, value, problems)
        return builtin.converted(resource, value, problems) if converting else builtin.canonical(resource, value, problems)

    def empty(self, resource: Resource) -> Json:
        """What an object of this kind looks like with nothing set: owners of structs that are always there are nobody's."""
        return {} if resource.custom else builtin.empty(resource)

    # --- create

    def begin(self, core: "Core", resource: Resource, value: Json, request: Request) -> None:
        """What every new object gets, before anybody else sees it."""
        metadata = value["metadata"]
        if metadata.get("resourceVersion"):
            raise errors.Refusal(500, "", "resourceVersion should not be set on objects to be created")
        for field in SERVER_OWNED:
            metadata.pop(field, None)
        metadata.pop("resourceVersion", None)
        metadata["uid"] = core.clock.uuid()
        metadata["creationTimestamp"] = timestamp(core.clock.now())

    def prepare_create(self, core: "Core", write: "Write") -> None:
        """What the server alone sets, whatever admission made of the object."""
        codec.settle(write.value, write.request.emptied)
        (custom if write.resource.custom else builtin).prepare_create(core, write.resource, write.value)

    def check_create(self, core: "Core", write: "Write") -> None:
        resource, value = write.resource, write.value
        causes = list(check_metadata(resource, value["metadata"]))
        others = list((custom if resource.custom else builtin).problems(core, write))
        causes = others if others and resource.full_name in SPEC_FIRST else [*causes, *others]
        if causes:
            raise errors.invalid(resource.kind, _told_group(resource), value["metadata"].get("name", ""), causes)

    # --- update

    def prepare_update(self, core: "Core", write: "Write") -> None:
        """What an update can not change is put back; generation counts changes of intent."""
        codec.settle(write.value, write.request.emptied)
        self.keep_server_fields(write)
        (custom if write.resource.custom else builtin).prepare_update(core, write)

    def keep_server_fields(self, write: "Write") -> None:
        metadata, live = write.value["metadata"], write.live["metadata"]
        for field in (*SERVER_OWNED, "generation", "generateName", "name", "namespace"):
            if field in live:
                metadata[field] = live[field]
            else:
                metadata.pop(field, None)
        metadata["resourceVersion"] = live["resourceVersion"]

    def check_update(self, core: "Core", write: "Write") -> None:
        resource, value = write.resource, write.value
        causes = list(check_metadata(resource, value["metadata"], write.live["metadata"]))
        # the real server looks at this twice for its own kinds, and says it twice
        causes += [*check_metadata_update(value["metadata"], write.live["metadata"])] * (1 if resource.custom else 2)
        causes += (custom if resource.custom else builtin).problems(core, write)
        if causes:
            raise errors.invalid(resource.kind, _told_group(resource), value["metadata"]["name"], causes)

    # --- both

    def committing(self, core: "Core", write: "Write") -> None:
        """Last call before the write is stored."""
        if not write.resource.custom and not write.subresource:
            write.request.warnings.extend(warnings.of(write.resource.bucket, write.value, write.live))
        if write.resource.bucket == registrar.BUCKET and not write.subresource:
            write.request.warnings.extend(checks.warnings(write.value))
        if write.resource.bucket == registrar.BUCKET:
            registrar.accepted(core, write.value)

    def reset_fields(self, resource: Resource, subresource: str) -> frozenset[str]:
        """Top-level fields that a write to this endpoint does not change."""
        if subresource == "status":
            return frozenset({"spec"})
        return frozenset({"status"}) if "status" in resource.subresources else frozenset()

    def reachable(self, resource: Resource, config: Json, subresource: str) -> Json:
        """An apply configuration without the fields that this endpoint does not write: nobody owns what is ignored."""
        has_status = "status" in resource.subresources
        if subresource == "status":
            return {key: item for key, item in config.items() if key in ("apiVersion", "kind", "metadata", "status")}
        return {key: item for key, item in config.items() if not (key == "status" and has_status)}

    def grace(self, resource: Resource, value: Json, asked: int | None) -> int:
        """Seconds an object is given before it goes. Only pods take their time: their node confirms the end."""
        if resource.bucket != "pods":
            return 0
        spec: Json = value.get("spec") or {}
        default: Any = spec.get("terminationGracePeriodSeconds", 30)
        seconds = default if asked is None else asked
        if not spec.get("nodeName") or (value.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
            return 0
        return 1 if seconds < 0 else int(seconds)


def _told_group(resource: Resource) -> str:
    """Events are told as those of the first group, whichever they were written by."""
    return "" if resource.bucket == EVENT_BUCKET else resource.group
