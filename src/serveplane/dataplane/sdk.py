"""Everything a user's own model, transformer or explainer needs, under the names that KServe's SDK has.

    from serveplane.dataplane.sdk import Model, ModelServer

    class Doubled(Model):
        def predict(self, payload, headers):
            return {"predictions": [2 * value for value in payload["instances"]]}

    if __name__ == "__main__":
        ModelServer().start([Doubled("doubled")])
"""
import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from serveplane.dataplane.modelserver import options as _options
from serveplane.dataplane.modelserver.errors import InvalidInput, ModelNotFound, ModelNotReady, ServingError
from serveplane.dataplane.modelserver.model import Model, Verb
from serveplane.dataplane.modelserver.tensors import (
    InferInput,
    InferOutput,
    InferRequest,
    InferResponse,
    RequestedOutput,
)

__all__ = [
    "InferInput", "InferOutput", "InferRequest", "InferResponse", "InvalidInput", "Model", "ModelNotFound", "ModelNotReady",
    "ModelServer", "RequestedOutput", "ServingError", "Verb", "parser",
]

parser = argparse.ArgumentParser(add_help=False)   # for `ArgumentParser(parents=[parser])` in a user's program
_options.add_arguments(parser)


class ModelServer:
    """Serves a user's models. Flags come from the command line; keyword arguments (`http_port=…`) win over them."""

    def __init__(self, **settings: Any) -> None:
        known, _ = parser.parse_known_args(sys.argv[1:])
        self.options = replace(_options.options(known), **settings)

    def start(self, models: Sequence[Model]) -> None:
        """Serve until asked to stop; ends the program with an error if a model cannot be loaded."""
        from serveplane.dataplane.modelserver import program
        from serveplane.http.loop import run

        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
        code = run(program.main(self.options, models))
        if code:
            sys.exit(code)
