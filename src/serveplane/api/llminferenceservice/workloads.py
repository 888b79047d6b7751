"""Checks of one workload of an LLM service: its size, its rollout, its cache tiers."""

import math
import re
from collections.abc import Iterator

from serveplane.api.llminferenceservice.types import FileSystem, KvCacheOffloading, Workload
from serveplane.api.problem import FieldError, FieldPath
from serveplane.objects.quantity import parse

PERCENT = re.compile(r"(\d{1,9})%")


def size_problems(workload: Workload, at: FieldPath) -> Iterator[FieldError]:
    size = workload.parallelism
    if workload.worker is not None and (size is None or not (size.is_data_parallel or size.is_pipeline_parallel)):
        yield FieldError(at / "worker", "several nodes need parallelism: give data and dataLocal, or pipeline")
    if size is None:
        return
    here = at / "parallelism"
    if size.is_pipeline_parallel and size.is_data_parallel:
        yield FieldError(here, "pipeline and data parallelism exclude each other")
    if (size.data is None) != (size.data_local is None):
        missing = "data" if size.data is None else "dataLocal"
        yield FieldError(here / missing, "data and dataLocal are needed together")
    for field, value in (("pipeline", size.pipeline), ("data", size.data), ("dataLocal", size.data_local)):
        if value is not None and value < 1:
            yield FieldError(here / field, f"must be 1 or more, not {value}")


def rollout_problems(workload: Workload, at: FieldPath) -> Iterator[FieldError]:
    strategy = workload.rollout_strategy
    if strategy is None:
        return
    unavailable, surge = strategy.max_unavailable, strategy.max_surge
    found = [*_step_problems(unavailable, at / "maxUnavailable"), *_step_problems(surge, at / "maxSurge")]
    yield from found
    if found:
        return
    none_away = unavailable is not None and _of_one(unavailable, math.floor) == 0
    if none_away and surge is not None and _of_one(surge, math.ceil) == 0:
        yield FieldError(at, "maxUnavailable and maxSurge cannot both come to 0: nothing could ever be replaced")
    elif none_away and surge is None and workload.worker is not None:
        yield FieldError(
            at / "maxSurge", "is required when maxUnavailable comes to 0: several nodes have no surge by default"
        )


def _step_problems(value: int | str | None, at: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, str):
        percent = PERCENT.fullmatch(value)
        if percent is None or int(percent[1]) > 100:
            yield FieldError(at, f"must be a number or a percentage up to 100%, not {value!r}")
    elif value is not None and value < 0:
        yield FieldError(at, f"must be 0 or more, not {value}")


def _of_one(value: int | str, rounded: object) -> int:
    """How many of one replica a step means; a percentage rounds as Deployments round it."""
    if isinstance(value, int):
        return value
    share = int(value.rstrip("%")) / 100
    return math.ceil(share) if rounded is math.ceil else math.floor(share)


def kv_cache_problems(cache: KvCacheOffloading, at: FieldPath) -> Iterator[FieldError]:
    if parse(cache.cpu) < 0:
        yield FieldError(at / "cpu", f"must not be negative, not {cache.cpu}")
    if cache.secondary and parse(cache.cpu) == 0:
        yield FieldError(at / "cpu", "is required: files come behind a tier in memory")
    for index, tier in enumerate(cache.secondary):
        here = at / "secondary" / index / "fileSystem"
        if tier.file_system is None:
            yield FieldError(here, "is required")
        else:
            yield from _file_system_problems(tier.file_system, here)


def _file_system_problems(files: FileSystem, at: FieldPath) -> Iterator[FieldError]:
    if (files.empty_dir is None) == (files.pvc is None):
        yield FieldError(at, "needs exactly one of emptyDir and pvc")
    if files.pvc is not None:
        if (files.pvc.spec is None) == (files.pvc.ref is None):
            yield FieldError(at / "pvc", "needs exactly one of spec and ref")
        if files.pvc.ref is not None and not files.pvc.ref.name:
            yield FieldError(at / "pvc" / "ref" / "name", "is required")
