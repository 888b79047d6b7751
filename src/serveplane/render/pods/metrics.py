"""Metrics of a pod: annotations that Prometheus reads, and one endpoint for two containers where Knative's proxy runs."""
from serveplane.api import keys
from serveplane.render.facts import Facts
from serveplane.render.names import DEFAULT_PORT
from serveplane.render.pods.draft import PodDraft, set_env

QUEUE_PROXY = "queue-proxy"
AGGREGATE_PORT = 9088
QUEUE_PROXY_PORT = 9091
METRICS_PATH = "/metrics"


def add_metrics(draft: PodDraft, facts: Facts) -> None:
    section, notes = facts.settings.metrics_aggregator, draft.annotations
    notes.setdefault(keys.ENABLE_METRIC_AGGREGATION, _text(section.enable_metric_aggregation))
    notes.setdefault(keys.ENABLE_PROMETHEUS_SCRAPING, _text(section.enable_prometheus_scraping))
    aggregated = notes[keys.ENABLE_METRIC_AGGREGATION] == "true"
    if aggregated:
        _aggregate(draft)
    if notes[keys.ENABLE_PROMETHEUS_SCRAPING] == "true":
        notes["prometheus.io/port"] = str(AGGREGATE_PORT if aggregated else QUEUE_PROXY_PORT)
        notes["prometheus.io/path"] = METRICS_PATH


def _aggregate(draft: PodDraft) -> None:
    proxy = draft.container(QUEUE_PROXY)
    if proxy is None:
        return
    set_env(proxy, "KSERVE_CONTAINER_PROMETHEUS_METRICS_PORT", draft.annotations.get(keys.PROMETHEUS_PORT, str(DEFAULT_PORT)))
    set_env(proxy, "KSERVE_CONTAINER_PROMETHEUS_METRICS_PATH", draft.annotations.get(keys.PROMETHEUS_PATH, METRICS_PATH))
    set_env(proxy, "AGGREGATE_PROMETHEUS_METRICS_PORT", str(AGGREGATE_PORT))
    ports = proxy.setdefault("ports", [])
    if all(port.get("containerPort") != AGGREGATE_PORT for port in ports):
        ports.append({"name": "aggr-metric", "containerPort": AGGREGATE_PORT, "protocol": "TCP"})


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
