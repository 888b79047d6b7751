"""`serveplane get KIND [NAME]`: prints objects, as a table made by the API server or as YAML or JSON."""
import argparse
import shlex

import msgspec

from serveplane.cli.cluster.verbs import Session, add_cluster_arguments, run_verb, told_name
from serveplane.objects import Json, yamlio

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", help="a kind such as isvc or pods, or KIND/NAME")
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("-o", "--output", choices=["yaml", "json", "wide", "name"], default="")
    parser.add_argument("-A", "--all-namespaces", action="store_true")
    parser.add_argument("-l", "--selector", default="", help="labels to select by")
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    async def work(session: Session) -> int:
        word, slash, name = args.kind.partition("/")
        name = name if slash else args.name
        kind, namespaced = await session.kind(word)
        resource = await session.client.discovery.resource(kind)
        everywhere = args.all_namespaces or not namespaced
        path = resource.path("" if everywhere else session.namespace, name)
        flags = [f"-o {args.output}"] if args.output else []
        flags += ["-A"] if args.all_namespaces else []
        flags += [f"-l {shlex.quote(args.selector)}"] if args.selector else []
        session.kubectl(" ".join(["get", word, *([name] if name else []), *flags]) + (session.in_namespace if not everywhere else ""))
        accept = "" if args.output in ("yaml", "json", "name") else TABLE
        reply = await session.client.rest.request("GET", path, {"labelSelector": args.selector}, accept=accept)
        assert isinstance(reply.body, bytes)
        answer = msgspec.json.decode(reply.body)
        if args.output == "name":
            print("\n".join(f"{told_name(kind)}/{obj['metadata']['name']}" for obj in answer.get("items", [answer])))
            return 0
        return _print(answer, args.output, args.all_namespaces, session.namespace)
    return run_verb("get", args, work)


def _print(answer: Json, output: str, with_namespace: bool, namespace: str) -> int:
    if output == "yaml":
        print(yamlio.dump(answer), end="")
    elif output == "json":
        print(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
    elif not answer.get("rows"):
        print(f"No resources found{'' if with_namespace else f' in {namespace} namespace'}.")
    else:
        print(table(answer, wide=output == "wide", with_namespace=with_namespace))
    return 0


def table(answer: Json, *, wide: bool, with_namespace: bool) -> str:
    """A Table of the API server as text in columns."""
    shown = [index for index, column in enumerate(answer["columnDefinitions"]) if wide or not column.get("priority")]
    lines = [[answer["columnDefinitions"][index]["name"].upper() for index in shown]]
    lines += [[_cell(row["cells"][index]) for index in shown] for row in answer["rows"]]
    if with_namespace:
        spaces = [((row.get("object") or {}).get("metadata") or {}).get("namespace", "") for row in answer["rows"]]
        lines = [[space, *line] for space, line in zip(["NAMESPACE", *spaces], lines, strict=True)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
                     for line in lines)


def _cell(value: object) -> str:
    return "" if value is None else str(value)
