"""`serveplane predict NAME -d FILE`: sends a request to an InferenceService through the gateway."""
import argparse
import json
import shlex
import sys
from pathlib import Path

from serveplane.cli.cluster.folder import ClusterError, running
from serveplane.cli.cluster.verbs import Session, add_cluster_arguments, run_verb
from serveplane.http import Client as HttpClient
from serveplane.http import ClientError
from serveplane.kube.kind import Kind
from serveplane.objects import Json
from serveplane.objects.conditions import condition

SERVICE = Kind("serving.kserve.io/v1beta1", "InferenceService")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name")
    parser.add_argument("-d", "--data-file", "--input", dest="body", required=True, metavar="FILE",
                        help="the request: a file, - for standard input, or the JSON itself")
    parser.add_argument("--protocol", choices=["v1", "v2"], default="", help="default: by the request's shape")
    parser.add_argument("--model", default="", help="the model's name (default: the service's)")
    parser.add_argument("--path", default="", help="another path, instead of the protocol's")
    parser.add_argument("-v", "--verbose", action="store_true", help="also print the answer's head")
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    async def work(session: Session) -> int:
        body = _body(args.body)
        service = await session.client.get(SERVICE, args.name, session.namespace)
        url = _base(session, args, service) + (args.path or _path(args, body))
        print(f"$ curl -s {shlex.quote(url)} -H 'Content-Type: application/json' -d {_for_curl(args.body)}",
              file=sys.stderr)
        return await _send(url, body, args.verbose, service)
    return run_verb("predict", args, work)


def _base(session: Session, args: argparse.Namespace, service: Json) -> str:
    """Where the service is: on the one-machine cluster always by the gateway's address, elsewhere as its status says."""
    if not args.kubeconfig:
        return f"{running(session.folder).gateway}/serving/{session.namespace}/{args.name}"
    told = (service.get("status") or {}).get("url")
    if not told:
        raise ClusterError(f"the service has no URL yet{_why(service)}")
    return str(told).rstrip("/")


async def _send(url: str, body: bytes, verbose: bool, service: Json) -> int:
    async with HttpClient() as client:
        try:
            answer = await client.request("POST", url, headers={"Content-Type": "application/json"}, body=body,
                                          timeout=120.0)
        except ClientError as problem:
            raise ClusterError(f"the gateway gave no answer: {problem}") from problem
        text = (await answer.read()).decode("utf-8", "replace")
    if verbose:
        print(f"HTTP {answer.status}", *(f"{name}: {value}" for name, value in answer.headers.items()), "", sep="\n")
    print(text.rstrip("\n"))
    if answer.status < 400:
        return 0
    print(f"serveplane predict: HTTP {answer.status}{_why(service)}", file=sys.stderr)
    return 1


def _why(service: Json) -> str:
    ready = condition((service.get("status") or {}).get("conditions"), "Ready")
    if ready is None or ready.get("status") == "True":
        return ""
    return f"; the service is not ready: {ready.get('message') or ready.get('reason') or 'no reason given'}"


def _body(given: str) -> bytes:
    try:
        if given == "-":
            return sys.stdin.buffer.read()
        return given.encode() if given.lstrip().startswith(("{", "[")) else Path(given).read_bytes()
    except OSError as problem:
        raise ClusterError(f"{given} cannot be read: {problem.strerror}") from problem


def _path(args: argparse.Namespace, body: bytes) -> str:
    model = args.model or args.name
    protocol = args.protocol
    if not protocol:
        try:
            protocol = "v2" if "inputs" in json.loads(body) and "instances" not in json.loads(body) else "v1"
        except (ValueError, TypeError):
            protocol = "v1"
    return f"/v1/models/{model}:predict" if protocol == "v1" else f"/v2/models/{model}/infer"


def _for_curl(given: str) -> str:
    return shlex.quote(given if given.lstrip().startswith(("{", "[")) else "@" + given)
