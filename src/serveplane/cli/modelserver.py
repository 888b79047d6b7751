"""`serveplane modelserver`: serve models over V1 and V2, REST and gRPC."""
import argparse
import logging

from serveplane.dataplane.modelserver import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from serveplane.dataplane.modelserver import program
    from serveplane.http.loop import run as run_loop

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    return run_loop(program.main(options.options(args)))
