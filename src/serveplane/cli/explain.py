"""`serveplane explain`: which runtime is chosen and why not the others, and what blocks readiness, in words."""
import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from serveplane.cli.cluster.folder import Folder, default_folder
from serveplane.cli.offline import BadInput, add_file_arguments, admitted, print_verdict, read_files, surroundings
from serveplane.clock import SYSTEM
from serveplane.controllers.inferenceservice.decide import decide
from serveplane.controllers.inferenceservice.world import Plan, World
from serveplane.objects import Json
from serveplane.objects.conditions import condition

NAMES = ("isvc", "inferenceservice", "inferenceservices", "inferenceservice.serving.kserve.io")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("object", nargs="?", metavar="isvc/NAME", help="a service of the cluster")
    parser.add_argument("--data", type=Path, default=default_folder(), metavar="DIR",
                        help="the data folder of the one-machine cluster (default: %(default)s)")
    parser.add_argument("--kubeconfig", default="", metavar="FILE",
                        help="talk to this cluster (default: the one-machine cluster if it runs, else as kubectl finds it)")
    add_file_arguments(parser, required=False)


def run(args: argparse.Namespace) -> int:
    try:
        if args.object:
            return _explain_live(args)
        if args.filename:
            return _explain_files(args)
        raise BadInput("name a service (isvc/NAME) or a file (-f FILE)")
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _explain_files(args: argparse.Namespace) -> int:
    given = read_files(args.filename, args.namespace)
    services = [obj for obj in given if obj["kind"] == "InferenceService"]
    around = surroundings(args, [obj for obj in given if obj not in services])
    if not services:
        raise BadInput("there is no InferenceService in the files")
    refused = False
    for obj in services:
        stored, verdict = admitted(obj, around)
        print_verdict(obj, verdict)
        refused |= not verdict.allowed
        if verdict.allowed:
            world = World(raw=stored, facts=around.facts(stored["metadata"]["namespace"]), now=SYSTEM.now(), assume_healthy=True)
            print("\n".join(explanation(world, decide(world))))
    return 1 if refused else 0


def _explain_live(args: argparse.Namespace) -> int:
    kind, _, name = args.object.rpartition("/")
    if kind and kind.lower() not in NAMES:
        raise BadInput(f"{kind} cannot be explained, only isvc/NAME")
    from serveplane.cli.live import seen_service
    world = seen_service(name, args.namespace, args.kubeconfig or _running_cluster(args.data))
    print("\n".join(explanation(world, decide(world))))
    return 0


def _running_cluster(data: Path) -> str:
    """How to reach the one-machine cluster of a folder; nothing if none runs there."""
    folder = Folder(data)
    return str(folder.kubeconfig) if folder.path.is_dir() and folder.is_running() else ""


def explanation(world: World, plan: Plan) -> Iterator[str]:
    """The whole answer, line by line."""
    metadata = world.raw["metadata"]
    yield f"InferenceService {metadata.get('namespace')}/{metadata['name']} ({world.mode.value} mode)"
    yield from _runtime_lines(plan)
    yield from _blocker_lines(world, plan)
    yield ""


def _runtime_lines(plan: Plan) -> Iterator[str]:
    selection = plan.selection
    if selection is None:
        yield "  Runtime: none is needed, the predictor brings its own container"
        return
    yield f"  Runtime: {selection.runtime.name if selection.runtime else 'none'}"
    width = max((len(row.name) for row in selection.table), default=0)
    for row in sorted(selection.table, key=lambda row: (not row.chosen, bool(row.objection), row.objection.startswith("does not list"))):
        mark, verdict = ("*", "is taken") if row.chosen else (" ", row.objection or "fits")
        yield f"   {mark} {row.name:<{width}}  {'cluster' if row.scope.startswith('Cluster') else 'namespace':<9}  {verdict}"


def _blocker_lines(world: World, plan: Plan) -> Iterator[str]:
    if plan.failure is not None:
        yield f"  Blocked: {plan.failure.reason.value}: {plan.failure.message}"
        return
    if world.assume_healthy:
        yield f"  Nothing in the files blocks it: {len(plan.children)} objects would be made"
        return
    conditions = (world.raw.get("status") or {}).get("conditions") or []
    ready = condition(conditions, "Ready") or {"status": "Unknown", "message": "the controller has not looked at it yet"}
    if ready["status"] == "True":
        yield "  Ready"
        return
    yield f"  Blocked: {': '.join(part for part in (ready.get('reason'), ready.get('message')) if part) or 'no reason is known'}"
    yield from _other_conditions(conditions)


def _other_conditions(conditions: list[Json]) -> Iterator[str]:
    for told in conditions:
        if told["status"] != "True" and told["type"] not in ("Ready", "Stopped"):
            text = ": ".join(part for part in (told.get("reason"), told.get("message")) if part)
            yield f"    {told['type']} is {told['status']}" + (f": {text}" if text else "")
