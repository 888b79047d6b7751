"""`serveplane apply -f FILE`: creates or changes objects, as `kubectl apply --server-side` does."""
import argparse
import shlex

from serveplane.cli.cluster.verbs import Session, add_cluster_arguments, objects_of, run_verb, told_name
from serveplane.kube.client import Client
from serveplane.kube.errors import Invalid, NotFound
from serveplane.kube.kind import kind_of
from serveplane.objects import Json

MANAGER = "kubectl"   # so that kubectl may take over without conflicts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--filename", action="append", required=True, metavar="FILE", help="- is standard input")
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    async def work(session: Session) -> int:
        objects = objects_of(args.filename)
        files = " ".join(f"-f {shlex.quote(name)}" for name in args.filename)
        session.kubectl(f"apply --server-side {files}{session.in_namespace}")
        bad = 0
        for obj in objects:
            try:
                print(await apply_one(session.client, obj, session.namespace))
            except Invalid as problem:   # go on: the user wants to see all that is wrong
                print(f"{obj['kind']}/{obj['metadata'].get('name')}: {problem}")
                bad += 1
        return 1 if bad else 0
    return run_verb("apply", args, work)


async def apply_one(client: Client, obj: Json, namespace: str) -> str:
    """Apply one object; a line saying what became of it, in kubectl's words."""
    resource = await client.discovery.resource(kind_of(obj))
    if resource.namespaced and not (obj.get("metadata") or {}).get("namespace"):
        obj = {**obj, "metadata": {**(obj.get("metadata") or {}), "namespace": namespace}}
    metadata = obj["metadata"]
    try:
        before = await client.get(kind_of(obj), metadata["name"], metadata.get("namespace"))
    except NotFound:
        before = {}
    after = await client.apply(obj, MANAGER, field_validation="Strict")
    same = before and before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
    done = "unchanged" if same else "configured" if before else "created"
    return f"{told_name(kind_of(obj))}/{metadata['name']} {done}"
