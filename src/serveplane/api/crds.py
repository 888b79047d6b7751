"""Custom resource definitions of every kind, in both sizes.

Everything here is a table; `definition` turns a row of it into the object that an API server takes.
"""

from typing import NamedTuple

from serveplane.api import keys
from serveplane.api.inferencegraph.types import InferenceGraph
from serveplane.api.inferenceservice.types import InferenceService
from serveplane.api.llminferenceservice.older import OlderLLMInferenceService, OlderLLMInferenceServiceConfig
from serveplane.api.llminferenceservice.types import LLMInferenceService, LLMInferenceServiceConfig
from serveplane.api.localmodel.types import LocalModelCache, LocalModelNode, LocalModelNodeGroup
from serveplane.api.model import Model
from serveplane.api.schema import published, relaxed, schema_of
from serveplane.api.servingruntime import ServingRuntime
from serveplane.api.storagecontainer import ClusterStorageContainer
from serveplane.api.trainedmodel import TrainedModel
from serveplane.objects import Json

TYPE_FIELDS: Json = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}


class Column(NamedTuple):
    """A column that `kubectl get` prints; priority 1 is for `-o wide`."""

    name: str
    type: str
    path: str
    priority: int = 0


class Version(NamedTuple):
    name: str
    model: type[Model]
    storage: bool = True
    templated: tuple[str, ...] = ()
    """Paths below `spec` that may hold template expressions, so that patterns and lengths say nothing about them."""


class Webhook(NamedTuple):
    """The service that converts between the versions of a kind."""

    service: str
    path: str = "/convert"
    namespace: str = "kserve"


class Definition(NamedTuple):
    kind: str
    plural: str
    versions: tuple[Version, ...]
    columns: tuple[Column, ...] = ()
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    status: bool = True
    """Whether the status is a subresource."""
    conversion: Webhook | None = None

    @property
    def name(self) -> str:
        return f"{self.plural}.{keys.GROUP}"


def _condition(field: str) -> str:
    return f".status.conditions[?(@.type=='Ready')].{field}"


_TRAFFIC = ".status.components.predictor.traffic"
AGE = Column("Age", "date", ".metadata.creationTimestamp")
URL = Column("URL", "string", ".status.url")
READY = Column("Ready", "string", _condition("status"))
REASON = Column("Reason", "string", _condition("reason"))
RUNTIME_COLUMNS = (
    Column("Disabled", "boolean", ".spec.disabled"),
    Column("ModelType", "string", ".spec.supportedModelFormats[*].name"),
    Column("Containers", "string", ".spec.containers[*].name"),
    AGE,
)
SERVICE_COLUMNS = (
    URL,
    READY,
    Column("Prev", "integer", f"{_TRAFFIC}[?(@.tag=='prev')].percent"),
    Column("Latest", "integer", f"{_TRAFFIC}[?(@.latestRevision==true)].percent"),
    Column("PrevRolledoutRevision", "string", f"{_TRAFFIC}[?(@.tag=='prev')].revisionName"),
    Column("LatestReadyRevision", "string", f"{_TRAFFIC}[?(@.latestRevision==true)].revisionName"),
    AGE,
)

LLM_WEBHOOK = Webhook("llmisvc-webhook-server-service")
TEMPLATED = (
    "router.route.http.spec",
    "router.scheduler.pool.spec",
    "router.scheduler.template",
    "router.scheduler.tokenizer.template",
    "template",
    "worker",
    "prefill.template",
    "prefill.worker",
)

DEFINITIONS = (
    Definition(
        "InferenceService", "inferenceservices", (Version("v1beta1", InferenceService),), SERVICE_COLUMNS, ("isvc",)
    ),
    Definition(
        "ServingRuntime", "servingruntimes", (Version("v1alpha1", ServingRuntime),), RUNTIME_COLUMNS, status=False
    ),
    Definition(
        "ClusterServingRuntime",
        "clusterservingruntimes",
        (Version("v1alpha1", ServingRuntime),),
        RUNTIME_COLUMNS,
        namespaced=False,
        status=False,
    ),
    Definition(
        "ClusterStorageContainer",
        "clusterstoragecontainers",
        (Version("v1alpha1", ClusterStorageContainer),),
        namespaced=False,
        status=False,
    ),
    Definition("TrainedModel", "trainedmodels", (Version("v1alpha1", TrainedModel),), (URL, READY, AGE), ("tm",)),
    Definition("InferenceGraph", "inferencegraphs", (Version("v1alpha1", InferenceGraph),), (URL, READY, AGE), ("ig",)),
    Definition("LocalModelCache", "localmodelcaches", (Version("v1alpha1", LocalModelCache),), namespaced=False),
    Definition("LocalModelNamespaceCache", "localmodelnamespacecaches", (Version("v1alpha1", LocalModelCache),)),
    Definition(
        "LocalModelNodeGroup",
        "localmodelnodegroups",
        (Version("v1alpha1", LocalModelNodeGroup),),
        namespaced=False,
        status=False,
    ),
    Definition(
        "LLMInferenceService",
        "llminferenceservices",
        (Version("v1alpha1", OlderLLMInferenceService, storage=False), Version("v1alpha2", LLMInferenceService)),
        (URL, READY, REASON, AGE, Column("URLs", "string", ".status.addresses[*].url", priority=1)),
        ("llmisvc",),
        conversion=LLM_WEBHOOK,
    ),
    Definition(
        "LLMInferenceServiceConfig",
        "llminferenceserviceconfigs",
        (
            Version("v1alpha1", OlderLLMInferenceServiceConfig, storage=False, templated=TEMPLATED),
            Version("v1alpha2", LLMInferenceServiceConfig, templated=TEMPLATED),
        ),
        (READY, REASON, AGE),
        conversion=LLM_WEBHOOK,
    ),
    Definition("LocalModelNode", "localmodelnodes", (Version("v1alpha1", LocalModelNode),), namespaced=False),
)


def custom_resource_definitions(full: bool = True) -> list[Json]:
    """All of them, ready to apply."""
    return [definition(row, full) for row in DEFINITIONS]


def definition(row: Definition, full: bool = True) -> Json:
    singular = row.kind.lower()
    names: Json = {"kind": row.kind, "listKind": f"{row.kind}List", "plural": row.plural, "singular": singular}
    names["categories"] = ["kserve"]  # `kubectl get kserve` lists everything
    if row.short_names:
        names["shortNames"] = list(row.short_names)
    spec: Json = {
        "group": keys.GROUP,
        "names": names,
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "versions": [_version(row, version, full) for version in row.versions],
    }
    if row.conversion is not None:
        spec["conversion"] = _conversion(row.conversion)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": row.name},
        "spec": spec,
    }


def _version(row: Definition, version: Version, full: bool) -> Json:
    found: Json = {"name": version.name, "served": True, "storage": version.storage}
    if row.columns:
        found["additionalPrinterColumns"] = [_column(column) for column in row.columns]
    if row.status:
        found["subresources"] = {"status": {}}
    return found | {"schema": {"openAPIV3Schema": published(version_schema(version, full))}}


def version_schema(version: Version, full: bool = True) -> Json:
    """The schema of one version of a kind, for the API server and for our own checks alike."""
    schema = object_schema(version.model, full)
    for path in version.templated:
        schema = _relaxed_at(schema, ("spec", *path.split(".")))
    return schema


def _relaxed_at(schema: Json, path: tuple[str, ...]) -> Json:
    if not path:
        return relaxed(schema)
    properties = schema.get("properties", {})
    if path[0] not in properties:
        return schema
    return schema | {"properties": properties | {path[0]: _relaxed_at(properties[path[0]], path[1:])}}


def object_schema(model: type[Model], full: bool = True) -> Json:
    """The schema of a whole object of a kind, with the fields that every object has."""
    schema = schema_of(model, full)
    required = [name for name in schema.get("required", []) if name not in ("spec", "metadata")]
    rest = {key: value for key, value in schema.items() if key not in ("required", "properties")}
    return rest | {"properties": schema["properties"] | TYPE_FIELDS} | ({"required": required} if required else {})


def _column(column: Column) -> Json:
    found: Json = {"jsonPath": column.path, "name": column.name, "type": column.type}
    return found | ({"priority": column.priority} if column.priority else {})


def _conversion(webhook: Webhook) -> Json:
    service = {"name": webhook.service, "namespace": webhook.namespace, "path": webhook.path}
    client = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1", "v1beta1"]}
    return {"strategy": "Webhook", "webhook": client}
