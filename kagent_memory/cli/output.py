"""Print tables for people, JSON for programs, and progress and log lines to standard error."""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from pydantic_core import to_jsonable_python
from typing_extensions import override

from ..records import Memory

MIN_TEXT_WIDTH = 60  # on a terminal, in columns
SHORT_ID = 28  # characters of an id on a terminal; one batch differs before its random end
CONTENT = "CONTENT"
logger = logging.getLogger("kagent_memory")
STYLES = {"bold": 1, "red": 31, "green": 32, "yellow": 33}


Column: TypeAlias = str | Callable[[Any], object]
"""The value of a column: the path of an attribute, or a function of the row's item."""


class UnwritableOutput(Exception):
    """Standard output cannot be written, for example because the disk is full."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command.

    Attributes:
        value: the JSON document.
        columns: the columns of the table for people, by title; see `cell`.
        items: the rows of the table; None: the items of `value`.
        lines: lines below the table; None: the fields of `value`.
        code: the exit code.
    """

    value: Any
    columns: Mapping[str, Column] = field(default_factory=dict[str, Column])
    items: Iterable[object] | None = None
    lines: Sequence[str] | None = None
    code: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """Print the results of a command.

    All methods raise BrokenPipeError if the reader has gone, and UnwritableOutput if standard
    output fails in another way.

    Attributes:
        as_json: True to write one JSON document to standard output and nothing else.
        logs: True to write notes and errors as log lines.
    """

    as_json: bool = False
    logs: bool = False

    def answer(self, answer: Answer) -> None:
        """Print an answer."""
        if self.as_json:
            self.json(answer.value)
            return
        if answer.columns:
            rows = [
                [printable(cell(value_in(column, item))) for column in answer.columns.values()]
                for item in (answer.value if answer.items is None else answer.items)
            ]
            _write_table([*answer.columns], rows)
        for line in described(answer) if answer.lines is None else answer.lines:
            self.line(line)

    def line(self, line: str) -> None:
        """Write a line to standard output."""
        _write(line + "\n")

    def note(self, text: str) -> None:
        """Print progress or a note to standard error."""
        if self.logs:
            logger.info("%s", printable(text.strip()))
            return
        with suppress(OSError):  # a note that cannot be printed must not end the command
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def json(self, value: Any) -> None:
        """Write a JSON document."""
        self.line(json.dumps(to_jsonable_python(value), ensure_ascii=False, indent=2))

    def error(self, text: str, *, family: str, exit_code: int) -> None:
        """Report an error: as one line on standard error, or as the JSON document."""
        if self.as_json:
            self.json({"error": {"family": family, "message": text, "exit_code": exit_code}})
        if self.logs:
            logger.error("%s", printable(text))
        elif not self.as_json:
            self.note(f"kagent-memory: {printable(text)}")

    def flush(self) -> None:
        """Flush standard output."""
        _write("", flush=True)


@contextmanager
def writing() -> Generator[None]:
    """Turn failures of standard output in the block into our error.

    Raises:
        BrokenPipeError: the reader has gone.
        UnwritableOutput: standard output failed in another way.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnwritableOutput(
            f"The answer cannot be written: {error.strerror or error}."
        ) from error


def _write(text: str, *, flush: bool = False) -> None:
    with writing():
        sys.stdout.write(text)
        if flush:
            sys.stdout.flush()


def _write_table(head: Sequence[str], rows: list[list[str]]) -> None:
    """Print columns; on a terminal cut the last one to the width, and ids as long as they stay
    unique.
    """
    is_terminal = sys.stdout.isatty()
    if is_terminal and "ID" in head and head[-1] == CONTENT:
        at = head.index("ID")
        ids = {row[at] for row in rows}
        length = SHORT_ID
        while len({id[:length] for id in ids}) < len(ids):
            length += 1
        rows = [[*row[:at], row[at][:length], *row[at + 1 :]] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)][:-1]
    left = shutil.get_terminal_size((100, 24)).columns - sum(widths) - 2 * len(widths)
    for number, row in enumerate((head, *rows)):
        last = shortened(row[-1], max(MIN_TEXT_WIDTH, left)) if is_terminal else row[-1]
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        text = "  ".join([*padded, last]).rstrip()
        _write((text if number else styled(text, "bold")) + "\n")


def styled(text: str, style: str) -> str:
    """Return the text in one of `STYLES` if standard output is a terminal with colours
    (https://no-color.org).
    """
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if sys.stdout.isatty() and not is_plain else text


def prepare_streams() -> None:
    """Make standard output and error accept every character, replacing what their encoding lacks
    by "?"; output to a closed stream is dropped.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 until the process ends
            setattr(sys, name, stream)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def discard_stdout() -> None:
    """Redirect standard output to nowhere, so that the interpreter does not fail to flush it at
    exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """Return the text on one line without terminal control characters."""
    return "".join(
        char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text
    )


def shortened(text: str, width: int) -> str:
    """Return at most `width` characters, ending in … if the text was cut."""
    return text if len(text) <= width else text[: width - 1] + "…"


def cell(value: object) -> str:
    """Format a value for people: None and "" as a dash, times to the second, lists with commas."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value)
        return ", ".join(f"{name} {cell(inner)}" for name, inner in fields.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(cell, cast("Iterable[object]", value)))
    return "-" if value in (None, "") else str(value)


def described(answer: Answer) -> list[str]:
    """Return the non-empty fields of an answer that the table does not show, one per line."""
    value = answer.value
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if not isinstance(value, Mapping):
        return []
    return [
        f"{name.replace('_', ' '):<13} {printable(cell(inner))}"
        for name, inner in cast("Mapping[str, object]", value).items()
        if inner is not answer.items and inner not in (None, "", (), [], {})
    ]


def day(at: datetime | None) -> str:
    """Format a day as 2026-01-31, or None as a dash."""
    return at.strftime("%Y-%m-%d") if at else "-"


def expiry(memory: Memory) -> str:
    """Format the expiry of a memory for people."""
    return "never" if memory.pinned or not memory.expires_at else day(memory.expires_at)


def value_in(column: Column, item: Any) -> object:
    """Return an item's value for a column."""
    return attrgetter(column)(item) if isinstance(column, str) else column(item)


SCOPE_COLUMNS: Mapping[str, Column] = {
    "TENANT": "scope.tenant",
    "APP": "scope.app",
    "USER": "scope.user",
}
MEMORY_COLUMNS: Mapping[str, Column] = {
    "ID": "id",
    "TYPE": "type",
    "DELIVERED": "usage.delivered",
    "CREATED": lambda memory: day(memory.created_at),
    "EXPIRES": expiry,
    CONTENT: "content",
}


# -- log lines ----------------------------------------------------------------------------------


class JsonFormatter(logging.Formatter):
    """Format a record as one line of JSON: time, level, logger, message and traceback."""

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
    """Format a record as one line, followed by an indented traceback."""

    @override
    def formatException(self, ei: Any) -> str:
        """Return the traceback with indented lines and without control characters."""
        return "\n".join(
            f"    {printable(line)}" for line in super().formatException(ei).splitlines()
        )


def _on_one_line(*args: Any, **kwargs: Any) -> logging.LogRecord:
    """Return the record with control characters removed from its message.

    So no text can forge a log line, whichever handler writes it; LiteLLM has its own.
    """
    record = logging.LogRecord(*args, **kwargs)
    with suppress(
        TypeError, ValueError
    ):  # leave it to the handler to report that the arguments do not fit
        record.msg, record.args = printable(record.getMessage()), ()
    return record


def set_up_logging(
    format: Literal["text", "json"], say: Output, *, level: int = logging.INFO
) -> Output:
    """Send log records to standard error, and return the output for the command.

    The logging of a program that has set up its own stays as it is.
    """
    root = logging.getLogger()
    if not root.handlers:
        logging.basicConfig(level=level)
        logging.getLogger("mcp").setLevel(logging.WARNING)  # else it logs every request
        formatter = TextFormatter("%(levelname)s %(name)s: %(message)s")
        if format == "json":
            formatter = JsonFormatter()
            logging.captureWarnings(True)
        logging.setLogRecordFactory(_on_one_line)
        for handler in root.handlers:
            handler.setFormatter(formatter)
    return Output(say.as_json, logs=format == "json")
