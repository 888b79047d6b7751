"""The sections of the central ConfigMap, one class per key.

A field's default is what KServe's code assumes when the field is missing in a section that is there. What holds when a
whole section is missing is what KServe ships (`KSERVE` in `settings.parse`).
"""

from typing import Any, dataclass_transform

import msgspec

from serveplane.api.mode import Mode, parse_mode
from serveplane.api.policy import GPU_RESOURCE_TYPES

BUILT_IN_ANNOTATIONS = (
    "autoscaling.knative.dev/min-scale",
    "autoscaling.knative.dev/max-scale",
    "internal.serving.kserve.io/storage-initializer-sourceuri",
    "kubectl.kubernetes.io/last-applied-configuration",
    "modelFormat",
)
BUILT_IN_LABELS = ("networking.knative.dev/visibility",)
DOMAIN_TEMPLATE = "{{ .Name }}-{{ .Namespace }}.{{ .IngressDomain }}"

Text = str | int | bool
"""A value that administrators write with and without quotes."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of a section: unknown fields are kept out of it and reported, wrong types are refused."""


class Resources(Section):
    """The four figures that most sections carry; an empty one sets nothing."""

    cpu_request: str = ""
    memory_request: str = ""
    cpu_limit: str = ""
    memory_limit: str = ""

    @property
    def limits(self) -> dict[str, str]:
        return {name: value for name, value in (("cpu", self.cpu_limit), ("memory", self.memory_limit)) if value}

    @property
    def requests(self) -> dict[str, str]:
        return {name: value for name, value in (("cpu", self.cpu_request), ("memory", self.memory_request)) if value}

    @property
    def requirements(self) -> dict[str, dict[str, str]]:
        """As a container has them."""
        return {"limits": self.limits, "requests": self.requests}


class Image(Resources):
    """A sidecar: which image, and how much of the machine it gets."""

    image: str = ""


class ArtImage(Section):
    image: str = ""
    default_image_version: str = ""


class Explainers(Section):
    art: ArtImage = ArtImage()


class ServiceDefaults(Section):
    """`inferenceService`: default resources, and metadata that is not handed down to children."""

    resource: Resources = Resources()
    service_annotation_disallowed_list: tuple[str, ...] = ()
    service_label_disallowed_list: tuple[str, ...] = ()

    @property
    def disallowed_annotations(self) -> frozenset[str]:
        return frozenset((*BUILT_IN_ANNOTATIONS, *self.service_annotation_disallowed_list))

    @property
    def disallowed_labels(self) -> frozenset[str]:
        return frozenset((*BUILT_IN_LABELS, *self.service_label_disallowed_list))


class MultiNode(Section):
    custom_gpu_resource_type_list: tuple[str, ...] = msgspec.field(default=(), name="customGPUResourceTypeList")

    @property
    def gpu_resource_types(self) -> tuple[str, ...]:
        return (*GPU_RESOURCE_TYPES, *self.custom_gpu_resource_type_list)


class Rollout(Section):
    max_surge: str | int | None = None
    max_unavailable: str | int | None = None


class RolloutStrategy(Section):
    default_rollout: Rollout | None = None


class Deploy(Section):
    default_deployment_mode: str = ""
    deployment_rollout_strategy: RolloutStrategy | None = None

    @property
    def mode(self) -> Mode:
        return parse_mode(self.default_deployment_mode) or Mode.KNATIVE


class Ingress(Section):
    enable_gateway_api: bool = False
    kserve_ingress_gateway: str = ""
    ingress_gateway: str = ""
    local_gateway: str = ""
    local_gateway_service: str = ""
    knative_local_gateway_service: str = ""
    ingress_domain: str = "example.com"
    ingress_class_name: str | None = None
    additional_ingress_domains: tuple[str, ...] = ()
    domain_template: str = DOMAIN_TEMPLATE
    url_scheme: str = "http"
    disable_istio_virtual_host: bool = False
    disable_ingress_creation: bool = False
    disable_http_route_timeout: bool = msgspec.field(default=False, name="disableHTTPRouteTimeout")
    path_template: str = ""
    url_template: str = ""
    """Ours: the whole URL that a status tells, where scheme and host alone do not lead to the gateway (a port, a path)."""
    enable_llm_inference_service_tls: bool = msgspec.field(default=False, name="enableLLMInferenceServiceTLS")
    model_based_routing_header_name: str = "X-Gateway-Model-Name"
    model_based_routing_mode: str = "enabled"


class Service(Section):
    service_cluster_ip_none: bool = msgspec.field(default=False, name="serviceClusterIPNone")


class Security(Section):
    auto_mount_service_account_token: bool = False


class LocalModel(Section):
    enabled: bool = False
    job_namespace: str = ""
    default_job_image: str = ""
    fs_group: int | None = None
    job_ttl_seconds_after_finished: int | None = msgspec.field(default=None, name="jobTTLSecondsAfterFinished")
    reconcilation_frequency_in_secs: int | None = None
    disable_volume_management: bool = False


class StorageInitializer(Image):
    image: str = "kserve/storage-initializer:latest"
    ca_bundle_config_map_name: str = ""
    ca_bundle_volume_mount_path: str = "/etc/ssl/custom-certs"
    enable_modelcar: bool = False
    enable_oci_model_support: bool = False
    oci_model_mode: str = ""
    cpu_modelcar: str = "10m"
    memory_modelcar: str = "15Mi"
    uid_modelcar: int | None = None
    oci_insecure_registry: bool = False

    @property
    def oci_mode(self) -> str:
        """`modelcar`, `native`, `fetch`, or empty when OCI models are off."""
        return self.oci_model_mode or ("modelcar" if self.enable_modelcar or self.enable_oci_model_support else "")


class Gcs(Section):
    gcs_credential_file_name: str = "gcloud-application-credentials.json"


class S3(Section):
    s3_access_key_id_name: str = msgspec.field(default="awsAccessKeyID", name="s3AccessKeyIDName")
    s3_secret_access_key_name: str = "awsSecretAccessKey"
    s3_endpoint: str = ""
    s3_use_https: str = ""
    s3_region: str = ""
    s3_verify_ssl: str = msgspec.field(default="", name="s3VerifySSL")
    s3_use_virtual_bucket: str = ""
    s3_use_accelerate: str = ""
    s3_use_anonymous_credential: str = ""
    s3_ca_bundle_config_map: str = msgspec.field(default="", name="s3CABundleConfigMap")
    s3_ca_bundle: str = msgspec.field(default="", name="s3CABundle")


class Credentials(Section):
    storage_spec_secret_name: str = "storage-config"
    storage_secret_name_annotation: str = ""
    gcs: Gcs = Gcs()
    s3: S3 = S3()


class Logger(Image):
    default_url: str = ""
    ca_bundle: str = ""
    ca_cert_file: str = ""
    tls_skip_verify: bool = False
    storage: dict[str, Any] | None = None
    marshaller_url: str = ""
    batch_size: int | None = None
    batch_interval: str = ""


class Batcher(Image):
    max_batch_size: Text = ""
    max_latency: Text = ""


class Agent(Image):
    pass


class RouterHeaders(Section):
    propagate: tuple[str, ...] = ()


class Router(Image):
    headers: RouterHeaders | None = None
    image_pull_policy: str = ""
    image_pull_secrets: tuple[str, ...] = ()


class MetricsAggregator(Section):
    enable_metric_aggregation: Text = ""
    enable_prometheus_scraping: Text = ""


class OpenTelemetryCollector(Section):
    scrape_interval: str = ""
    metric_receiver_endpoint: str = ""
    metric_scaler_endpoint: str = ""
    resource: Resources = Resources()


class Autoscaler(Section):
    scale_up_stabilization_window_seconds: Text = ""
    scale_down_stabilization_window_seconds: Text = ""


class Scheduler(Section):
    """`scheduler` of the LLM kinds: the annotations under which a certificate's expiry is written (the first) and read (all).
    """

    expiration_annotations: tuple[str, ...] = ("certificates.kserve.io/expiration",)


class WvaPrometheus(Section):
    url: str = ""
    tls_insecure_skip_verify: bool = False
    auth_modes: str = ""
    trigger_auth_name: str = ""
    trigger_auth_kind: str = ""


class Wva(Section):
    """`autoscaling-wva-controller-config`: where the workload variant autoscaler publishes its figures."""

    prometheus: WvaPrometheus = WvaPrometheus()
