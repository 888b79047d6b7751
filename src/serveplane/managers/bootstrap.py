"""What comes with an installation but cannot be applied with it: settings, runtimes and the storage container.

They lie as YAML in the ConfigMap `serveplane-bootstrap`. The leader creates those that are missing, once their kinds exist and the
webhooks answer. What is there already stays as it is: it is the users', even if it was ours once.
"""

import logging

from serveplane.clock import SYSTEM, Clock
from serveplane.kube.client import Client
from serveplane.kube.errors import AlreadyExists, ApiError, ConnectionFailed, NoSuchKind, NotFound
from serveplane.kube.kind import Kind
from serveplane.objects import Json, yamlio

LOG = logging.getLogger(__name__)
CONFIGMAP = Kind("v1", "ConfigMap")
NAME = "serveplane-bootstrap"
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0


async def install_defaults(client: Client, namespace: str, clock: Clock = SYSTEM) -> None:
    """Create everything that the ConfigMap holds and the cluster lacks; try again until all is there."""
    pause = FIRST_PAUSE
    while pending := await _missing_after_an_attempt(client, namespace):
        LOG.info("waiting for %s", ", ".join(pending))
        await clock.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


async def _missing_after_an_attempt(client: Client, namespace: str) -> list[str]:
    try:
        wanted = bundled(await client.get(CONFIGMAP, NAME, namespace))
    except NotFound:
        return []  # an installation without defaults
    except (ApiError, ConnectionFailed) as trouble:
        LOG.debug("ConfigMap %s: %s", NAME, trouble)
        return [f"ConfigMap {NAME}"]
    return [name for obj in wanted if (name := await _create(client, obj, namespace))]


def bundled(configmap: Json) -> list[Json]:
    """Every object of the bundle. A document that cannot be read is told and left out, so that it cannot hold up the others."""
    objects: list[Json] = []
    for name, text in (configmap.get("data") or {}).items():
        try:
            objects += yamlio.load_all(text)
        except yamlio.YamlError as trouble:
            LOG.error("ConfigMap %s, key %s: %s", NAME, name, trouble)
    return objects


async def _create(client: Client, obj: Json, namespace: str) -> str | None:
    """The object's name if it could not be created yet."""
    if obj["metadata"].get("namespace"):
        obj = {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
    told = f"{obj['kind']} {obj['metadata']['name']}"
    try:
        await client.create(obj)
        LOG.info("created %s", told)
    except AlreadyExists:
        return None
    except (ApiError, ConnectionFailed, NoSuchKind) as trouble:
        LOG.debug("%s: %s", told, trouble)
        return told
    return None
