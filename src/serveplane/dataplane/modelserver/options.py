"""KServe's flags, with KServe's defaults. Flags of its web server that have no meaning here are accepted and said to be ignored."""
import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from serveplane import pod
from serveplane.dataplane.modelserver.limits import QUEUE, BatchLimits

MODELS = "/mnt/models"
PICKLE_RULES = ("any", "known", "never")
FRAMEWORKS = ("sklearn", "xgboost", "lightgbm", "onnx", "python")
IGNORED = ("enable_docs_url", "configure_logging", "log_config_file", "access_log_format", "max_threads",
           "max_asyncio_workers", "event_loop", "enable_latency_logging")
_BY_IMAGE = {"sklearnserver": "sklearn", "xgbserver": "xgboost", "lgbserver": "lightgbm"}


@dataclass(frozen=True)
class Options:
    """How one model server runs."""

    model_name: str = "model"
    model_dir: Path = Path(MODELS)
    host: str = "0.0.0.0"
    http_port: int = 8080
    grpc_port: int = 8081
    enable_grpc: bool = True
    workers: int = 1
    framework: str = ""
    pickle: str = "any"
    own_arithmetic: bool = True
    threads: int = 1
    max_queue: int = QUEUE
    max_batch_rows: int = 1024
    max_body_bytes: int = 64 << 20
    grace_seconds: float = 30.0
    keep_alive_seconds: float = 65.0
    certificate: str = ""
    key: str = ""
    predictor_host: str = ""
    predictor_protocol: str = "v1"
    predictor_tls: bool = False
    predictor_timeout: float = 600.0
    predictor_retries: int = 0
    predictor_health: bool = False
    grpc_max_message: int = 8 << 20

    @property
    def limits(self) -> BatchLimits:
        return BatchLimits(rows=self.max_batch_rows, waiting_requests=self.max_queue)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    environment = os.environ
    model = parser.add_argument_group("model")
    model.add_argument("--model_name", default=environment.get("MLSERVER_MODEL_NAME", "model"), help="default: %(default)s")
    model.add_argument("--model_dir", default=environment.get("MODEL_URI") or environment.get("MLSERVER_MODEL_URI") or MODELS,
                       help="the model's folder, or a folder with one folder per model")
    model.add_argument("--framework", choices=FRAMEWORKS, default=framework_of_image(environment),
                       help="default: by the file's name and first bytes")
    model.add_argument("--pickle", choices=PICKLE_RULES, default="any",
                       help="pickles run code. any: as KServe; known: only models computed without running the file; never: none")
    model.add_argument("--own_arithmetic", type=truth, default=True,
                       help="compute well-known scikit-learn models without scikit-learn (default: %(default)s)")
    model.add_argument("--nthread", type=_positive, default=1, help="threads of XGBoost, LightGBM and ONNX (default: %(default)s)")
    _add_listening(parser.add_argument_group("listening"), environment)
    _add_limits(parser.add_argument_group("limits"))
    _add_predictor(parser.add_argument_group("transformers and explainers"))
    ignored = parser.add_argument_group("accepted for KServe's sake, without effect")
    for name in IGNORED:
        ignored.add_argument(f"--{name}", f"--{name.replace('_', '-')}", default=None, help=argparse.SUPPRESS)


def options(args: argparse.Namespace) -> Options:
    """The parsed flags, with the pod's own folders in place of the manifest's."""
    port, certificate, key = args.http_port, args.ssl_certfile or "", args.ssl_keyfile or ""
    if port is None:
        port = 8443 if certificate and key else 8080
    return Options(
        model_name=args.model_name,
        model_dir=Path(pod.real_path(args.model_dir.removeprefix("file://"))),
        host=args.host,
        http_port=port,
        grpc_port=args.grpc_port,
        enable_grpc=args.enable_grpc,
        workers=args.workers,
        framework=args.framework,
        pickle=args.pickle,
        own_arithmetic=args.own_arithmetic,
        threads=args.nthread,
        max_queue=args.max_queue,
        max_batch_rows=args.max_batch_rows,
        max_body_bytes=args.max_body_bytes,
        grace_seconds=args.grace_period,
        keep_alive_seconds=args.timeout_keep_alive,
        certificate=pod.real_path(certificate),
        key=pod.real_path(key),
        predictor_host=args.predictor_host or "",
        predictor_protocol=args.predictor_protocol or args.protocol,
        predictor_tls=args.predictor_use_ssl,
        predictor_timeout=args.predictor_request_timeout_seconds,
        predictor_retries=args.predictor_request_retries,
        predictor_health=args.enable_predictor_health_check,
        grpc_max_message=max(args.grpc_max_send_message_length, args.grpc_max_receive_message_length),
    )


def framework_of_image(environment: Mapping[str, str]) -> str:
    """On the process node the image says which framework is meant, as it would by its contents."""
    image = environment.get("SERVEPLANE_IMAGE", "")
    return next((framework for name, framework in _BY_IMAGE.items() if name in image), "")


def truth(text: str) -> bool:
    """KServe's booleans: y, yes, t, true, on, 1 and their opposites."""
    value = text.casefold()
    if value in ("y", "yes", "t", "true", "on", "1"):
        return True
    if value in ("n", "no", "f", "false", "off", "0"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def _add_listening(group: "argparse._ArgumentGroup", environment: Mapping[str, str]) -> None:
    group.add_argument("--host", default="0.0.0.0", help="address to listen on (default: %(default)s, or the pod's own)")
    group.add_argument("--http_port", type=_port, default=_int(environment.get("MLSERVER_HTTP_PORT")), help="default: 8080, with TLS 8443")
    group.add_argument("--grpc_port", type=_port, default=_int(environment.get("MLSERVER_GRPC_PORT")) or 8081, help="default: %(default)s")
    group.add_argument("--enable_grpc", type=truth, default=True, help="default: %(default)s")
    group.add_argument("--workers", type=_positive, default=1, help="processes that share the port (default: %(default)s)")
    group.add_argument("--ssl_certfile", default=environment.get("KSERVE_TLS_CERT_FILE"))
    group.add_argument("--ssl_keyfile", default=environment.get("KSERVE_TLS_KEY_FILE"))
    group.add_argument("--grpc_max_send_message_length", type=_positive, default=8 << 20)
    group.add_argument("--grpc_max_receive_message_length", type=_positive, default=8 << 20)


def _add_limits(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--max_queue", type=_positive, default=QUEUE,
                       help="requests that may wait for a model; more get 503 (default: %(default)s)")
    group.add_argument("--max_batch_rows", type=_positive, default=1024, help="rows predicted in one call (default: %(default)s)")
    group.add_argument("--max_body_bytes", type=_positive, default=64 << 20, help="longer requests get 413 (default: %(default)s)")
    group.add_argument("--grace_period", type=float, default=30.0, help="seconds to finish requests after SIGTERM (default: %(default)s)")
    group.add_argument("--timeout-keep-alive", "--timeout_keep_alive", dest="timeout_keep_alive", type=float, default=65.0)


def _add_predictor(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--predictor_host", default=None, help="host[:port] of the predictor")
    group.add_argument("--protocol", choices=("v1", "v2", "grpc-v2"), default="v1", help=argparse.SUPPRESS)
    group.add_argument("--predictor_protocol", choices=("v1", "v2", "grpc-v2"), default=None)
    group.add_argument("--predictor_use_ssl", type=truth, default=False)
    group.add_argument("--predictor_request_timeout_seconds", type=float, default=600.0)
    group.add_argument("--predictor_request_retries", type=int, default=0)
    group.add_argument("--enable_predictor_health_check", action="store_true")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number < 65536:
        raise argparse.ArgumentTypeError(f"{text} is no port")
    return number


def _int(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
