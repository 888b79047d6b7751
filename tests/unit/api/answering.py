"""The webhooks of all kinds as a process of their own, over what is shipped and a world without other objects."""

import sys

from serveplane.api.admission import Context, Verdict, mutate, validate, validate_deletion
from serveplane.api.llminferenceservice.conversion import converted
from serveplane.api.mode import Mode
from serveplane.api.policy import Policy
from serveplane.kube.admission import AdmissionRequest, mutating, validating
from serveplane.kube.webhook import WebhookServer
from serveplane.kube.webhook_child import Work, run_webhooks

POLICY = Policy(default_mode=Mode.STANDARD, limits={"cpu": "1"}, requests={"cpu": "1"}, local_models=True)
CONTEXT = Context(POLICY)


def judged(request: AdmissionRequest) -> Verdict:
    if not request.object:
        return validate_deletion(request.old, CONTEXT)
    return validate(request.object, request.old or None, CONTEXT)


async def main(work: Work) -> None:
    server = WebhookServer(registry=work.registry)
    server.admit("/mutate", mutating(lambda request: mutate(request.object, CONTEXT)))
    server.admit("/validate", validating(judged))
    server.convert("/convert", converted)
    await work.serve(server)


if __name__ == "__main__":
    sys.exit(run_webhooks(main))
