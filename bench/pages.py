"""Replace a table of a page by a newer one, and draw pictures for the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def replace_table(page: Path, made: Sequence[str], caption: str) -> None:
    """Replace the table of the page whose first two cells are the same, and the date above it.

    Args:
        page: a page of Markdown with such a table.
        made: the lines of the new table.
        caption: what the figures are, for "Taken on <date>, <taken>."
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
        lines[start - 2] = f"Taken on {datetime.now(UTC):%Y-%m-%d}, {caption}."
    lines[start:end] = made
    page.write_text("\n".join(lines) + "\n", "utf-8")


@contextmanager
def drawn(picture: Path, size: tuple[float, float], columns: int = 1) -> Iterator[Any]:
    """Yield axes to draw on, and write them to an .svg or .png file at the end.

    Args:
        picture: the file; the same figures give the same file.
        size: the width and height in inches.
        columns: the number of axes side by side, with a shared y axis.
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
