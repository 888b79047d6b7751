"""`serveplane storage-initializer SRC DEST [SRC DEST ...]`: download models, as the init container of a predictor does."""
import argparse
import sys

from serveplane.dataplane.storage.errors import StorageError, shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pairs", nargs="+", metavar="SRC DEST", help="URI and folder, as often as needed")
    parser.add_argument("--connections", type=int, default=8, help="parallel reads (default: %(default)s)")
    parser.add_argument("--deadline", type=float, default=None, metavar="SECONDS", help="give up after this long")
    parser.add_argument("--stall", type=float, default=30.0, metavar="SECONDS", help="reconnect after this long without progress")
    parser.add_argument("--allow", action="append", default=[], metavar="PATTERN", help="only files like this; else STORAGE_ALLOW_PATTERNS")
    parser.add_argument("--ignore", action="append", default=[], metavar="PATTERN", help="no files like this; else STORAGE_IGNORE_PATTERNS")
    parser.add_argument("--no-verify", action="store_true", help="do not compare checksums")


def run(args: argparse.Namespace) -> int:
    if len(args.pairs) % 2:
        print("each SRC needs a DEST", file=sys.stderr)
        return 2
    from serveplane.dataplane.storage.deadline import Deadline
    from serveplane.dataplane.storage.download import download
    from serveplane.dataplane.storage.files import Patterns, patterns_from
    from serveplane.dataplane.storage.transfer import TransferSettings

    given = patterns_from()
    patterns = Patterns(tuple(args.allow) or given.allow, tuple(args.ignore) or given.ignore)
    settings = TransferSettings(max(1, args.connections), stall_seconds=args.stall, deadline_seconds=args.deadline,
                                verify=not args.no_verify)
    deadline = Deadline(args.deadline)
    for uri, destination in zip(args.pairs[::2], args.pairs[1::2], strict=True):
        try:
            download(uri, destination, patterns, settings, deadline=deadline)
        except StorageError as error:
            print(f"{shown(uri)} cannot be downloaded: {error}", file=sys.stderr)
            return 1
    return 0
