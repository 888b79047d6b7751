"""Turns a pod's spec into what its processes need: folders, variables, tokens, words.

One workshop per pod. Volumes from the API are kept fresh while the pod lives: changed ConfigMaps and Secrets are
written again, tokens renewed before they expire.
"""
import asyncio
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from serveplane.clock import wait_until
from serveplane.embedded.node.addresses import PodAddress
from serveplane.embedded.node.containers import NoSuchImage, Run
from serveplane.embedded.node.context import NodeContext
from serveplane.embedded.node.environment import MissingReference, References, expand, inherited, variables
from serveplane.embedded.node.images import Image, advice, fill
from serveplane.embedded.node.leftovers import MARK
from serveplane.embedded.node.paths import rewriter
from serveplane.embedded.node.probes import Execute, Target
from serveplane.embedded.node.references import CONFIG_MAP, SECRET, Reference
from serveplane.embedded.node.volumes import Given, MountFailed, check_part, make_volume, mount_table
from serveplane.kube.errors import KubeError
from serveplane.kube.kind import Kind
from serveplane.objects import Json

CLAIM, VOLUME = Kind("v1", "PersistentVolumeClaim"), Kind("v1", "PersistentVolume")
TOKEN_RENEWAL = 0.8   # of its life
REFRESH, RETRY = 60.0, 5.0
TERMINATION_LOG = "/dev/termination-log"

log = logging.getLogger(__name__)


class PodWorkshop:
    """Makes the runs of one pod's containers."""

    def __init__(self, pod: Json, context: NodeContext, address: PodAddress) -> None:
        self.pod = pod
        self.address = address
        self._context = context
        self._folder = context.pod_folder(pod["metadata"]["uid"])
        self._volumes: dict[str, Path] = {}
        self._tokens: dict[tuple[str, str], tuple[str, float]] = {}
        self._stale = asyncio.Event()
        self.executes: dict[str, Execute] = {}

    @property
    def namespace(self) -> str:
        return str(self.pod["metadata"]["namespace"])

    def event(self, kind: str, reason: str, message: str) -> None:
        self._context.record(self.pod, kind, reason, message)

    async def make_volumes(self) -> None:
        """All volumes of the pod, made or refreshed. Raises what is missing."""
        given = await self._given()
        for volume in self.pod["spec"].get("volumes") or ():
            self._volumes[volume["name"]] = make_volume(
                volume, self.pod, given, self._folder / "volumes", self._context.host_root)

    async def keep_fresh(self) -> None:
        """Rewrite volumes when what they come from changes, and tokens before they expire."""
        while True:
            await wait_until(self._stale, REFRESH)
            if not self._stale.is_set() and not self._has_old_token():
                continue
            self._stale.clear()
            try:
                await self.make_volumes()
            except (KubeError, MissingReference, MountFailed, OSError) as problem:
                log.info("volumes of %s/%s: %s", self.namespace, self.pod["metadata"]["name"], problem)
                await self._context.clock.sleep(RETRY)
                self._stale.set()

    async def prepare(self, container: Json, restarts: int) -> Run:
        image = self._context.images().find(container.get("image", ""))
        if image is None:
            raise NoSuchImage(advice(container.get("image", ""), self._context.images_file))
        await self.make_volumes()
        references = await self._references(_env_references(container))
        values = variables(container, self.pod, references, self._context.allocatable, self._context.given)
        mounts = mount_table(container, self._volumes, values)
        own = self._folder / "containers" / check_part(container["name"])
        message = own / "termination-log"
        return Run(
            words=self._words(container, image, values, mounts),
            environment=self._environment(container, image, values, mounts, own, message),
            folder=self._working_folder(container, mounts, own),
            log_file=self._context.log_folder(self.pod) / check_part(container["name"]) / f"{restarts}.log",
            message_file=_emptied(message),
            target=self._target(container))

    # ---- words and variables

    def _words(self, container: Json, image: Image, values: dict[str, str], mounts: dict[str, str]) -> list[str]:
        command = [expand(word, values) for word in container.get("command") or ()]
        args = [expand(word, values) for word in container.get("args") or ()]
        rewritten = rewriter(mounts)
        words = image.command(list(map(rewritten, command)), list(map(rewritten, args)))
        if not words:
            raise NoSuchImage(f'image "{container["image"]}" has no entry point, and the container names no command')
        return fill(words, self._placeholders(container))

    def _placeholders(self, container: Json) -> dict[str, str]:
        ports = [entry["containerPort"] for entry in container.get("ports") or ()] or [8080]
        return {"python": sys.executable, "image": container.get("image", ""),
                "port": str(self.address.moved.get(ports[0], ports[0])), "address": self.address.host}

    def _environment(self, container: Json, image: Image, values: dict[str, str], mounts: dict[str, str], own: Path,
                     message: Path) -> dict[str, str]:
        home, scratch = own / "home", own / "tmp"
        for folder in (home, scratch):
            folder.mkdir(parents=True, exist_ok=True)
        table = {**mounts, (container.get("terminationMessagePath") or TERMINATION_LOG): str(message)}
        rewritten = rewriter(table)
        told = {
            "SERVEPLANE_POD_ADDRESS": self.address.host, "SERVEPLANE_POD_PORTS": self.address.annotation,
            "SERVEPLANE_POD_MOUNTS": msgspec.json.encode(table).decode(), "SERVEPLANE_IMAGE": container["image"],
            MARK: self._context.mark,
        }
        defaults = {"HOME": str(home), "TMPDIR": str(scratch), "HOSTNAME": self.pod["metadata"]["name"],
                    "PYTHONUNBUFFERED": "1", **self._proxies()}
        return {**inherited(), **defaults, **image.environment,
                **{name: rewritten(value) for name, value in values.items()}, **told}

    def _proxies(self) -> dict[str, str]:
        """How programs find Services by name: an HTTP proxy that knows which namespace a short name means. Our own programs
        use it for such names only; others for all plain HTTP, where it passes on what is not in the cluster."""
        direct = f"127.0.0.1,{self.address.host},127.0.0.0/8,localhost"
        told = {"NO_PROXY": direct, "no_proxy": direct}
        if self._context.proxy:
            told["SERVEPLANE_RESOLVE"] = f"{self.namespace}@{self._context.proxy}"
            # The password means nothing, but without one Python's urllib does not tell the user's name
            told["http_proxy"] = f"http://{self.namespace}:pod@{self._context.proxy}"
        return told

    def _working_folder(self, container: Json, mounts: dict[str, str], own: Path) -> Path:
        wanted = container.get("workingDir") or ""
        real = Path(rewriter(mounts)(wanted)) if wanted else own
        if real.is_dir():
            return real
        own.mkdir(parents=True, exist_ok=True)
        return own   # a folder of an image that we do not have

    def _target(self, container: Json) -> Target:
        named = {entry["name"]: entry["containerPort"] for entry in container.get("ports") or () if entry.get("name")}
        return Target(self.address.host, self.address.moved, named, self.executes[container["name"]])

    # ---- what is fetched

    async def _given(self) -> Given:
        volumes = self.pod["spec"].get("volumes") or ()
        references = await self._references({ref for volume in volumes for ref in _volume_references(volume)})
        tokens = {(volume["name"], source["path"]): await self._token(volume["name"], source)
                  for volume in volumes for source in _token_sources(volume)}
        claims = {name: await self._claim(name) for name in {
            volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}}
        return Given(references, tokens, claims, self._context.allocatable)

    async def _references(self, wanted: set[tuple[Kind, str]]) -> References:
        found: dict[Kind, dict[str, Json]] = {CONFIG_MAP: {}, SECRET: {}}
        for kind, name in wanted:
            reference: Reference = (kind, self.namespace, name)
            value = await self._context.references.use(reference, self, self._stale.set)
            if value is not None:
                found[kind][name] = value
        return References(found[CONFIG_MAP], found[SECRET])

    async def _token(self, volume: str, source: Json) -> str:
        key = (volume, source["path"])
        token, renew_at = self._tokens.get(key, ("", 0.0))
        if token and self._context.clock.monotonic() < renew_at:
            return token
        seconds = source.get("expirationSeconds") or 3600
        metadata = self.pod["metadata"]
        spec: Json = {"audiences": [source["audience"]] if source.get("audience") else [],
                      "expirationSeconds": seconds,
                      "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"],
                                         "uid": metadata["uid"]}}
        account = self.pod["spec"].get("serviceAccountName") or "default"
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        reply = await self._context.client.rest.request(
            "POST", path, body=msgspec.json.encode(request), content_type="application/json")
        assert isinstance(reply.body, bytes)
        token = str(msgspec.json.decode(reply.body)["status"]["token"])
        self._tokens[key] = (token, self._context.clock.monotonic() + seconds * TOKEN_RENEWAL)
        return token

    def _has_old_token(self) -> bool:
        return any(self._context.clock.monotonic() >= renew_at for _, renew_at in self._tokens.values())

    async def _claim(self, name: str) -> Path:
        claim = await self._context.client.find(CLAIM, name, self.namespace)
        if claim is None:
            raise MountFailed(f'persistentvolumeclaim "{name}" not found')
        bound = (claim.get("spec") or {}).get("volumeName")
        if not bound or (claim.get("status") or {}).get("phase") != "Bound":
            raise MountFailed(f'persistentvolumeclaim "{name}" is not bound yet')
        volume = await self._context.client.get(VOLUME, bound)
        source = volume["spec"].get("hostPath") or volume["spec"].get("local")
        if not source:
            raise MountFailed(f'persistentvolume "{bound}" is neither a hostPath nor local, so it is not on this machine')
        return make_volume({"name": name, "hostPath": {"path": source["path"], "type": "DirectoryOrCreate"}}, self.pod,
                           Given(References(), {}, {}), self._folder, self._context.host_root)


def _env_references(container: Json) -> set[tuple[Kind, str]]:
    entries = [entry.get("valueFrom") or {} for entry in container.get("env") or ()]
    sources = [(source, names) for source in entries for names in (("configMapKeyRef", "secretKeyRef"),)]
    sources += [(source, ("configMapRef", "secretRef")) for source in container.get("envFrom") or ()]
    return {(kind, source[name]["name"]) for source, names in sources
            for kind, name in zip((CONFIG_MAP, SECRET), names, strict=True) if (source.get(name) or {}).get("name")}


def _volume_references(volume: Json) -> Iterator[tuple[Kind, str]]:
    if "configMap" in volume:
        yield CONFIG_MAP, volume["configMap"]["name"]
    if "secret" in volume:
        yield SECRET, volume["secret"]["secretName"]
    for source in (volume.get("projected") or {}).get("sources") or ():
        if "configMap" in source:
            yield CONFIG_MAP, source["configMap"]["name"]
        if "secret" in source:
            yield SECRET, source["secret"]["name"]


def _token_sources(volume: Json) -> Iterator[Json]:
    for source in (volume.get("projected") or {}).get("sources") or ():
        if "serviceAccountToken" in source:
            yield source["serviceAccountToken"]


def _emptied(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"")
    return file
