"""What is logged: lines for people, or one JSON object a line for programs (`--log-format json`)."""

from __future__ import annotations

import json
import logging
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal

from typing_extensions import override

from .command import option
from .output import Output, printable

logger = logging.getLogger("kagent_memory")
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
        self._log(logging.INFO, text.strip())

    @override
    def error(self, text: str, *, family: str, exit_code: int) -> None:
        self._log(logging.ERROR, text)
        if self.as_json:
            super(LoggedOutput, self).error(text, family=family, exit_code=exit_code)

    def _log(self, level: int, text: str) -> None:
        record = logging.LogRecord(logger.name, level, __file__, 0, printable(text), None, None)
        super(LoggedOutput, self).note(JsonFormatter().format(record))


def logged(format: Literal["text", "json"], say: Output, *, level: int = logging.INFO) -> Output:
    """Logs to the error stream from now on; gives the output that the command uses then.

    As JSON that is all that the error stream gets: warnings and unexpected errors too. A program that has set up its
    own logging keeps it.
    """
    root = logging.getLogger()
    if not root.handlers:
        logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("mcp").setLevel(logging.WARNING)  # it would speak of every request
        if format == "json":
            for handler in root.handlers:
                handler.setFormatter(JsonFormatter())
            logging.captureWarnings(True)
            sys.excepthook = _log_uncaught
            threading.excepthook = _log_of_thread
    return say if format == "text" else LoggedOutput(say.as_json)


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    logger.critical("%s ended the command.", kind.__name__, exc_info=(kind, error, trace))


def _log_of_thread(args: threading.ExceptHookArgs) -> None:
    error = args.exc_value or args.exc_type()
    logger.error("%s ended a thread.", args.exc_type.__name__, exc_info=(args.exc_type, error, args.exc_traceback))
