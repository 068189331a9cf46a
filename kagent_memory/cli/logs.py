"""Log formats: lines for people, or one JSON object a line for programs (`--log-format json`)."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Literal

from typing_extensions import override

from .command import option
from .output import Output, printable

logger = logging.getLogger("kagent_memory")
LITELLM_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")  # they have handlers of their own
LOG_FORMAT = option(
    "--log-format",
    "what is logged on the error stream",
    choices=("text", "json"),
    default="text",
)


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


class TextFormatter(logging.Formatter):
    """One line for each message, whatever it quotes; the lines of a traceback are indented."""

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line without control characters, so that no text can forge another one."""
        return printable(super().formatMessage(record))

    @override
    def formatException(self, ei: Any) -> str:
        """Return the traceback, each line indented and without control characters."""
        return "\n".join(
            f"    {printable(line)}" for line in super().formatException(ei).splitlines()
        )


def _on_one_line(record: logging.LogRecord) -> bool:
    """Let every record pass, with its message on one line."""
    record.msg, record.args = printable(record.getMessage()), ()
    return True


class LoggedOutput(Output):
    """An `Output` whose remarks and errors are logged."""

    @override
    def note(self, text: str) -> None:
        logger.info("%s", printable(text.strip()))

    @override
    def error(self, text: str, *, family: str, exit_code: int) -> None:
        logger.error("%s", printable(text))
        if self.as_json:
            super().error(text, family=family, exit_code=exit_code)


def set_up_logging(
    format: Literal["text", "json"], say: Output, *, level: int = logging.INFO
) -> Output:
    """Log to the error stream from now on; return the output that the command uses then.

    A program that has set up its own logging keeps it.
    """
    root = logging.getLogger()
    if not root.handlers:
        logging.basicConfig(level=level)
        logging.getLogger("mcp").setLevel(logging.WARNING)  # it would speak of every request
        for name in LITELLM_LOGGERS:
            logging.getLogger(name).addFilter(_on_one_line)
        text = TextFormatter("%(levelname)s %(name)s: %(message)s")
        for handler in root.handlers:
            handler.setFormatter(JsonFormatter() if format == "json" else text)
        logging.captureWarnings(format == "json")
    return say if format == "text" else LoggedOutput(say.as_json)
