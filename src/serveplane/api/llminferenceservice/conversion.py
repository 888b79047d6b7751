"""v1alpha1 ↔ v1alpha2 of both LLM kinds, without loss in either direction.

v1alpha2 is what we store. What the other version has no field for is kept in an annotation and put back on the way
home. A part that had to be reshaped is kept whole; on return it is used if the reshaped one is still what it was
reshaped to, that is, if nobody has changed it meanwhile.
"""

from typing import Any

import msgspec

from serveplane.api import keys
from serveplane.api.llminferenceservice.pool import newer_pool, older_pool
from serveplane.api.structure import is_too_deep
from serveplane.objects import Json

OLDER, NEWER = f"{keys.GROUP}/v1alpha1", f"{keys.GROUP}/v1alpha2"
CRITICALITY = "internal.serving.kserve.io/model-criticality"
ADAPTER_CRITICALITIES = "internal.serving.kserve.io/lora-criticalities"
KEPT_OLDER = "internal.serving.kserve.io/v1alpha1-fields"
KEPT_NEWER = "internal.serving.kserve.io/v1alpha2-fields"

Path = tuple[str, ...]
POOL: Path = ("spec", "router", "scheduler", "pool", "spec")
ONLY_NEWER: tuple[Path, ...] = (
    ("spec", "kvCacheOffloading"),
    ("spec", "prefill", "kvCacheOffloading"),
    ("spec", "model", "confidential"),
    ("status", "workloads"),
    ("status", "appliedConfigs"),
    ("status", "referencedBy"),
    ("status", "router", "group"),
)
ADDRESSES: Path = ("status", "addresses")
HTTP = ("appProtocol", "http")
"""The default of a field that v1alpha1 does not have; the API server writes it again."""
ONLY_IN_ADDRESSES = ("origin", "models")


class CannotConvert(ValueError):
    """An object that cannot be read, or of a version that is not ours."""


def converted(obj: Json, version: str) -> Json:
    """The object in the wanted apiVersion; the given one is left alone."""
    given = obj.get("apiVersion")
    if version not in (OLDER, NEWER) or given not in (OLDER, NEWER):
        raise CannotConvert(f"cannot convert from {given!r} to {version!r}")
    if is_too_deep(obj):
        raise CannotConvert("the object is nested too deeply")
    copy: Json = msgspec.json.decode(msgspec.json.encode(obj))
    if given == version:
        return copy
    return _newer(copy) if version == NEWER else _older(copy)


def _newer(obj: Json) -> Json:
    obj["apiVersion"] = NEWER
    kept, forgotten = _taken(obj, KEPT_NEWER), Json()
    _store_criticality(obj)
    _give_adapters(obj, kept.get("adapters"))
    pool = _at(obj, POOL)
    if isinstance(pool, dict):
        original = kept.get("pool")
        if isinstance(original, dict) and older_pool(original) == pool:
            _put(obj, POOL, original)
        else:
            _put(obj, POOL, newer_pool(pool))
            if older_pool(newer_pool(pool)) != pool:
                forgotten["pool"] = pool
    for path in ONLY_NEWER:
        if ".".join(path) in kept:
            _put(obj, path, kept[".".join(path)])
    _restore_addresses(obj, kept.get("addresses"))
    return _annotated(obj, KEPT_OLDER, forgotten)


def _older(obj: Json) -> Json:
    obj["apiVersion"] = OLDER
    kept, forgotten = _taken(obj, KEPT_OLDER), Json()
    if odd := _adapter_criticalities(obj):
        forgotten["adapters"] = odd
    _restore_criticality(obj)
    pool = _at(obj, POOL)
    if isinstance(pool, dict):
        original = kept.get("pool")
        if isinstance(original, dict) and newer_pool(original) == pool:
            _put(obj, POOL, original)
        else:
            _put(obj, POOL, older_pool(pool))
            if newer_pool(older_pool(pool)) != {key: value for key, value in pool.items() if (key, value) != HTTP}:
                forgotten["pool"] = pool
    for path in ONLY_NEWER:
        parent = _at(obj, path[:-1])
        if isinstance(parent, dict) and path[-1] in parent:
            forgotten[".".join(path)] = parent.pop(path[-1])
    if plain := _plain_addresses(obj):
        forgotten["addresses"] = plain
    return _annotated(obj, KEPT_NEWER, forgotten)


def _store_criticality(obj: Json) -> None:
    """In v1alpha2 criticalities live in annotations; the names are KServe's, so its objects convert here too."""
    model = _at(obj, ("spec", "model"))
    if not isinstance(model, dict):
        return
    if "criticality" in model:
        _annotated(obj, CRITICALITY, model.pop("criticality"))
    _annotated(obj, ADAPTER_CRITICALITIES, _adapter_criticalities(obj))


def _restore_criticality(obj: Json) -> None:
    model = _at(obj, ("spec", "model"))
    annotations = _annotations(obj)
    if not isinstance(model, dict):
        return
    if CRITICALITY in annotations:
        model["criticality"] = annotations[CRITICALITY]
        _drop(obj, CRITICALITY)
    _give_adapters(obj, _taken(obj, ADAPTER_CRITICALITIES))


def _adapter_criticalities(obj: Json) -> Json:
    """Takes the criticalities out of the adapters, by index."""
    found = {}
    for index, adapter in enumerate(_adapters(obj)):
        if isinstance(adapter, dict) and "criticality" in adapter:
            found[str(index)] = adapter.pop("criticality")
    return found


def _give_adapters(obj: Json, criticalities: Any) -> None:
    adapters = _adapters(obj)
    for index, value in (criticalities if isinstance(criticalities, dict) else {}).items():
        if index.isdecimal() and int(index) < len(adapters) and isinstance(adapters[int(index)], dict):
            adapters[int(index)]["criticality"] = value


def _adapters(obj: Json) -> list[Any]:
    adapters = _at(obj, ("spec", "model", "lora", "adapters"))
    return adapters if isinstance(adapters, list) else []


def _plain_addresses(obj: Json) -> list[Any]:
    """Takes what v1alpha1 does not know out of the addresses, and gives the addresses as they were."""
    addresses = _at(obj, ADDRESSES)
    if not isinstance(addresses, list) or not any(_says_more(address) for address in addresses):
        return []
    _put(obj, ADDRESSES, [_plain(address) for address in addresses])
    return addresses


def _restore_addresses(obj: Json, original: Any) -> None:
    current = _at(obj, ADDRESSES)
    if isinstance(original, list) and current == [_plain(address) for address in original]:
        _put(obj, ADDRESSES, original)


def _says_more(address: Any) -> bool:
    return isinstance(address, dict) and any(key in address for key in ONLY_IN_ADDRESSES)


def _plain(address: Any) -> Any:
    if not isinstance(address, dict):
        return address
    return {key: value for key, value in address.items() if key not in ONLY_IN_ADDRESSES}


def _annotations(obj: Json) -> Json:
    annotations = _at(obj, ("metadata", "annotations"))
    return annotations if isinstance(annotations, dict) else {}


def _annotated(obj: Json, key: str, value: Any) -> Json:
    """Writes a value under an annotation; nothing to keep leaves no trace."""
    if value:
        text = value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
        if not isinstance(obj.get("metadata"), dict):
            obj["metadata"] = {}
        obj["metadata"]["annotations"] = _annotations(obj) | {key: text}
    return obj


def _taken(obj: Json, key: str) -> Json:
    """The object kept under an annotation, which goes; one that somebody spoiled is no reason to fail."""
    text = _annotations(obj).get(key)
    if text is None:
        return {}
    _drop(obj, key)
    try:
        kept = msgspec.json.decode(text) if isinstance(text, str) else None
    except msgspec.DecodeError:
        kept = None
    return kept if isinstance(kept, dict) else {}


def _drop(obj: Json, key: str) -> None:
    rest = {name: value for name, value in _annotations(obj).items() if name != key}
    if rest:
        obj["metadata"]["annotations"] = rest
    else:
        del obj["metadata"]["annotations"]


def _at(obj: Json, path: Path) -> Any:
    value: Any = obj
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _put(obj: Json, path: Path, value: Any) -> None:
    """Writes a value if the place for it is still there; a part that was removed meanwhile stays removed."""
    parent = _at(obj, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif path[:-1] == ("status",) and parent is None:
        obj["status"] = {path[-1]: value}
