"""Puts a table that was measured in the place of the last one, and draws pictures for the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


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
    end = next(
        number
        for number, line in enumerate([*lines[start:], ""], start)
        if not line.startswith("|")
    )
    if lines[start - 2].startswith("Taken on "):
        lines[start - 2] = f"Taken on {datetime.now(UTC):%Y-%m-%d}, {taken}."
    lines[start:end] = made
    page.write_text("\n".join(lines) + "\n", "utf-8")


@contextmanager
def drawn(picture: Path, size: tuple[float, float], columns: int = 1) -> Iterator[Any]:
    """Axes to draw on, several side by side if asked for; written to .svg or .png at the end.

    Args:
        picture: where to; the same figures give the same file.
        size: width and height in inches.
        columns: how many axes; they share their y axis.
    """
    from matplotlib import pyplot as plt

    plt.switch_backend("Agg")
    # text as text: half the size
    plt.rcParams |= {"svg.hashsalt": "kagent-memory", "svg.fonttype": "none"}
    fig, axes = plt.subplots(1, columns, figsize=size, sharey=True)
    yield axes
    fig.tight_layout()
    picture.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(picture, metadata={"Date": None} if picture.suffix == ".svg" else None)
