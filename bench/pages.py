"""Puts a table that was measured in the place of the last one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path


def replace_table(page: Path, made: Sequence[str], taken: str) -> None:
    """Replaces the table of the page whose first two cells are the same, and the date above it.

    Args:
        page: a page of Markdown that has such a table.
        made: the lines of the table.
        taken: what the figures are, for "Taken on <date>, <taken>."
    """
    lines = page.read_text("utf-8").splitlines()
    corner = "|".join(made[0].split("|")[:3])
    start = next(number for number, line in enumerate(lines) if line.startswith(f"{corner}|"))
    end = next(number for number, line in enumerate([*lines[start:], ""], start) if not line.startswith("|"))
    if lines[start - 2].startswith("Taken on "):
        lines[start - 2] = f"Taken on {datetime.now(UTC):%Y-%m-%d}, {taken}."
    lines[start:end] = made
    page.write_text("\n".join(lines) + "\n", "utf-8")
