"""What the schemas of v1alpha1 have otherwise than v1alpha2; objects are converted before anybody reads them."""

from typing import Annotated, ClassVar, Literal

import msgspec

from serveplane.api.llminferenceservice.reported import OlderLlmStatus
from serveplane.api.llminferenceservice.types import (
    NAME_LENGTH,
    NOT_BOTH,
    SUBDOMAIN,
    LlmModelBase,
    LocalReference,
    RouterBase,
    SchedulerBase,
    StorageInitializer,
    Tracing,
    WorkloadBase,
)
from serveplane.api.model import Described, Int32, Model, Named, rules
from serveplane.api.reported import Reported
from serveplane.objects import Json


class OlderModel(LlmModelBase):
    criticality: Literal["Critical", "Standard", "Sheddable"] | None = None


class ExtensionReference(Model):
    group: Annotated[str, rules(maxLength=253, pattern=f"^$|{SUBDOMAIN}")] | None = None
    kind: Annotated[str, rules(minLength=1, maxLength=63)] | None = None
    name: Annotated[str, NAME_LENGTH]
    port_number: Annotated[Int32, rules(minimum=1, maximum=65535)] | None = None
    failure_mode: Literal["FailOpen", "FailClose"]


class OlderPoolSpec(Model):
    """An InferencePool of the Inference Extension v1alpha2."""

    selector: dict[str, Annotated[str, rules(maxLength=63)]]
    target_port_number: Int32
    extension_ref: ExtensionReference | None = None


class OlderPool(Model):
    ref: LocalReference | None = None
    spec: OlderPoolSpec | None = None


class OlderScheduler(SchedulerBase):
    pool: OlderPool | None = None


class OlderRouter(RouterBase):
    scheduler: OlderScheduler | None = None


class OlderLlmSpec(WorkloadBase):
    RULES: ClassVar[Json] = {"x-kubernetes-validations": [NOT_BOTH]}
    model: OlderModel | None = None
    storage_initializer: StorageInitializer | None = None
    prefill: WorkloadBase | None = None
    router: OlderRouter | None = None
    tracing: Tracing | None = None
    base_refs: tuple[LocalReference, ...] = ()


class OlderLLMInferenceService(Named):
    spec: OlderLlmSpec
    status: Annotated[Json, Described(OlderLlmStatus)] = msgspec.field(default_factory=dict)


class OlderLLMInferenceServiceConfig(Named):
    spec: OlderLlmSpec
    status: Annotated[Json, Described(Reported)] = msgspec.field(default_factory=dict)
