"""Which runtime serves a model, and why not the others.

The choice is a table: every runtime that could have been taken, with the first reason that spoke against it. The table is
what `serveplane explain` prints, what the status message and the event quote, and what the tests read.
"""
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from serveplane.api.inferenceservice.types import Predictor
from serveplane.api.servingruntime import ServingRuntime, ServingRuntimeSpec, SupportedFormat

PROTOCOL_RANK = {"v1": 1, "v2": 2, "grpc-v1": 3, "grpc-v2": 4}
UNRANKED = 5
CLUSTER_KIND = "ClusterServingRuntime"
NAMESPACED_KIND = "ServingRuntime"


class FailureReason(StrEnum):
    """The values of `lastFailureInfo.reason`."""
    MODEL_LOAD_FAILED = "ModelLoadFailed"
    RUNTIME_UNHEALTHY = "RuntimeUnhealthy"
    RUNTIME_DISABLED = "RuntimeDisabled"
    NO_SUPPORTING_RUNTIME = "NoSupportingRuntime"
    RUNTIME_NOT_RECOGNIZED = "RuntimeNotRecognized"
    INVALID_PREDICTOR_SPEC = "InvalidPredictorSpec"


class InvalidSpec(ValueError):
    """The spec cannot be rendered: report the reason, then wait for an edit of the service or of its runtime."""

    def __init__(self, reason: FailureReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Candidate(NamedTuple):
    """One row of the decision table; an empty objection means that the runtime fits."""
    scope: str
    name: str
    objection: str
    chosen: bool = False


@dataclass(frozen=True)
class Wanted:
    """What the model asks of a runtime."""
    format: str
    version: str
    protocol: str
    multi_node: bool

    @property
    def key(self) -> str:
        return f"{self.format}:{self.version}" if self.version else self.format

    def __str__(self) -> str:
        version = f" version {self.version}" if self.version else ""
        return f"{self.format or 'no format'}{version} over {self.protocol}"


@dataclass(frozen=True)
class Selection:
    """The runtime that was taken, if any, and the table behind the choice."""
    table: tuple[Candidate, ...]
    runtime: ServingRuntime | None = None
    failure: FailureReason | None = None
    message: str = ""

    def required(self) -> ServingRuntime:
        """The runtime, or the reason why there is none, raised."""
        if self.runtime is None:
            raise InvalidSpec(self.failure or FailureReason.NO_SUPPORTING_RUNTIME, self.message)
        return self.runtime


def select(predictor: Predictor, namespaced: Iterable[ServingRuntime], cluster: Iterable[ServingRuntime]) -> Selection:
    """The runtime named by the model, or the best of those that offer themselves."""
    assert predictor.model is not None
    wanted = wanted_by(predictor)
    scopes = [*namespaced, *cluster]
    if predictor.model.runtime:
        return _named(predictor.model.runtime, wanted, bool(predictor.model.protocol_version), scopes)
    return _automatic(wanted, scopes)


def wanted_by(predictor: Predictor) -> Wanted:
    model = predictor.model
    assert model is not None
    return Wanted(format=model.model_format.name, version=model.model_format.version or "",
                  protocol=model.protocol_version or "v1", multi_node=predictor.worker_spec is not None)


def lowest_protocol(spec: ServingRuntimeSpec) -> str:
    """What a model that names no protocol is taken to speak with this runtime."""
    return min(spec.protocol_versions, key=_rank, default="")


def table_text(table: Sequence[Candidate], limit: int = 8) -> str:
    """The objections in one sentence: a runtime that knows the format is named, those that do not are counted."""
    near = [f"{row.name} {row.objection}" for row in table if row.objection and not _is_far(row)]
    far = [row for row in table if _is_far(row)]
    told = near[:limit]
    if len(near) > limit:
        told.append(f"and {len(near) - limit} more that do not fit")
    if far:
        who = f"{'the other ' if near else ''}{len(far)} runtime{'s' if len(far) > 1 else ''}"
        told.append(f"{who} {far[0].objection if len(far) == 1 else far[0].objection.replace('does', 'do', 1)}")
    return "; ".join(told)


def _is_far(row: Candidate) -> bool:
    return row.objection.startswith("does not list")


def _named(name: str, wanted: Wanted, protocol_given: bool, runtimes: Sequence[ServingRuntime]) -> Selection:
    """A namespaced runtime hides a cluster runtime of the same name."""
    found = next((runtime for runtime in runtimes if runtime.name == name), None)
    if found is None:
        return Selection((), None, FailureReason.RUNTIME_NOT_RECOGNIZED,
                         f"Waiting for runtime to become available: there is no ServingRuntime or ClusterServingRuntime named {name}")
    failure, message = _named_objection(found.spec, wanted, protocol_given)
    row = Candidate(_scope(found), name, message, chosen=not message)
    if failure:
        return Selection((row,), None, failure, f"{message}: {name} {_offer(found.spec)}, the model asks for {wanted}")
    return Selection((row,), found)


def _named_objection(spec: ServingRuntimeSpec, wanted: Wanted, protocol_given: bool) -> tuple[FailureReason | None, str]:
    if spec.disabled:
        return FailureReason.RUNTIME_DISABLED, "Specified runtime is disabled"
    if protocol_given and not _speaks(spec, wanted.protocol):
        return FailureReason.NO_SUPPORTING_RUNTIME, "Specified runtime does not support specified protocol version"
    if not any(_serves(entry, wanted) for entry in spec.supported_model_formats):
        return FailureReason.NO_SUPPORTING_RUNTIME, "Specified runtime does not support specified framework/version"
    return None, ""


def _automatic(wanted: Wanted, runtimes: Sequence[ServingRuntime]) -> Selection:
    judged = [(runtime, _objection(runtime.spec, wanted)) for runtime in runtimes]
    fitting = [runtime for runtime, objection in judged if not objection]
    best = min(fitting, key=lambda runtime: _order(runtime, wanted), default=None)
    table = tuple(Candidate(_scope(runtime), runtime.name, objection or _passed_over(runtime, best, wanted),
                            runtime is best) for runtime, objection in judged)
    if best is not None:
        return Selection(table, best)
    text = table_text(table)
    return Selection(table, None, FailureReason.NO_SUPPORTING_RUNTIME,
                     f"No runtime found to support specified framework/version: the model asks for {wanted}; "
                     f"{text or 'there are no runtimes in this namespace or cluster'}")


def _objection(spec: ServingRuntimeSpec, wanted: Wanted) -> str:
    """The first thing that rules a runtime out; the format comes first, being what a reader looks for."""
    serving = [entry for entry in spec.supported_model_formats if _serves(entry, wanted)]
    if not serving:
        return _format_objection(spec, wanted)
    if not any(entry.auto_select for entry in serving):
        return f"must be named in model.runtime, it is not selected automatically for {wanted.key}"
    if spec.disabled:
        return "is disabled"
    if spec.multi_model:
        return "is for multi-model serving"
    if not _speaks(spec, wanted.protocol):
        return f"speaks {', '.join(spec.protocol_versions)}, not {wanted.protocol}"
    if (spec.worker_spec is not None) != wanted.multi_node:
        return "has no workerSpec" if wanted.multi_node else "is for several nodes and the service has no workerSpec"
    return ""


def _format_objection(spec: ServingRuntimeSpec, wanted: Wanted) -> str:
    versions = [entry.version or "any" for entry in spec.supported_model_formats if entry.name == wanted.format]
    if versions:
        return f"serves {wanted.format} version {', '.join(versions)}, not {wanted.version}"
    return f"does not list {wanted.format or 'a model without a format'}"


def _passed_over(runtime: ServingRuntime, best: ServingRuntime | None, wanted: Wanted) -> str:
    if runtime is best or best is None:
        return ""
    if _scope(runtime) != _scope(best):
        return f"fits, but {best.name} of the namespace comes first"
    mine, other = _priority(runtime.spec, wanted), _priority(best.spec, wanted)
    return f"fits, but {best.name} comes first (priority {_told(other)} against {_told(mine)})"


def _order(runtime: ServingRuntime, wanted: Wanted) -> tuple[object, ...]:
    """Namespace before cluster, higher priority first, then the lowest protocol, the newest, the name."""
    priority = _priority(runtime.spec, wanted)
    rank = min((_rank(protocol) for protocol in runtime.spec.protocol_versions), default=UNRANKED)
    return (_scope(runtime) != NAMESPACED_KIND, priority is None, -(priority or 0), rank,
            _descending(runtime.creation_timestamp), runtime.name)


def _descending(timestamp: str) -> tuple[int, ...]:
    return tuple(-ord(letter) for letter in timestamp)


def _priority(spec: ServingRuntimeSpec, wanted: Wanted) -> int | None:
    """That of the first entry with the model's format, whatever its version: so KServe has it."""
    return next((entry.priority for entry in spec.supported_model_formats if entry.name == wanted.format), None)


def _serves(entry: SupportedFormat, wanted: Wanted) -> bool:
    """A model that names no version takes any."""
    return entry.name == wanted.format and (not wanted.version or entry.version == wanted.version)


def _keys_of(entries: Iterable[SupportedFormat]) -> Iterator[str]:
    for entry in entries:
        yield entry.name
        if entry.version:
            yield f"{entry.name}:{entry.version}"


def _speaks(spec: ServingRuntimeSpec, protocol: str) -> bool:
    """A runtime that lists no protocols speaks them all."""
    return not spec.protocol_versions or protocol in spec.protocol_versions


def _offer(spec: ServingRuntimeSpec) -> str:
    formats = ", ".join(dict.fromkeys(_keys_of(spec.supported_model_formats))) or "no format"
    protocols = ", ".join(spec.protocol_versions) or "any protocol"
    return f"offers {formats} over {protocols}" + (" and is disabled" if spec.disabled else "")


def _rank(protocol: str) -> int:
    return PROTOCOL_RANK.get(protocol, UNRANKED)


def _scope(runtime: ServingRuntime) -> str:
    return NAMESPACED_KIND if runtime.namespace else CLUSTER_KIND


def _told(priority: int | None) -> str:
    return "none" if priority is None else str(priority)
