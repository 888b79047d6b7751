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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from serveplane.dataplane.modelserver import options as _options
from serveplane.dataplane.modelserver.errors import InvalidInput, ModelNotFound, ModelNotReady, ServingError
from serveplane.dataplane.modelserver.model import Model, Verb
from serveplane.dataplane.modelserver.rows import answer, answers, rows_of
from serveplane.dataplane.modelserver.tensors import (
    InferInput,
    InferOutput,
    InferRequest,
    InferResponse,
    RequestedOutput,
)

__all__ = [
    "InferInput", "InferOutput", "InferRequest", "InferResponse", "InvalidInput", "Model", "ModelNotFound", "ModelNotReady",
    "ModelServer", "PredictorConfig", "RequestedOutput", "ServingError", "Verb", "get_predict_input", "get_predict_response", "parser",
]

_RENAMED = {"grace_period": "grace_seconds", "timeout_keep_alive": "keep_alive_seconds"}   # KServe's names for our options

parser = argparse.ArgumentParser(add_help=False)   # for `ArgumentParser(parents=[parser])` in a user's program
_options.add_arguments(parser)


@dataclass(frozen=True)
class PredictorConfig:
    """Where and how a transformer asks its predictor, for `ModelServer(predictor_config=…)`."""

    predictor_host: str = ""
    predictor_protocol: str = "v1"
    predictor_use_ssl: bool = False
    predictor_request_timeout_seconds: float = 600.0
    predictor_request_retries: int = 0
    predictor_health_check: bool = False

    def options(self) -> dict[str, Any]:
        return {"predictor_host": self.predictor_host, "predictor_protocol": self.predictor_protocol,
                "predictor_tls": self.predictor_use_ssl,
                "predictor_timeout": float(self.predictor_request_timeout_seconds), "predictor_retries": self.predictor_request_retries,
                "predictor_health": self.predictor_health_check}


class ModelServer:
    """Serves a user's models. Flags come from the command line; keyword arguments (`http_port=…`) win over them.

    KServe's keywords are all taken; those about its web server have no effect here.
    """

    def __init__(self, *, predictor_config: PredictorConfig | None = None, registered_models: Any = None, **settings: Any) -> None:
        known, _ = parser.parse_known_args(sys.argv[1:])
        for name in ("ssl_certfile", "ssl_keyfile"):   # these also decide the port
            setattr(known, name, settings.pop(name, getattr(known, name)))
        self._registered: list[Model] = [] if registered_models is None else list(registered_models.get_models().values())
        kept = {_RENAMED.get(name, name): value for name, value in settings.items() if name not in _options.IGNORED}
        asked = {} if predictor_config is None else predictor_config.options()
        self.options = replace(_options.options(known), **asked, **kept)

    def start(self, models: Sequence[Model]) -> None:
        """Serve until asked to stop; ends the program with an error if a model cannot be loaded."""
        from serveplane.dataplane.modelserver import program
        from serveplane.http.loop import run

        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
        code = run(program.main(self.options, [*self._registered, *models]))
        if code:
            sys.exit(code)


def get_predict_input(payload: Any, columns: Sequence[str] | None = None) -> Any:
    """What a model computes with: the rows of a V1 or V2 payload as an array, texts as a list."""
    rows = rows_of(payload, columns)
    if rows.dtype.kind != "O":
        return rows
    return [value.decode() if isinstance(value, bytes) else value for value in rows.ravel()]


def get_predict_response(payload: Any, result: Any, model_name: str) -> Any:
    """A result, one entry per row, in the protocol of the payload. Of a data frame every column is an output."""
    if hasattr(result, "columns"):
        return answers(payload, model_name, {str(name): result[name].to_numpy() for name in result.columns})
    return answer(payload, model_name, np.asarray(result))
