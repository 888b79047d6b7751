"""The webhook process of Widgets and Gadgets, as a manager starts it."""

import sys
from typing import Any

from serveplane.kube.admission import AdmissionRequest, mutating, validating
from serveplane.kube.webhook import WebhookServer
from serveplane.kube.webhook_child import Work, run_webhooks
from tests.kit.verdicts import Problem, Verdict

Json = dict[str, Any]


def defaulted(request: AdmissionRequest) -> Json:
    return {**request.object, "spec": {"colour": "grey", **(request.object.get("spec") or {})}}


def judged(request: AdmissionRequest) -> Verdict:
    spec = request.object.get("spec") or {}
    errors = []
    if spec.get("size", 0) < 0:
        errors.append(Problem("spec.size", "cannot be negative"))
    if spec.get("colour") == "ultraviolet":
        errors.append(Problem("spec.colour", "cannot be seen"))
    return Verdict(tuple(errors), ("brown is out of fashion",) if spec.get("colour") == "brown" else ())


def converted(obj: Json, version: str) -> Json:
    """v1 says `colour`, v2 says `color`."""
    old, new = ("colour", "color") if version.endswith("/v2") else ("color", "colour")
    spec = {new if name == old else name: value for name, value in (obj.get("spec") or {}).items()}
    return {**obj, "apiVersion": version, "spec": spec}


async def main(work: Work) -> None:
    server = WebhookServer(registry=work.registry)
    server.admit("/mutate", mutating(defaulted))
    server.admit("/validate", validating(judged))
    server.convert("/convert", converted)
    await work.serve(server)


if __name__ == "__main__":
    sys.exit(run_webhooks(main))
