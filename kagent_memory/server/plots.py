"""Plots as inline SVG, made here: no script, no inline style; the style sheet colours them.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from markupsafe import Markup, escape

Series: TypeAlias = Sequence[tuple[str, int]]

WIDTH, HEIGHT = 640, 200
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 12, 28
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
MOST_LABELS = 6


def nice_top(value: int) -> int:
    """The end of a scale that holds `value`: 1, 2, 4, 6 or 8 times a power of ten, at least 4."""
    power = 1
    while True:
        for step in (1, 2, 4, 6, 8):
            if step * power >= max(value, 4):
                return step * power
        power *= 10


def bars(title: str, series: Series) -> Markup:
    """One bar a pair."""
    top = nice_top(max((value for _, value in series), default=0))
    slot = PLOT_WIDTH / max(len(series), 1)
    width = max(slot * 0.72, 1.0)
    drawn = [
        Markup(
            '<rect class="bar" x="{}" y="{}" width="{}" height="{}" rx="2"><title>{}: '
            "{}</title></rect>"
        ).format(
            _round(LEFT + index * slot + (slot - width) / 2),
            _round(_height(value, top)),
            _round(width),
            _round(TOP + PLOT_HEIGHT - _height(value, top)),
            label,
            value,
        )
        for index, (label, value) in enumerate(series)
    ]
    return _framed(title, series, top, drawn)


def _height(value: int, top: int) -> float:
    return TOP + PLOT_HEIGHT * (1 - value / top)


def _round(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _framed(title: str, series: Series, top: int, drawn: Sequence[Markup]) -> Markup:
    said = f"{title}: " + ", ".join(f"{label} {value}" for label, value in series if value)
    grid = [
        Markup(
            '<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/><text x="{}" y="{}" '
            'class="end">{}</text>'
        ).format(LEFT, WIDTH - RIGHT, _round(y), _round(y), LEFT - 6, _round(y + 4), value)
        for value in (0, top // 2, top)
        for y in (_height(value, top),)
    ]
    slot, every = PLOT_WIDTH / max(len(series), 1), -(-len(series) // MOST_LABELS) or 1
    labels = [
        Markup('<text x="{}" y="{}" class="middle{}">{}</text>').format(
            _round(LEFT + (index + 0.5) * slot),
            HEIGHT - 8,
            # every second one of many is left out where the plot is narrow
            " second" if index // every % 2 and every > 1 else "",
            label,
        )
        for index, (label, _) in enumerate(series)
        if index % every == 0
    ]
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}" '
                  'class="plot">{}{}{}</svg>').format(
        WIDTH, HEIGHT, said if any(value for _, value in series) else f"{title}: nothing yet",
        _join(grid),
        _join(drawn), _join(labels),
    )  # fmt: skip


def _join(parts: Sequence[Markup]) -> Markup:
    return Markup("").join(escape(part) for part in parts)
