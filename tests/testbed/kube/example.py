"""A controller of the kind this library is for, as its users would write it: a Widget owns a Deployment, a Service and a ConfigMap.

Run as a program it is one replica of a manager, for the tests that kill and pause leaders:

    python -m tests.testbed.kube.example KUBECONFIG IDENTITY LEASE_NAMESPACE LEASE_SECONDS
"""

import asyncio
import sys
from datetime import timedelta
from typing import Any

from serveplane.kube import Key, Kind
from serveplane.kube.apply import ApplyEngine
from serveplane.kube.config import load_config
from serveplane.kube.controller import Controller
from serveplane.kube.http_transport import HttpTransport
from serveplane.kube.kind import is_being_deleted
from serveplane.kube.lease import LeaseOptions
from serveplane.kube.manager import Manager, ManagerOptions, run_program, run_until
from serveplane.kube.objects import write_status
from serveplane.kube.watches import Owned, Primary, generation_changed

Json = dict[str, Any]
GROUP = "example.serveplane.dev"
WIDGET = Kind(f"{GROUP}/v1", "Widget")
DEPLOYMENT, SERVICE, CONFIG_MAP = Kind("apps/v1", "Deployment"), Kind("v1", "Service"), Kind("v1", "ConfigMap")
CHILDREN = (DEPLOYMENT, SERVICE, CONFIG_MAP)

CRD: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "colour": {"type": "string"},
                                    "size": {"type": "integer"},
                                    "extra": {"type": "boolean"},
                                    "parts": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}},
                                        },
                                    },
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


def widget(name: str, namespace: str, **spec: Any) -> Json:
    return {
        "apiVersion": WIDGET.api_version,
        "kind": "Widget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def children(owner: Json) -> list[Json]:
    """What a Widget wants; pure, as in every controller here."""
    name, namespace = owner["metadata"]["name"], owner["metadata"]["namespace"]
    labels = {"widget": name}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    container = {
        "name": "main",
        "image": "example",
        "env": [{"name": "COLOUR", "value": owner["spec"].get("colour", "")}],
        "resources": {"limits": {"cpu": "1000m"}},
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    wanted = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"clusterIP": "None", "selector": labels, "ports": [{"port": 80}]},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"size": str(owner["spec"].get("size", 0))},
        },
    ]
    if owner["spec"].get("extra"):
        wanted.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {**metadata, "name": f"{name}-extra"},
                "data": {"a": "b"},
            }
        )
    return wanted


def add_widgets(manager: Manager, **options: Any) -> Controller:
    """The whole controller: gather, decide, apply, one status write."""
    engine = ApplyEngine(manager.client, manager.informers, report=manager.events.event)
    widgets = manager.informers.informer(WIDGET)

    async def reconcile(key: Key) -> timedelta | None:
        owner = widgets.get(*key)
        if owner is None or is_being_deleted(owner):
            return None
        applied = await engine.apply(owner, children(owner), prune=CHILDREN)
        status = {"observedGeneration": owner["metadata"]["generation"], "children": len(applied.live)}
        await write_status(manager.client, owner, status, widgets)
        return None

    watches = [Primary(WIDGET, predicate=generation_changed), *(Owned(kind) for kind in CHILDREN)]
    controller = Controller("widget", reconcile, watches, registry=manager.registry, clock=manager.clock, **options)
    manager.add(controller)
    return controller


def lease(identity: str, namespace: str, seconds: float) -> LeaseOptions:
    return LeaseOptions(
        "widgets", namespace, identity, duration=seconds, renew_deadline=seconds * 2 / 3, retry_period=seconds / 8
    )


def main(kubeconfig: str, identity: str, namespace: str, seconds: str) -> int:
    async def replica(stop: asyncio.Event) -> None:
        options = ManagerOptions(lease=lease(identity, namespace, float(seconds)), user_agent=identity)
        manager = Manager(HttpTransport(load_config(kubeconfig)), options)
        add_widgets(manager)
        await run_until(manager, stop)

    return run_program(replica)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
