"""The Deployments behind a workload, and the defaults that KServe writes into their pods.

Names and metadata come with the workload; readiness is judged in `status`, never here.
"""
from collections.abc import Mapping

from serveplane.api.keys import KSERVE_CONTAINER, TRANSFORMER_CONTAINER
from serveplane.api.mode import Mode
from serveplane.objects import Json
from serveplane.render.names import APP_LABEL, DEFAULT_PORT
from serveplane.render.workloads import Workload
from serveplane.settings import Settings

REVISION_HISTORY = 10      # the API server would default to these two; written out, a diff stays quiet
PROGRESS_DEADLINE = 600
POD_DEFAULTS: Json = {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "securityContext": {},
                      "schedulerName": "default-scheduler"}
CONTAINER_DEFAULTS: Json = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                            "imagePullPolicy": "IfNotPresent"}
PROBED = (KSERVE_CONTAINER, TRANSFORMER_CONTAINER)


def deployments(workload: Workload, settings: Settings) -> list[Json]:
    """One Deployment, or two where workers stand beside a head."""
    head = _deployment(workload.name, workload, workload.labels, workload.annotations, workload.pod, settings)
    if (count := replicas(workload)) is not None:
        head["spec"]["replicas"] = count
    nodes = workload.multi_node
    if nodes is None:
        return [head]
    workers = _deployment(nodes.name, workload, nodes.labels, nodes.annotations, nodes.pod, settings)
    workers["spec"]["replicas"] = nodes.replicas
    workers["spec"]["strategy"] = _group_strategy(workers["spec"]["strategy"])
    return [head, workers]


def replicas(workload: Workload) -> int | None:
    """A number only where no autoscaler rules: the count is then the user's own, and one if they say nothing (any more)."""
    if workload.autoscaler_class != "none":
        return None
    return 1 if workload.spec.min_replicas is None else workload.spec.min_replicas


def _deployment(name: str, workload: Workload, labels: Mapping[str, str], annotations: Mapping[str, str], pod: Json,
                settings: Settings) -> Json:
    metadata = {"name": name, "namespace": workload.namespace, "labels": dict(labels), "annotations": dict(annotations)}
    spec: Json = {"selector": {"matchLabels": {APP_LABEL: labels[APP_LABEL]}},
                  "template": {"metadata": metadata, "spec": _with_defaults(pod)}, "strategy": _strategy(workload, settings)}
    if workload.spec.deployment_strategy is None:
        spec |= {"revisionHistoryLimit": REVISION_HISTORY, "progressDeadlineSeconds": PROGRESS_DEADLINE}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def _strategy(workload: Workload, settings: Settings) -> Json:
    if workload.spec.deployment_strategy is not None:
        return workload.spec.deployment_strategy
    rollout: Json = {"maxSurge": "25%", "maxUnavailable": "25%"}
    chosen = settings.deploy.deployment_rollout_strategy
    if chosen is not None and chosen.default_rollout is not None and settings.deploy.mode is Mode.STANDARD:
        wishes = (("maxSurge", chosen.default_rollout.max_surge), ("maxUnavailable", chosen.default_rollout.max_unavailable))
        rollout |= {name: _count_or_share(value) for name, value in wishes if value is not None}
    return {"type": "RollingUpdate", "rollingUpdate": rollout}


def _count_or_share(value: str | int) -> str | int:
    """The API server takes `25%` and `1`, not `"1"`."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _group_strategy(strategy: Json) -> Json:
    """Multi-node groups bring up a full second set first: a half-replaced group cannot serve."""
    if strategy.get("type") != "RollingUpdate":
        return strategy
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": "0%"}}


def _with_defaults(pod: Json) -> Json:
    containers = [_container_with_defaults(container) for container in pod["containers"]]
    return {**POD_DEFAULTS, **pod, "containers": containers}


def _container_with_defaults(container: Json) -> Json:
    result = {**CONTAINER_DEFAULTS, **container}
    if container["name"] in PROBED and not container.get("readinessProbe"):
        result["readinessProbe"] = _tcp_probe(container)
    return result


def _tcp_probe(container: Json) -> Json:
    ports = container.get("ports") or []
    port = ports[0]["containerPort"] if ports else DEFAULT_PORT
    return {"tcpSocket": {"port": port}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
