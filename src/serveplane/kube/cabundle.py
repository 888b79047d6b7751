"""caBundles kept right: in webhook configurations and in the conversion of CRDs, now and whenever something resets them.

Configurations are watched, so an apply or a Helm upgrade that empties a caBundle is mended within milliseconds. Only that
one field is ever written, guarded by the version of the object that was looked at.
"""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from serveplane.clock import Clock
from serveplane.kube.client import Client, PatchType
from serveplane.kube.errors import Conflict, Invalid, KubeError, NotFound
from serveplane.kube.informers import Informer, Informers
from serveplane.kube.kind import Kind
from serveplane.objects import Json

LOG = logging.getLogger(__name__)
MUTATING = Kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
VALIDATING = Kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
CRD = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
PATIENCE = 0.2


@dataclass(frozen=True)
class Targets:
    """Whose caBundle leads here, by name. Webhooks of other Services within them are left alone."""

    service: str
    namespace: str
    mutating: Sequence[str] = ()
    validating: Sequence[str] = ()
    crds: Sequence[str] = ()

    def every(self) -> list[tuple[Kind, str]]:
        pairs = ((MUTATING, self.mutating), (VALIDATING, self.validating), (CRD, self.crds))
        return [(kind, name) for kind, names in pairs for name in names]


class CaBundles:
    """One keeper for all targets. `publish` is what `SelfMadeCertificates` calls; `run` mends what others undo."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        targets: Targets,
        clock: Clock,
        verify: Callable[[bytes], Awaitable[None]] | None = None,
    ) -> None:
        self._client = client
        self._targets = targets
        self._clock = clock
        self._verify = verify
        self._bundle = b""
        self._changed = asyncio.Event()
        self._verified = b""
        self._informers: dict[tuple[Kind, str], Informer] = {}
        for kind, name in targets.every():
            informer = informers.informer(kind, fields=f"metadata.name={name}", cluster_scoped=True, trim=_trimmed)
            informer.listen(lambda change: self._changed.set())
            self._informers[kind, name] = informer

    async def publish(self, bundle: bytes) -> None:
        """Put this bundle everywhere, then make sure by a real call that what is served fits it."""
        self._bundle = bundle
        for kind, name in self._targets.every():
            await self._mend(kind, name, await self._client.find(kind, name))
        if self._verify is not None and self._verified != bundle:
            await self._verify(bundle)
            self._verified = bundle

    async def run(self) -> None:
        """Put back what someone resets, as soon as the watch tells."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not self._bundle:
                continue
            for (kind, name), informer in self._informers.items():
                try:
                    await self._mend(kind, name, informer.get(None, name))
                except KubeError as error:
                    LOG.warning("cannot mend the caBundle of %s %s: %s", kind.kind, name, error)
                    self._changed.set()
                    await self._clock.sleep(PATIENCE)

    async def _mend(self, kind: Kind, name: str, live: Json | None) -> None:
        patch = self._patch(live) if live else []
        if not live or not patch:
            return
        test = {"op": "test", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]}
        try:
            answered = await self._client.patch(kind, name, None, [test, *patch], patch_type=PatchType.JSON)
        except NotFound:
            return
        except (Invalid, Conflict):  # it changed meanwhile; the watch will tell, or the next look does
            await self._mend(kind, name, await self._client.find(kind, name))
            return
        if (kind, name) in self._informers:
            self._informers[kind, name].note(_trimmed(answered))
        LOG.info("caBundle set", extra={"kind": kind.kind, "object": name})

    def _patch(self, live: Json) -> list[Json]:
        wanted = base64.b64encode(self._bundle).decode()
        found = []
        for path, config in _client_configs(live):
            service = config.get("service") or {}
            if (service.get("name"), service.get("namespace")) != (self._targets.service, self._targets.namespace):
                continue
            if config.get("caBundle") != wanted:
                found.append({"op": "add", "path": f"{path}/caBundle", "value": wanted})
        return found


def _client_configs(live: Json) -> list[tuple[str, Json]]:
    if live["kind"] == CRD.kind:
        webhook = ((live.get("spec") or {}).get("conversion") or {}).get("webhook") or {}
        return (
            [("/spec/conversion/webhook/clientConfig", webhook["clientConfig"])] if webhook.get("clientConfig") else []
        )
    return [
        (f"/webhooks/{n}/clientConfig", webhook.get("clientConfig") or {})
        for n, webhook in enumerate(live.get("webhooks") or ())
    ]


def _trimmed(obj: Json) -> Json:
    """A CRD may have megabytes of schema; of all these objects only where they call is looked at."""
    metadata = {name: obj["metadata"].get(name) for name in ("name", "uid", "resourceVersion")}
    kept: Json = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
    if obj["kind"] == CRD.kind:
        return {**kept, "spec": {"conversion": (obj.get("spec") or {}).get("conversion")}}
    webhooks = [
        {"name": webhook.get("name"), "clientConfig": webhook.get("clientConfig")}
        for webhook in obj.get("webhooks") or ()
    ]
    return {**kept, "webhooks": webhooks}
