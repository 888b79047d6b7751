"""Logs as one JSON object per line, with the extra fields of each record beside its message."""

import logging
import sys
from typing import TextIO

import msgspec

from serveplane.clock import SYSTEM, Clock, micro_timestamp

_USUAL = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    def __init__(self, clock: Clock = SYSTEM) -> None:
        super().__init__()
        self._clock = clock

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": micro_timestamp(self._clock.now()),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        line.update((name, value) for name, value in record.__dict__.items() if name not in _USUAL)
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = f"{record.exc_info[0].__name__}: {record.exc_info[1]}"
            line["stacktrace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def set_up_logs(level: str = "info", stream: TextIO = sys.stderr, *, json: bool = True) -> None:
    """Send all of this process's logs to one stream; people at a terminal may prefer plain lines."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if json else logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(
        {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}.get(
            level.lower(), logging.INFO
        )
    )
