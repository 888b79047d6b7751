"""`serveplane delete KIND NAME` or `delete -f FILE`: deletes objects and waits until they are gone."""
import argparse
import shlex

from serveplane.cli.cluster.folder import ClusterError
from serveplane.cli.cluster.verbs import Session, add_cluster_arguments, objects_of, run_verb, told_name
from serveplane.clock import SYSTEM
from serveplane.kube.errors import NotFound
from serveplane.kube.kind import Kind, kind_of

PATIENCE = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", nargs="?", help="a kind such as isvc, or KIND/NAME")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("-f", "--filename", action="append", default=[], metavar="FILE")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until the objects are gone")
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    async def work(session: Session) -> int:
        targets = await _targets(session, args)
        what = [f"-f {shlex.quote(name)}" for name in args.filename] or [args.kind, *args.names]
        session.kubectl(" ".join(["delete", *what, *(["--wait=false"] if args.no_wait else [])]) + session.in_namespace)
        missing = 0
        for kind, name, namespace in targets:
            try:
                await session.client.delete(kind, name, namespace, propagation="Background")
            except NotFound as problem:
                print(problem)
                missing += 1
                continue
            if not args.no_wait:
                await _gone(session, kind, name, namespace)
            print(f"{told_name(kind)}/{name} deleted")
        return 1 if missing else 0
    return run_verb("delete", args, work)


async def _targets(session: Session, args: argparse.Namespace) -> list[tuple[Kind, str, str | None]]:
    if args.filename:
        found = []
        for obj in reversed(objects_of(args.filename)):
            resource = await session.client.discovery.resource(kind_of(obj))
            namespace = obj["metadata"].get("namespace") or session.namespace if resource.namespaced else None
            found.append((kind_of(obj), obj["metadata"]["name"], namespace))
        return found
    if not args.kind:
        raise ClusterError("say what to delete: KIND NAME, or -f FILE")
    word, slash, name = args.kind.partition("/")
    names = [name, *args.names] if slash else args.names
    if not names:
        raise ClusterError("say which one to delete by name")
    kind, namespaced = await session.kind(word)
    return [(kind, one, session.namespace if namespaced else None) for one in names]


async def _gone(session: Session, kind: Kind, name: str, namespace: str | None) -> None:
    deadline = SYSTEM.monotonic() + PATIENCE
    while await session.client.find(kind, name, namespace) is not None:
        if SYSTEM.monotonic() > deadline:
            raise ClusterError(f"{kind.kind} {name} is still being deleted after {PATIENCE:.0f} s")
        await SYSTEM.sleep(0.1)
