"""The `serveplane` command: a table of commands, each imported only when it is the one that runs.

Start-up time is paid by every container that we start, so nothing heavy is imported to print a help text.
"""
import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

from serveplane import __version__


class Command(NamedTuple):
    module: str
    summary: str


COMMANDS = {
    "up": Command("up", "start the one-machine cluster"),
    "down": Command("down", "stop the one-machine cluster"),
    "status": Command("cluster_status", "what the one-machine cluster is doing"),
    "apply": Command("apply", "create or change objects from files"),
    "get": Command("get", "print objects"),
    "logs": Command("logs", "print the log of a pod"),
    "delete": Command("delete", "delete objects"),
    "predict": Command("predict", "send a request to an InferenceService through the gateway"),
    "plan": Command("plan", "print the child objects that files would become"),
    "explain": Command("explain", "which runtime is chosen and what blocks readiness, in words"),
    "crds": Command("crds", "print the custom resource definitions"),
    "manifests": Command("manifests", "print everything that an installation applies"),
    "manager": Command("manager", "run one of the four controller programs"),
    "node": Command("node", "join this machine to a cluster as a node that runs processes"),
    "agent": Command("agent", "run the sidecar that logs, batches and loads models"),
    "router": Command("router", "run the router of an InferenceGraph"),
    "storage-initializer": Command("storage_initializer", "download models"),
    "modelserver": Command("modelserver", "serve models"),
}


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in COMMANDS:
        try:
            return _run(words[0], words[1:])
        except KeyboardInterrupt:  # Ctrl-C while still importing: no traceback for that
            return 130
    parser = _overview()
    parser.parse_args(words)
    parser.print_help()
    return 2


def _run(name: str, words: Sequence[str]) -> int:
    command = COMMANDS[name]
    module = importlib.import_module(f"serveplane.cli.{command.module}")
    parser = argparse.ArgumentParser(prog=f"serveplane {name}", description=command.summary.capitalize() + ".")
    module.add_arguments(parser)
    result: int = module.run(parser.parse_args(words))
    return result


def _overview() -> argparse.ArgumentParser:
    listing = "\n".join(f"  {name:<21}{command.summary}" for name, command in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="serveplane",
        usage="serveplane COMMAND [OPTION...]",
        description="KServe's control plane in Python, and a one-machine Kubernetes to run it on.",
        epilog=f"commands:\n{listing}\n\n`serveplane COMMAND --help` says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"serveplane {__version__}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
