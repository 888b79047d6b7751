"""Reading the central ConfigMap.

Parsed once per change into one frozen `Settings`. A section that cannot be used keeps its last good value (or what
KServe ships) and is named in `problems` with key, line and field, so that one bad section affects only what needs it.
Keys and fields we do not know are kept out of the way and reported as notes: a newer KServe may know them.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from serveplane.api.policy import Policy
from serveplane.objects import Json
from serveplane.settings import sections as known
from serveplane.settings.checks import CHECKS
from serveplane.settings.sections import Section

CONFIG_MAP = "inferenceservice-config"


class SettingProblem(NamedTuple):
    """What is wrong in the ConfigMap, and where: `ingress, line 3: urlScheme: expected a string`."""

    key: str
    field: str
    message: str
    line: int = 0
    fatal: bool = True
    """False for what we only do not know, which changes nothing."""

    def __str__(self) -> str:
        place = f"{self.key}, line {self.line}" if self.line else self.key
        return ": ".join(part for part in (place, self.field, self.message) if part)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an administrator decides for all services, by section."""

    explainers: known.Explainers = known.Explainers(
        art=known.ArtImage(image="kserve/art-explainer", default_image_version="latest")
    )
    inference_service: known.ServiceDefaults = known.ServiceDefaults(
        resource=known.Resources(cpu_limit="1", memory_limit="2Gi", cpu_request="1", memory_request="2Gi")
    )
    multi_node: known.MultiNode = known.MultiNode()
    deploy: known.Deploy = known.Deploy(default_deployment_mode="Knative")
    ingress: known.Ingress = known.Ingress(
        kserve_ingress_gateway="kserve/kserve-ingress-gateway",
        ingress_gateway="knative-serving/knative-ingress-gateway",
        local_gateway="knative-serving/knative-local-gateway",
        local_gateway_service="knative-local-gateway.istio-system.svc.cluster.local",
        ingress_class_name="istio",
    )
    service: known.Service = known.Service()
    security: known.Security = known.Security(auto_mount_service_account_token=True)
    local_model: known.LocalModel = known.LocalModel(
        job_namespace="kserve-localmodel-jobs",
        default_job_image="kserve/storage-initializer:latest",
        fs_group=1000,
        job_ttl_seconds_after_finished=3600,
        reconcilation_frequency_in_secs=60,
    )
    storage_initializer: known.StorageInitializer = known.StorageInitializer(
        memory_request="100Mi",
        memory_limit="1Gi",
        cpu_request="100m",
        cpu_limit="1",
        enable_modelcar=True,
        uid_modelcar=1010,
    )
    credentials: known.Credentials = known.Credentials(
        storage_secret_name_annotation="serving.kserve.io/storageSecretName",
        s3=known.S3(s3_access_key_id_name="AWS_ACCESS_KEY_ID", s3_secret_access_key_name="AWS_SECRET_ACCESS_KEY"),
    )
    logger: known.Logger = known.Logger(
        image="kserve/agent:latest",
        memory_request="100Mi",
        memory_limit="1Gi",
        cpu_request="100m",
        cpu_limit="1",
        default_url="http://default-broker",
    )
    batcher: known.Batcher = known.Batcher(
        image="kserve/agent:latest",
        memory_request="1Gi",
        memory_limit="1Gi",
        cpu_request="1",
        cpu_limit="1",
        max_batch_size="32",
        max_latency="5000",
    )
    agent: known.Agent = known.Agent(
        image="kserve/agent:latest", memory_request="100Mi", memory_limit="1Gi", cpu_request="100m", cpu_limit="1"
    )
    router: known.Router = known.Router(
        image="kserve/router:latest",
        memory_request="100Mi",
        memory_limit="1Gi",
        cpu_request="100m",
        cpu_limit="1",
        image_pull_policy="IfNotPresent",
    )
    metrics_aggregator: known.MetricsAggregator = known.MetricsAggregator(
        enable_metric_aggregation="false", enable_prometheus_scraping="false"
    )
    opentelemetry_collector: known.OpenTelemetryCollector = known.OpenTelemetryCollector(
        scrape_interval="5s",
        metric_receiver_endpoint="keda-otel-scaler.keda.svc:4317",
        metric_scaler_endpoint="keda-otel-scaler.keda.svc:4318",
        resource=known.Resources(cpu_limit="1", memory_limit="2Gi", cpu_request="200m", memory_request="512Mi"),
    )
    autoscaler: known.Autoscaler = known.Autoscaler(
        scale_up_stabilization_window_seconds="0", scale_down_stabilization_window_seconds="300"
    )
    scheduler: known.Scheduler = known.Scheduler()
    wva: known.Wva = known.Wva()
    unknown: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Keys of a newer KServe, as they stand."""
    problems: tuple[SettingProblem, ...] = ()

    @property
    def policy(self) -> Policy:
        """The part that defaults and validation need."""
        resource = self.inference_service.resource
        return Policy(
            default_mode=self.deploy.mode,
            limits=resource.limits,
            requests=resource.requests,
            art_version=self.explainers.art.default_image_version,
            auto_mount_token=self.security.auto_mount_service_account_token,
            local_models=self.local_model.enabled,
            gpu_resource_types=self.multi_node.gpu_resource_types,
        )

    def trouble(self, key: str) -> str:
        """Why the section as written is not in use; empty if it is."""
        return "; ".join(str(problem) for problem in self.problems if problem.key == key and problem.fatal)


KSERVE = Settings()
"""What KServe ships: the value of every section that a ConfigMap does not have."""

SHIPPED = msgspec.structs.replace(
    KSERVE,
    deploy=known.Deploy(default_deployment_mode="Standard"),
    ingress=msgspec.structs.replace(KSERVE.ingress, enable_gateway_api=True),
)
"""What we ship in `config/configmap`: holds as long as there is no ConfigMap at all, as in the first seconds of a
cluster.
"""

SECTIONS: dict[str, str] = {
    "explainers": "explainers",
    "inferenceService": "inference_service",
    "multiNode": "multi_node",
    "deploy": "deploy",
    "ingress": "ingress",
    "service": "service",
    "security": "security",
    "localModel": "local_model",
    "storageInitializer": "storage_initializer",
    "credentials": "credentials",
    "logger": "logger",
    "batcher": "batcher",
    "agent": "agent",
    "router": "router",
    "metricsAggregator": "metrics_aggregator",
    "opentelemetryCollector": "opentelemetry_collector",
    "autoscaler": "autoscaler",
    "scheduler": "scheduler",
    "autoscaling-wva-controller-config": "wva",
}
"""Key in the ConfigMap -> attribute of `Settings`."""


def settings_from(config_map: Json | None, previous: Settings = SHIPPED) -> Settings:
    """The settings of a ConfigMap object; without one, those that we ship."""
    return SHIPPED if config_map is None else parse(config_map.get("data") or {}, previous)


def parse(data: Mapping[str, str], previous: Settings = SHIPPED) -> Settings:
    """The settings in the ConfigMap's data; bad sections keep their value in `previous`."""
    values: Json = {}
    problems: list[SettingProblem] = []
    for key, attribute in SECTIONS.items():
        if not str(data.get(key) or "").strip():
            continue
        section, found = _section(key, str(data[key]), type(getattr(KSERVE, attribute)))
        problems += found
        values[attribute] = getattr(previous, attribute) if section is None else section
    unknown = {key: text for key, text in data.items() if key not in SECTIONS and key != "_example"}
    problems += [SettingProblem(key, "", "unknown key, kept as it is", fatal=False) for key in sorted(unknown)]
    return Settings(**values, unknown=unknown, problems=tuple(problems))


def _section(key: str, text: str, kind: type[Section]) -> tuple[Section | None, list[SettingProblem]]:
    try:
        raw = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        return None, [SettingProblem(key, "", f"is not JSON: {error}", _line_of_byte(text, str(error)))]
    if not isinstance(raw, dict):
        return None, [SettingProblem(key, "", "expected a JSON object", 1)]
    notes = [
        SettingProblem(key, path, "unknown field, ignored", _line_of_field(text, path), fatal=False)
        for path in _unknown_fields(raw, kind)
    ]
    try:
        section = msgspec.convert(_without_nulls(raw), kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$.")
        field = path.rstrip("`")
        return None, [
            *notes,
            SettingProblem(key, field, message[:1].lower() + message[1:], _line_of_field(text, field)),
        ]
    wrong = [
        SettingProblem(key, field, message, _line_of_field(text, field)) for field, message in _check(key, section)
    ]
    return (None if wrong else section), notes + wrong


def _check(key: str, section: Any) -> Iterator[tuple[str, str]]:
    check: Callable[[Any], Iterator[tuple[str, str]]] | None = CHECKS.get(key)
    if check is not None:
        yield from check(section)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def _unknown_fields(raw: Json, kind: Any, at: str = "") -> Iterator[str]:
    """Paths of fields that the section's class does not have; free-form maps are not looked into."""
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for name, value in raw.items():
        path = f"{at}{name}"
        if name not in fields:
            yield path
        elif isinstance(value, dict):
            for part in getattr(fields[name], "__args__", (fields[name],)):
                if isinstance(part, type) and issubclass(part, Section):
                    yield from _unknown_fields(value, part, f"{path}.")


def _line_of_field(text: str, path: str) -> int:
    """The line where a field's name first stands: good enough to find it, and it needs no second parser."""
    name = re.split(r"[.\[]", path)[-1] if path else ""
    index = text.find(f'"{name}"') if name else -1
    return text.count("\n", 0, index) + 1 if index >= 0 else 0


def _line_of_byte(text: str, message: str) -> int:
    found = re.search(r"byte (\d+)", message)
    if found is None:
        return text.count("\n") + 1
    return text.encode()[: int(found[1])].count(b"\n") + 1
