"""`serveplane plan`: every child object that files would become once all is healthy, as YAML, without a cluster.

It comes from the same pure function that the controller carries out.
"""
import argparse
import sys
from collections.abc import Callable

from serveplane.cli.offline import (
    BadInput,
    Surroundings,
    add_file_arguments,
    admitted,
    print_verdict,
    read_files,
    surroundings,
)
from serveplane.clock import SYSTEM
from serveplane.controllers.inferenceservice.decide import decide
from serveplane.controllers.inferenceservice.world import World
from serveplane.objects import Json, yamlio
from serveplane.render.metadata import owner_reference

Planner = Callable[[Json, Surroundings], list[Json]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file_arguments(parser, required=True)


def run(args: argparse.Namespace) -> int:
    try:
        return _run(args)
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run(args: argparse.Namespace) -> int:
    given = read_files(args.filename, args.namespace)
    around = surroundings(args, [obj for obj in given if obj["kind"] not in PLANNERS])
    verdicts = [(obj, *admitted(obj, around)) for obj in given]
    for obj, _, verdict in verdicts:
        print_verdict(obj, verdict)
    if any(not verdict.allowed for *_, verdict in verdicts):
        return 1
    children = [child for obj, stored, _ in verdicts if obj["kind"] in PLANNERS for child in PLANNERS[obj["kind"]](stored, around)]
    sys.stdout.write(yamlio.dump_all(children))
    return 0


def _service_children(stored: Json, around: Surroundings) -> list[Json]:
    namespace = stored["metadata"]["namespace"]
    stored = {**stored, "metadata": {"generation": 1, **stored["metadata"]}}
    plan = decide(World(raw=stored, facts=around.facts(namespace), now=SYSTEM.now(), assume_healthy=True))
    if plan.failure is not None:
        raise BadInput(f"InferenceService {stored['metadata']['name']}: {plan.failure.message}")
    owner = {key: value for key, value in owner_reference(stored).items() if value}
    return [{**child, "metadata": {**child["metadata"], "ownerReferences": [owner]}} for child in plan.children]


PLANNERS: dict[str, Planner] = {"InferenceService": _service_children}
