"""What is logged: lines for people, or one JSON object a line for programs (`--log-format json`)."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from typing_extensions import override

from .command import option
from .output import Output, printable

LOG_FORMAT = option("--log-format", help="what is logged on the error stream", choices=("text", "json"), default="text")


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and where something broke."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class LoggedOutput(Output):
    """An `Output` whose remarks and errors are log lines."""

    @override
    def note(self, text: str) -> None:
        logging.getLogger("kagent_memory").info("%s", printable(text.strip()))


def logged(format: Literal["text", "json"], say: Output, *, level: int = logging.INFO) -> Output:
    """Logs to the error stream from now on; gives what a command says things by then."""
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")
    if format == "text":
        return say
    for handler in logging.getLogger().handlers:
        handler.setFormatter(JsonFormatter())
    return LoggedOutput(say.as_json)
