"""The webhook process that bench/admission.py measures: the handlers of the kserve manager over what KServe ships."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.admission import handlers

from serveplane.kube.webhook import WebhookServer
from serveplane.kube.webhook_child import Work, run_webhooks


async def main(work: Work) -> None:
    server = WebhookServer(registry=work.registry)
    for path, (handler, _) in handlers().items():
        server.admit(path, handler)
    await work.serve(server)


if __name__ == "__main__":
    sys.exit(run_webhooks(main))
