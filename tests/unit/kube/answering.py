"""A webhook process for the tests: it agrees to everything but names that ask for trouble."""

import asyncio
import os
import sys
import time

from serveplane.kube.admission import AdmissionRequest, Decision
from serveplane.kube.webhook import WebhookServer
from serveplane.kube.webhook_child import Work, run_webhooks


async def main(work: Work) -> None:
    if work.told.get("dies"):
        sys.exit(7)

    async def judge(request: AdmissionRequest) -> Decision:
        match request.name:
            case "dies":
                os._exit(9)
            case "slow":
                await asyncio.sleep(0.3)
            case "hangs":
                time.sleep(3600)  # noqa: ASYNC251
        return Decision(warnings=(work.told["says"], str(os.getpid())))

    server = WebhookServer(registry=work.registry)
    server.admit("/validate", judge)
    await work.serve(server)


if __name__ == "__main__":
    sys.exit(run_webhooks(main))
