"""How a runtime and what the user wrote become one container and one pod spec.

The order of merged lists is part of the contract: a different order is a different pod template, and every pod of a
service that moves over from KServe would be replaced for nothing.
"""
import re
from typing import Any

from serveplane.api.keys import KSERVE_CONTAINER, TRANSFORMER_CONTAINER
from serveplane.objects import Json
from serveplane.objects.quantity import parse as parse_quantity
from serveplane.objects.schema import named_type
from serveplane.objects.strategic import strategic_merged
from serveplane.render.runtimes import FailureReason, InvalidSpec
from serveplane.render.templates import TemplateError, Values, render_tree

RUNTIME_POD_FIELDS = ("nodeSelector", "affinity", "tolerations", "volumes", "imagePullSecrets", "schedulerName", "resourceClaims")
"""What a runtime may say about the pod; the rest of the pod spec is the user's alone."""

_GPU_SUFFIX_TYPES = ("tensorflow-serving", "torchserve", "huggingfaceserver")
_CPU_SUFFIX_TYPES = ("vllmserver",)
_TAG = re.compile(r":([\w.\-]*)$")


def given(fields: Json) -> Json:
    """Without the fields that say nothing: an empty name must not erase the runtime's, nor an empty list further inside."""
    return {key: _without_blanks(value) for key, value in fields.items() if value not in (None, "", [], {})}


def merged_container(runtime: Json, model: Json) -> Json:
    """The user's container over the runtime's; arguments add up, the runtime's first."""
    merged = strategic_merged(runtime, given(model), named_type("core.v1.Container"))
    if args := [*(runtime.get("args") or []), *(model.get("args") or [])]:
        merged["args"] = args
    if env := merged.get("env"):
        merged["env"] = _one_kind_of_value(env, model.get("env") or [])
    if resources := merged.get("resources"):
        merged["resources"] = _fitting(resources, model.get("resources") or {})
    return merged


def merged_pod_spec(runtime: Json, component: Json) -> Json:
    """The user's pod fields over those that a runtime may set; containers are merged apart."""
    base = {key: runtime[key] for key in RUNTIME_POD_FIELDS if runtime.get(key)}
    patch = {key: value for key, value in component.items() if key != "containers"}
    return strategic_merged(base, patch, named_type("core.v1.PodSpec")) if patch else dict(base)


def merged_containers(runtime: Json, own: list[Json], model: Json, values: Values) -> list[Json]:
    """All containers of a predictor with a model, in KServe's order."""
    theirs = {container["name"]: container for container in runtime.get("containers") or []}
    ours = {container["name"]: container for container in own}
    if KSERVE_CONTAINER not in theirs:
        raise InvalidSpec(FailureReason.INVALID_PREDICTOR_SPEC, f"failed to find {KSERVE_CONTAINER} in ServingRuntime containers")
    result = [_filled(merged_container(theirs[KSERVE_CONTAINER], model), values)]
    if both := [side[TRANSFORMER_CONTAINER] for side in (theirs, ours) if TRANSFORMER_CONTAINER in side]:
        result.append(_filled(merged_container(*both) if len(both) == 2 else both[0], values))
    taken = (KSERVE_CONTAINER, TRANSFORMER_CONTAINER)
    result.extend(container for name, container in theirs.items() if name not in taken)
    result.extend(container for name, container in ours.items() if name not in taken)
    return result


def tagged_image(container: Json, runtime_version: str, server_type: str) -> str:
    """The image with the tag that the version asked for, or the hardware, calls for."""
    image: str = container.get("image") or ""
    if "@sha256:" in image:
        return image
    if runtime_version:
        return _TAG.sub("", image) + f":{runtime_version}" if image else image
    if not (tag := _TAG.search(image)):
        return image
    if has_gpu(container) and server_type in _GPU_SUFFIX_TYPES and not tag[1].endswith("-gpu"):
        return f"{image}-gpu"
    if not has_gpu(container) and server_type in _CPU_SUFFIX_TYPES and not image[:tag.start()].endswith("-cpu"):
        return f"{image[:tag.start()]}-cpu{tag[0]}"
    return image


def has_gpu(container: Json) -> bool:
    limits = (container.get("resources") or {}).get("limits") or {}
    return any(name == "nvidia.com/gpu" or name.startswith("nvidia.com/mig") for name in limits)


def with_env(container: Json, name: str, value: str) -> Json:
    """The container with a variable set: in its place if it is there, else at the end."""
    env = list(container.get("env") or [])
    entry = {"name": name, "value": value}
    places = [index for index, item in enumerate(env) if item.get("name") == name]
    for index in places:
        env[index] = entry
    return {**container, "env": env if places else [*env, entry]}


def env_value(container: Json, name: str) -> str:
    for item in container.get("env") or []:
        if item.get("name") == name:
            return item.get("value") or ""
    return ""


def without_duplicates(pod_spec: Json) -> tuple[Json, list[str]]:
    """Lists by key hold each key once, the last entry winning, as a kubelet would read them; and what was dropped.

    Server-side apply refuses a list that names a key twice, with an internal error that nobody can act on.
    """
    dropped: list[str] = []
    result = dict(pod_spec)
    if "volumes" in result:
        result["volumes"] = _unique(result["volumes"], ("name",), "volume", dropped)
    for field in ("containers", "initContainers"):
        if field in result:
            result[field] = [_container_without_duplicates(container, dropped) for container in result[field]]
            result[field] = _unique(result[field], ("name",), "container", dropped)
    return result, dropped


def _container_without_duplicates(container: Json, dropped: list[str]) -> Json:
    result = dict(container)
    for field, keys in (("env", ("name",)), ("ports", ("containerPort", "protocol")), ("volumeMounts", ("mountPath",))):
        if result.get(field):
            result[field] = _unique(result[field], keys, f"{field} of container {container.get('name', '')}", dropped)
    return result


def _unique(items: list[Json], keys: tuple[str, ...], what: str, dropped: list[str]) -> list[Json]:
    last = {_key(item, keys): index for index, item in enumerate(items)}
    if len(last) == len(items):
        return items
    dropped.extend(f"{what}: {item.get(keys[0])} is given twice, the last one counts"
                   for index, item in enumerate(items) if last[_key(item, keys)] != index)
    return [item for index, item in enumerate(items) if last[_key(item, keys)] == index]


def _key(item: Json, keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(item.get(key) or ("TCP" if key == "protocol" else None) for key in keys)


def _one_kind_of_value(env: list[Json], wishes: list[Json]) -> list[Json]:
    """A merge can leave both a value and a reference on one variable; what the user wrote decides."""
    by_reference = {item.get("name") for item in wishes if item.get("valueFrom")}
    return [_without(item, "value" if item["name"] in by_reference else "valueFrom")
            if item.get("value") and item.get("valueFrom") else item for item in env]


def _fitting(merged: Json, own: Json) -> Json:
    """No request above its limit: of the two, the one that the runtime brought gives way to the one that the user wrote."""
    limits, requests = dict(merged.get("limits") or {}), dict(merged.get("requests") or {})
    for name in limits.keys() & requests.keys():
        if parse_quantity(requests[name]) > parse_quantity(limits[name]):
            if name not in (own.get("requests") or {}):
                requests[name] = limits[name]
            elif name not in (own.get("limits") or {}):
                limits[name] = requests[name]
    return {**merged, **({"limits": limits} if limits else {}), **({"requests": requests} if requests else {})}


def _without_blanks(value: Any) -> Any:
    """Lists and nulls that hold nothing are left out at any depth; an empty object stays, it may be a choice (`emptyDir`)."""
    if isinstance(value, dict):
        return {key: _without_blanks(inner) for key, inner in value.items() if inner is not None and inner != []}
    return [_without_blanks(inner) for inner in value] if isinstance(value, list) else value


def _without(item: Json, key: str) -> Json:
    return {name: value for name, value in item.items() if name != key}


def _filled(container: Json, values: Values) -> Json:
    try:
        filled: Json = render_tree(container, values)
    except TemplateError as error:
        raise InvalidSpec(FailureReason.INVALID_PREDICTOR_SPEC, f"Failed to replace placeholders in serving runtime: {error}") from error
    return filled
