"""What commands say: tables for people, JSON for programs, progress on the error stream."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ..records import Memory

NARROWEST = 20


class UnwritableOutput(Exception):
    """Standard output does not take the answer: the disk is full, say."""


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command's words go; `as_json`: one JSON document on standard output and nothing else there.

    Everything that writes raises BrokenPipeError when the reader went away, and UnwritableOutput when standard output
    fails otherwise.
    """

    as_json: bool = False

    def line(self, text: str) -> None:
        """A line for people; left out of JSON."""
        if not self.as_json:
            _write(text + "\n")

    def raw(self, line: str) -> None:
        """A line of a format that is the same for people and programs."""
        _write(line + "\n")

    def note(self, text: str) -> None:
        """Progress and remarks, on the error stream."""
        with suppress(OSError):  # a remark that nobody can read must not end the command
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def value(self, value: Any, kind: Any | None = None) -> None:
        """A record as the JSON document; left out for people."""
        if self.as_json:
            from ..remote.serialization import to_wire

            _write(json.dumps(to_wire(value, kind), ensure_ascii=False, indent=2) + "\n")

    def error(self, text: str, *, family: str, exit_code: int) -> None:
        """What went wrong: one line on the error stream, or the JSON document."""
        if self.as_json:
            self.value({"error": {"family": family, "message": text, "exit_code": exit_code}})
        else:
            self.note(f"kagent-memory: {printable(text)}")

    def flush(self) -> None:
        """Writes out what is still buffered."""
        _write("", flush=True)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Columns for people; the last one takes what is left of the line."""
        if self.as_json:
            return
        lines = [[printable(cell) for cell in row] for row in (head, *rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(head) - 1)]
        left = max(NARROWEST, shutil.get_terminal_size((100, 24)).columns - sum(widths) - 2 * len(widths))
        for line in lines:
            cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
            _write("  ".join([*cells, shortened(line[-1], left)]).rstrip() + "\n")


def _write(text: str, *, flush: bool = False) -> None:
    try:
        sys.stdout.write(text)
        if flush:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnwritableOutput(f"The answer cannot be written: {error.strerror or error}.") from error


def prepare_streams() -> None:
    """Lets standard output and the error stream take every character, what their encoding lacks as "?"; those that the
    caller closed take everything and keep nothing.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 until the process ends
            setattr(sys, name, stream)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def discard_stdout() -> None:
    """Drops what standard output could not take, so that the interpreter does not try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """The text on one line, without characters that would drive the terminal."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text)


def shortened(text: str, width: int) -> str:
    """At most `width` characters, the last of them … when something was cut."""
    return text if len(text) <= width else text[: width - 1] + "…"


def day(at: datetime | None) -> str:
    """2026-01-31, or a dash."""
    return at.strftime("%Y-%m-%d") if at else "-"


def span(time: timedelta) -> str:
    """How long, in its largest whole unit: 3 d, 5 h, 12 min, 4 s."""
    seconds = max(0, int(time.total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def memory_row(memory: Memory) -> list[str]:
    """One line about a memory."""
    expires = "stays" if memory.pinned else day(memory.expires_at)
    return [memory.id, memory.type, str(memory.usage.delivered), day(memory.created_at), expires, memory.content]


MEMORY_HEAD = ("ID", "TYPE", "DELIVERED", "CREATED", "EXPIRES", "CONTENT")
