"""Reading the ServiceAccounts and Secrets that a service or a pod refers to: by name, when needed, never listed."""
from collections.abc import Iterable, Mapping

from serveplane.api import keys
from serveplane.kube.client import Client
from serveplane.kube.kind import Kind
from serveplane.objects import Json
from serveplane.render.pods.agent import LOGGER_ACCOUNT
from serveplane.render.pods.credentials import account_name, secret_names
from serveplane.settings import Settings

SERVICE_ACCOUNT = Kind("v1", "ServiceAccount")
SECRET = Kind("v1", "Secret")

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


async def pod_credentials(client: Client, pod: Json, namespace: str, settings: Settings) -> tuple[ByName, ByName]:
    """For the webhook: what the pod's annotations will ask for."""
    metadata = pod.get("metadata") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    if not annotations.keys() & {keys.STORAGE_SOURCE_URI, keys.LOGGER, keys.AGENT, keys.BATCHER}:
        return {}, {}
    accounts = {account_name(pod["spec"])}
    if keys.LOGGER in annotations:
        accounts.add(LOGGER_ACCOUNT)
    return await _read(client, namespace, accounts, annotations, settings)


async def _read(client: Client, namespace: str, names: Iterable[str], annotations: Mapping[str, str],
                settings: Settings) -> tuple[ByName, ByName]:
    section = settings.credentials
    accounts = await _found(client, SERVICE_ACCOUNT, namespace, names)
    wanted: list[str] = []
    for account in accounts.values():
        wanted += secret_names({key: value for key, value in annotations.items() if key != keys.STORAGE_SPEC}, account,
                               section.storage_secret_name_annotation, section.storage_spec_secret_name)
    wanted += secret_names(annotations, None, section.storage_secret_name_annotation, section.storage_spec_secret_name)
    return accounts, await _found(client, SECRET, namespace, dict.fromkeys(wanted))


async def _found(client: Client, kind: Kind, namespace: str, names: Iterable[str]) -> ByName:
    found = {name: await client.find(kind, name, namespace) for name in names}
    return {name: obj for name, obj in found.items() if obj is not None}
