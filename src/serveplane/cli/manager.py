"""`serveplane manager kserve|llmisvc|localmodel|localmodelnode`: the four programs, with KServe's flags.

Nothing of a program is imported before it is known which one runs.
"""
import argparse
import importlib
import importlib.util
import sys

PROGRAMS = ("kserve", "llmisvc", "localmodel", "localmodelnode")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", choices=PROGRAMS, help="which of the four programs")
    parser.add_argument("--metrics-addr", default=":8080", metavar="ADDRESS", help="where /metrics is served; 0 for nowhere")
    parser.add_argument("--health-probe-addr", default=":8081", metavar="ADDRESS", help="where /healthz and /readyz are served")
    parser.add_argument("--webhook-port", type=int, default=9443, metavar="PORT")
    parser.add_argument("--webhook-cert-dir", default="/tmp/k8s-webhook-server/serving-certs", metavar="FOLDER",
                        help="a mounted certificate (tls.crt, tls.key); one is made if there is none")
    _switch(parser, "--leader-elect", "work only while holding the lease")
    parser.add_argument("--leader-elect-lease-duration", type=_seconds, default=15.0, metavar="DURATION")
    parser.add_argument("--leader-elect-renew-deadline", type=_seconds, default=10.0, metavar="DURATION")
    parser.add_argument("--leader-elect-retry-period", type=_seconds, default=2.0, metavar="DURATION")
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="the cluster; else the pod's own files")
    parser.add_argument("--namespaces", default="", metavar="NAMES", help="watch these only, separated by commas")
    parser.add_argument("--workers", type=int, default=16, metavar="N", help="objects reconciled at the same time")
    parser.add_argument("--tls-min-version", default="VersionTLS12", choices=("VersionTLS12", "VersionTLS13"))
    parser.add_argument("--tls-cipher-suites", default="", metavar="NAMES")
    _add_log_arguments(parser)


def run(args: argparse.Namespace) -> int:
    module = f"serveplane.managers.{args.program}"
    if importlib.util.find_spec(module) is None:
        print(f"error: {args.program} is not part of this release yet", file=sys.stderr)
        return 2
    from serveplane.managers.options import Options
    options = Options(
        metrics_addr=args.metrics_addr, health_probe_addr=args.health_probe_addr, webhook_port=args.webhook_port,
        webhook_cert_dir=args.webhook_cert_dir, leader_elect=args.leader_elect, lease_duration=args.leader_elect_lease_duration,
        renew_deadline=args.leader_elect_renew_deadline, retry_period=args.leader_elect_retry_period, kubeconfig=args.kubeconfig,
        namespaces=_names(args.namespaces), workers=args.workers, tls_min_version=args.tls_min_version,
        tls_cipher_suites=_names(args.tls_cipher_suites), log_level=args.zap_log_level, log_encoder=args.zap_encoder)
    result: int = importlib.import_module(module).run(options)
    return result


def _add_log_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--zap-log-level", default="info", metavar="LEVEL", help="debug, info, warn or error")
    parser.add_argument("--zap-encoder", default="json", choices=("json", "console"))
    _switch(parser, "--zap-devel", "plain lines, debug level")
    for name in ("--zap-stacktrace-level", "--zap-time-encoding"):
        parser.add_argument(name, default="", help=argparse.SUPPRESS)   # accepted, so that KServe's manifests run unchanged


def _switch(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    """As Go spells booleans: `--leader-elect` and `--leader-elect=false`."""
    parser.add_argument(name, nargs="?", const=True, default=False, type=_truth, metavar="true|false", help=text)


def _truth(text: str) -> bool:
    known = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
    if text.lower() not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return known[text.lower()]


def _seconds(text: str) -> float:
    """Go's durations, as far as anyone writes them for a lease: `15s`, `1m`, `500ms`."""
    for suffix, factor in (("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)):
        if text.endswith(suffix):
            try:
                return float(text.removesuffix(suffix)) * factor
            except ValueError:
                break
    raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 15s")


def _names(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
