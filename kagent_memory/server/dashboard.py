"""The dashboard of one agent and user: how much there is, how it grows, what is used, what expires,
what waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..records import Memory
from .dependencies import memories_of
from .page_helpers import PageScope, page, shown_settings
from .plots import Series, bars

router = APIRouter(include_in_schema=False)

DAYS = 30
PAGE = 1000
MOST_READ = 10_000
BANDS = (("0", 0, 0), ("1-2", 1, 2), ("3-9", 3, 9), ("10-29", 10, 29), ("30+", 30, None))


@router.get("/dashboard")
async def dashboard(request: Request, scope: PageScope) -> Response:
    """Counts and plots."""
    memories = memories_of(request)
    rows: list[Memory] = []
    cursor: str | None = None
    whole = False
    while len(rows) < MOST_READ and not whole:
        recent = await memories.list(scope, order="newest", limit=PAGE, cursor=cursor)
        rows += recent.memories
        cursor, whole = recent.cursor, recent.cursor is None
    stats, now = await memories.stats(scope), request.app.state.clock()
    states = [(state, stats.jobs.get(state, 0)) for state in ("queued", "running", "dead")]
    drawn = [
        ("Memories over the last 30 days", growth(rows, now)),
        ("Memories by how often they were delivered", delivered(rows)),
        ("Memories that expire in the next 30 days", expiring(rows, now)),
        ("Memories by type", sorted(stats.by_type.items())),
        ("Memories by importance", important(rows)),
        ("Jobs in the queue", states),
    ]
    plots = [
        {"title": title, "svg": bars(title, series), "series": series} for title, series in drawn
    ]
    values: dict[str, Any] = {
        "scope": scope,
        "stats": stats,
        "plots": plots,
        "whole": whole,
        "read": len(rows),
    }
    return page(request, "dashboard.html", {**values, **shown_settings(request)})


def growth(rows: Sequence[Memory], now: datetime) -> Series:
    """Count today's memories that existed at the end of each of the last 30 days."""
    days = [now.date() - timedelta(days=back) for back in range(DAYS - 1, -1, -1)]
    made = Counter(memory.created_at.date() for memory in rows)
    total = sum(count for day, count in made.items() if day < days[0])
    series: list[tuple[str, int]] = []
    for day in days:
        total += made[day]
        series.append((day.strftime("%d %b"), total))
    return series


def delivered(rows: Sequence[Memory]) -> Series:
    """Count memories by how often they were delivered."""
    counts = [memory.usage.delivered for memory in rows]
    return [
        (label, sum(low <= n and (high is None or n <= high) for n in counts))
        for label, low, high in BANDS
    ]


def important(rows: Sequence[Memory]) -> Series:
    """Count memories by importance, in fifths."""
    counts = Counter(min(int(memory.importance * 5), 4) for memory in rows)
    return [(f"{fifth / 5:.1f}-{(fifth + 1) / 5:.1f}", counts[fifth]) for fifth in range(5)]


def expiring(rows: Sequence[Memory], now: datetime) -> Series:
    """Count the memories that expire on each of the next 30 days, without pinned ones."""
    ends = Counter(
        memory.expires_at.date() for memory in rows if memory.expires_at and not memory.pinned
    )
    days = [now.date() + timedelta(days=ahead) for ahead in range(DAYS)]
    return [(day.strftime("%d %b"), ends[day]) for day in days]
