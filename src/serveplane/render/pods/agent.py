"""The agent sidecar: it logs, batches and loads models in front of the server's own port."""
import posixpath
from collections.abc import Iterator, Mapping

import msgspec

from serveplane.api import keys
from serveplane.api.inferenceservice.types import InferenceService, LoggerStorage
from serveplane.api.inferenceservice.types import Logger as LoggerSpec
from serveplane.objects import Json
from serveplane.render.facts import Facts
from serveplane.render.names import AGENT_PORT, COMPONENT_LABEL, DEFAULT_PORT, MODEL_MOUNT
from serveplane.render.pods.credentials import account_name, add_account_credentials
from serveplane.render.pods.draft import PodDraft, add_mount, set_env

AGENT = "agent"
QUEUE_PROXY = "queue-proxy"
CA_VOLUME, CA_MOUNT = "agent-ca-bundle", "/etc/tls/logger"
MODEL_VOLUME, CONFIG_VOLUME = "model-dir", "model-config"
LOGGER_ACCOUNT = "logger-sa"
_PROBE_ORDER = ("exec", "httpGet", "tcpSocket", "grpc", "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold",
                "failureThreshold", "terminationGracePeriodSeconds")
_ACTION_ORDER = ("path", "port", "host", "scheme", "httpHeaders")


def add_agent(draft: PodDraft, service: InferenceService | None, facts: Facts) -> None:
    """One sidecar for all three duties; injected once."""
    wanted = [key for key in (keys.LOGGER, keys.AGENT, keys.BATCHER) if key in draft.annotations]
    if not wanted or draft.container(AGENT):
        return
    section = facts.settings.agent
    container: Json = {
        "name": AGENT, "image": section.image, "resources": section.requirements,
        "args": list(_arguments(draft, service, facts)),
        "ports": [{"name": "agent-port", "containerPort": AGENT_PORT, "protocol": "TCP"}],
    }
    if security := draft.containers[0].get("securityContext"):
        container["securityContext"] = security
    _add_probe(draft, container)
    _add_credentials(draft, container, service, facts)
    if keys.LOGGER in draft.annotations:
        _add_logger_bundle(draft, container, facts)
    if keys.AGENT in draft.annotations:
        _add_model_volumes(draft, container)
    draft.containers.append(container)


def _arguments(draft: PodDraft, service: InferenceService | None, facts: Facts) -> Iterator[str]:
    notes = draft.annotations
    if keys.AGENT in notes:
        yield "--enable-puller"
        yield from _option("--config-dir", notes.get(keys.CONFIG_MOUNT_PATH))
        yield from _option("--model-dir", notes.get(keys.MODEL_DIR))
    if keys.BATCHER in notes:
        yield "--enable-batcher"
        yield from _option("--max-batchsize", notes.get(keys.BATCHER_MAX_BATCH_SIZE))
        yield from _option("--max-latency", notes.get(keys.BATCHER_MAX_LATENCY))
    if keys.LOGGER in notes:
        yield from _logger_arguments(draft, service, facts)
    yield from ("--component-port", str(_component_port(draft)))


def _logger_arguments(draft: PodDraft, service: InferenceService | None, facts: Facts) -> Iterator[str]:
    section, notes, labels = facts.settings.logger, draft.annotations, draft.labels
    yield from ("--log-url", notes.get(keys.LOGGER_SINK_URL) or section.default_url)
    yield from ("--source-uri", draft.pod_name)
    yield from ("--log-mode", notes.get(keys.LOGGER_MODE) or "all")
    yield from ("--inference-service", labels.get(keys.INFERENCE_SERVICE, ""), "--namespace", draft.namespace)
    yield from ("--endpoint", labels.get("endpoint", ""), "--component", labels.get(COMPONENT_LABEL, ""))
    yield from _sink_arguments(_logger_of(service), facts)
    if headers := notes.get(keys.LOGGER_METADATA_HEADERS):
        yield from ("--metadata-headers", headers)
    if names := notes.get(keys.LOGGER_METADATA_ANNOTATIONS):
        yield from ("--metadata-annotations", _annotation_pairs(names, notes))
    if section.ca_bundle and section.ca_cert_file:
        yield from ("--logger-ca-cert-file", section.ca_cert_file)
    yield from ("--logger-tls-skip-verify", "true" if section.tls_skip_verify else "false")


def _sink_arguments(logger: LoggerSpec | None, facts: Facts) -> Iterator[str]:
    """Where records are kept if not only sent: the predictor's own wish, else the cluster's."""
    section = facts.settings.logger
    storage = _storage(logger, facts)
    if storage is not None:
        yield from _option("--log-store-path", storage.path)
        yield from _option("--log-store-format", (storage.parameters or {}).get("format"))
    yield from _option("--log-marshaller-url", (logger.marshaller_url if logger else None) or section.marshaller_url)
    size = (logger.batch_size if logger else None) or section.batch_size or 0
    yield from _option("--log-batch-size", str(size) if size > 0 else None)
    yield from _option("--log-batch-interval", (logger.batch_interval if logger else None) or section.batch_interval)


def _logger_of(service: InferenceService | None) -> LoggerSpec | None:
    return service.spec.predictor.logger if service is not None else None


def _storage(logger: LoggerSpec | None, facts: Facts) -> LoggerStorage | None:
    if logger is not None:
        return logger.storage
    raw = facts.settings.logger.storage
    return None if not raw else LoggerStorage(path=raw.get("path"), parameters=raw.get("parameters"), key=raw.get("key"),
                                              service_account_name=raw.get("serviceAccountName"))


def logger_account(service: InferenceService | None, facts: Facts) -> str:
    """The ServiceAccount whose secrets open the store of the logger; empty where records are only sent."""
    storage = _storage(_logger_of(service), facts)
    return (storage.service_account_name or LOGGER_ACCOUNT) if storage is not None else ""


def _annotation_pairs(names: str, annotations: Mapping[str, str]) -> str:
    return ",".join(f"{name}={annotations[name]}" for name in names.split(",") if name in annotations)


def _option(name: str, value: str | None) -> Iterator[str]:
    if value:
        yield from (name, value)


def _served(draft: PodDraft) -> Json:
    """The container that answers requests, which the agent stands in front of."""
    return draft.container(keys.TRANSFORMER_CONTAINER) or draft.container(keys.KSERVE_CONTAINER) or draft.containers[0]


def _component_port(draft: PodDraft) -> int:
    ports = _served(draft).get("ports") or []
    return int(ports[0]["containerPort"]) if ports else DEFAULT_PORT


def _add_probe(draft: PodDraft, container: Json) -> None:
    """The agent is ready when what stands behind it is: it is told the server's probe, and asks it itself."""
    path = "/"
    queue_proxy = draft.container(QUEUE_PROXY)
    if queue_proxy is not None:
        container["env"] = list(queue_proxy.get("env") or [])
        set_env(queue_proxy, "USER_PORT", str(AGENT_PORT))
    else:
        probe = (draft.container(keys.TRANSFORMER_CONTAINER) or draft.containers[0]).get("readinessProbe") or {}
        if "httpGet" in probe or "tcpSocket" in probe:
            set_env(container, "SERVING_READINESS_PROBE", _probe_text(probe))
            path = (probe.get("httpGet") or {}).get("path") or "/"
    header = {"name": "K-Network-Probe", "value": "queue"}
    container["readinessProbe"] = {"httpGet": {"path": path, "port": AGENT_PORT, "httpHeaders": [header]}}


def _probe_text(probe: Json) -> str:
    """In the order of Kubernetes' own type, so that the text is the same whoever wrote it."""
    ordered = {key: probe[key] for key in _PROBE_ORDER if key in probe}
    for action in ("httpGet", "tcpSocket"):
        if action in ordered:
            ordered[action] = {key: ordered[action][key] for key in _ACTION_ORDER if key in ordered[action]}
    return msgspec.json.encode(ordered).decode()


def _add_credentials(draft: PodDraft, container: Json, service: InferenceService | None, facts: Facts) -> None:
    add_account_credentials(draft, container, account_name(draft.spec), facts)
    if keys.LOGGER in draft.annotations and (account := logger_account(service, facts)):
        add_account_credentials(draft, container, account, facts)


def _add_logger_bundle(draft: PodDraft, container: Json, facts: Facts) -> None:
    if bundle := facts.settings.logger.ca_bundle:
        draft.add_volume({"name": CA_VOLUME, "configMap": {"name": bundle, "optional": True}})
        add_mount(container, CA_VOLUME, CA_MOUNT, read_only=True)


def _add_model_volumes(draft: PodDraft, container: Json) -> None:
    folder = draft.annotations.get(keys.MODEL_DIR) or MODEL_MOUNT
    draft.add_volume({"name": MODEL_VOLUME, "emptyDir": {}})
    add_mount(container, MODEL_VOLUME, posixpath.normpath(folder))
    server = draft.container(keys.KSERVE_CONTAINER)
    if server is not None:
        add_mount(server, MODEL_VOLUME, posixpath.normpath(folder))
    if name := draft.annotations.get(keys.CONFIG_VOLUME_NAME):
        draft.add_volume({"name": CONFIG_VOLUME, "configMap": {"name": name}})
        add_mount(container, CONFIG_VOLUME, draft.annotations.get(keys.CONFIG_MOUNT_PATH) or "/mnt/configs")
