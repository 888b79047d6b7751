"""`serveplane logs NAME`: the log of a pod, or of the pods of an InferenceService."""
import argparse
import sys
from collections.abc import Iterator

from serveplane.cli.cluster.folder import ClusterError
from serveplane.cli.cluster.verbs import Session, add_cluster_arguments, run_verb
from serveplane.kube.kind import Kind
from serveplane.objects import Json

POD = Kind("v1", "Pod")
SERVICE_LABEL = "serving.kserve.io/inferenceservice"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="a pod, or isvc/NAME for the first pod of a service")
    parser.add_argument("-c", "--container", default="")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as more is written")
    parser.add_argument("-p", "--previous", action="store_true", help="the run before the present one")
    parser.add_argument("--tail", type=int, default=None, metavar="LINES")
    parser.add_argument("--since", type=int, default=None, metavar="SECONDS")
    parser.add_argument("--timestamps", action="store_true")
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    async def work(session: Session) -> int:
        pod = await _pod(session, args.name)
        container = args.container or _default_container(pod)
        session.kubectl(" ".join(["logs", pod["metadata"]["name"], *_flags(args, container)]) + session.in_namespace)
        stream = session.client.logs(pod["metadata"]["name"], session.namespace, container=container,
                                     follow=args.follow, previous=args.previous, tail=args.tail,
                                     since_seconds=args.since, timestamps=args.timestamps)
        async for piece in stream:
            sys.stdout.buffer.write(piece)
            sys.stdout.flush()
        return 0
    return run_verb("logs", args, work)


def _flags(args: argparse.Namespace, container: str) -> Iterator[str]:
    yield f"-c {container}"
    yield from (flag for flag, given in (("-f", args.follow), ("-p", args.previous), ("--timestamps", args.timestamps)) if given)
    if args.tail is not None:
        yield f"--tail={args.tail}"
    if args.since is not None:
        yield f"--since={args.since}s"


async def _pod(session: Session, name: str) -> Json:
    word, slash, service = name.partition("/")
    if not slash or word in ("pod", "pods", "po"):
        return await session.client.get(POD, service if slash else name, session.namespace)
    pods = await session.client.list(POD, session.namespace, labels=f"{SERVICE_LABEL}={service}")
    if not pods:
        raise ClusterError(f"{name} has no pods")
    return pods[0]


def _default_container(pod: Json) -> str:
    wanted = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    return str(wanted or pod["spec"]["containers"][0]["name"])
