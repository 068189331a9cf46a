"""Output of commands: tables for people, JSON for programs, progress and log lines on the error
stream.
"""

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

MIN_TEXT_WIDTH = 60  # columns of a text on a terminal
SHORT_ID = 13  # characters of an id on a terminal, more where those are not unique
CONTENT = "CONTENT"
logger = logging.getLogger("kagent_memory")
STYLES = {"bold": 1, "red": 31, "green": 32, "yellow": 33}


Column: TypeAlias = str | Callable[[Any], object]
"""What stands in a column: the path of an attribute, or a function of the row's item."""


class UnwritableOutput(Exception):
    """Standard output does not take the answer: the disk is full, say."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a command.

    Attributes:
        value: the JSON document.
        columns: of a table for people, by their titles; see `cell`.
        items: what its rows are about; None: those of `value`.
        lines: what else people read, under the table; None: the fields of `value`.
        code: the exit code.
    """

    value: Any
    columns: Mapping[str, Column] = field(default_factory=dict[str, Column])
    items: Iterable[object] | None = None
    lines: Sequence[str] | None = None
    code: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """Write a command's results.

    Attributes:
        as_json: as one JSON document on standard output and nothing else.
        logs: remarks and errors are lines of the log.

    Everything that writes raises BrokenPipeError when the reader went away, and UnwritableOutput
    when standard output fails otherwise.
    """

    as_json: bool = False
    logs: bool = False

    def answer(self, answer: Answer) -> None:
        """Write an answer."""
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
        """Write progress and remarks to the error stream."""
        if self.logs:
            logger.info("%s", printable(text.strip()))
            return
        with suppress(OSError):  # a remark that nobody can read must not end the command
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def json(self, value: Any) -> None:
        """Write a JSON document."""
        self.line(json.dumps(to_jsonable_python(value), ensure_ascii=False, indent=2))

    def error(self, text: str, *, family: str, exit_code: int) -> None:
        """Say what went wrong: one line on the error stream, or the JSON document."""
        if self.as_json:
            self.json({"error": {"family": family, "message": text, "exit_code": exit_code}})
        if self.logs:
            logger.error("%s", printable(text))
        elif not self.as_json:
            self.note(f"kagent-memory: {printable(text)}")

    def flush(self) -> None:
        """Write out what is still buffered."""
        _write("", flush=True)


@contextmanager
def writing() -> Generator[None]:
    """Say so where standard output does not take what the block writes.

    Raises:
        BrokenPipeError: its reader went away.
        UnwritableOutput: it failed otherwise.
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
    """Write columns. On a terminal the last one is cut to what is left of the line, and ids to what
    tells them apart.
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
    """Return the text in one of `STYLES` where standard output is a terminal with colours
    (https://no-color.org).
    """
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if sys.stdout.isatty() and not is_plain else text


def prepare_streams() -> None:
    """Let standard output and the error stream take every character, what their encoding lacks as
    "?"; those that the caller closed take everything and keep nothing.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 until the process ends
            setattr(sys, name, stream)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def discard_stdout() -> None:
    """Drop what standard output could not take, so that the interpreter does not try again at its
    end.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """Return the text on one line, without characters that would drive the terminal."""
    return "".join(
        char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text
    )


def shortened(text: str, width: int) -> str:
    """Return at most `width` characters, the last of them … when something was cut."""
    return text if len(text) <= width else text[: width - 1] + "…"


def cell(value: object) -> str:
    """Return a value as text for people: a dash for None or "", a time to the second, what a value
    is made of with commas between.
    """
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value)
        return ", ".join(f"{name} {cell(inner)}" for name, inner in fields.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(cell, cast("Iterable[object]", value)))
    return "-" if value in (None, "") else str(value)


def described(answer: Answer) -> list[str]:
    """Return the fields of an answer that the table does not show, one a line, without empty
    ones.
    """
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
    """Return 2026-01-31, or a dash."""
    return at.strftime("%Y-%m-%d") if at else "-"


def expiry(memory: Memory) -> str:
    """Return when a memory expires, for people."""
    return "never" if memory.pinned or not memory.expires_at else day(memory.expires_at)


def value_in(column: Column, item: Any) -> object:
    """Return what stands in a column of an item's row."""
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
    """One line for each message; the lines of a traceback are indented."""

    @override
    def formatException(self, ei: Any) -> str:
        """Return the traceback, each line indented and without control characters."""
        return "\n".join(
            f"    {printable(line)}" for line in super().formatException(ei).splitlines()
        )


def _on_one_line(*args: Any, **kwargs: Any) -> logging.LogRecord:
    """Return a record whose message holds no control characters, so that no text can forge another
    line, whichever handler writes it: LiteLLM has its own.
    """
    record = logging.LogRecord(*args, **kwargs)
    with suppress(TypeError, ValueError):  # the handler says that its arguments do not fit
        record.msg, record.args = printable(record.getMessage()), ()
    return record


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
        formatter = TextFormatter("%(levelname)s %(name)s: %(message)s")
        if format == "json":
            formatter = JsonFormatter()
            logging.captureWarnings(True)
        logging.setLogRecordFactory(_on_one_line)
        for handler in root.handlers:
            handler.setFormatter(formatter)
    return Output(say.as_json, logs=format == "json")
