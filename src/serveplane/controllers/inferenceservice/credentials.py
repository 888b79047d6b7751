"""Reading the ServiceAccounts and Secrets that a service or a pod refers to: by name, when needed, never listed."""
from collections.abc import Iterable, Mapping

from serveplane.api import keys
from serveplane.kube.client import Client
from serveplane.kube.kind import Kind
from serveplane.objects import Json
from serveplane.render.pods.credentials import account_name, secret_names
from serveplane.settings import Settings

SERVICE_ACCOUNT = Kind("v1", "ServiceAccount")
SECRET = Kind("v1", "Secret")

REMEMBERED_SECONDS = 2.0
ByName = dict[str, Json]


async def gather_credentials(client: Client, raw: Json, settings: Settings) -> tuple[ByName, ByName]:
    """For the controller: only components with `storageUris` are given their credentials here, all others by the webhook."""
    spec, namespace = raw.get("spec") or {}, raw["metadata"]["namespace"]
    parts = [spec.get(name) or {} for name in ("predictor", "transformer", "explainer")]
    parts += [entry.get("predictor") or {} for entry in spec.get("canary") or []]
    several = [part for part in parts if part.get("storageUris")]
    if not several:
        return {}, {}
    annotations = dict(raw["metadata"].get("annotations") or {})
    storage = ((spec.get("predictor") or {}).get("model") or {}).get("storage") or {}
    if storage.get("key") and storage.get("parameters"):
        annotations[keys.STORAGE_SPEC] = "true"
    return await _read(client, namespace, {account_name(part) for part in several}, annotations, settings)


class PodCredentials:
    """For the webhook: what a pod's annotations will ask for.

    ServiceAccounts are remembered for a moment, since pods of one Deployment come in bursts; Secrets never are.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._accounts: dict[tuple[str, str], tuple[float, Json]] = {}

    async def of(self, pod: Json, namespace: str, settings: Settings, logger: str = "") -> tuple[ByName, ByName]:
        """`logger` names the account of the store that the pod's requests are logged to."""
        annotations: Mapping[str, str] = (pod.get("metadata") or {}).get("annotations") or {}
        if not annotations.keys() & {keys.STORAGE_SOURCE_URI, keys.LOGGER, keys.AGENT, keys.BATCHER}:
            return {}, {}
        names = {account_name(pod["spec"])}
        if keys.LOGGER in annotations and logger:
            names.add(logger)
        accounts = {name: found for name in names if (found := await self._account(namespace, name))}
        return accounts, await _secrets(self._client, namespace, accounts.values(), annotations, settings)

    async def _account(self, namespace: str, name: str) -> Json | None:
        now = self._client.clock.monotonic()
        known = self._accounts.get((namespace, name))
        if known is not None and now - known[0] < REMEMBERED_SECONDS:
            return known[1]
        found = await self._client.find(SERVICE_ACCOUNT, name, namespace)
        self._accounts = {key: entry for key, entry in self._accounts.items() if now - entry[0] < REMEMBERED_SECONDS}
        if found is not None:
            self._accounts[namespace, name] = (now, found)
        return found


async def _read(client: Client, namespace: str, names: Iterable[str], annotations: Mapping[str, str],
                settings: Settings) -> tuple[ByName, ByName]:
    accounts = await _found(client, SERVICE_ACCOUNT, namespace, names)
    return accounts, await _secrets(client, namespace, accounts.values(), annotations, settings)


async def _secrets(client: Client, namespace: str, accounts: Iterable[Json], annotations: Mapping[str, str],
                   settings: Settings) -> ByName:
    """The storage secret if one is asked for, and whatever the accounts offer."""
    section = settings.credentials
    offered = {key: value for key, value in annotations.items() if key != keys.STORAGE_SPEC}
    names = section.storage_secret_name_annotation, section.storage_spec_secret_name
    wanted = [name for account in accounts for name in secret_names(offered, account, *names)]
    wanted += secret_names(annotations, None, *names)
    return await _found(client, SECRET, namespace, dict.fromkeys(wanted))


async def _found(client: Client, kind: Kind, namespace: str, names: Iterable[str]) -> ByName:
    found = {name: await client.find(kind, name, namespace) for name in names}
    return {name: obj for name, obj in found.items() if obj is not None}
