"""The dashboard of one agent and user: how much there is, how it grows, what is used, what expires,
what waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..records import Memory
from .dependencies import memories_of
from .page_helpers import PageScope, page

router = APIRouter(include_in_schema=False)

DAYS = 30
PAGE = 1000
MAX_READ = 10_000
BANDS = (("0", 0, 0), ("1-2", 1, 2), ("3-9", 3, 9), ("10-29", 10, 29), ("30+", 30, None))
Series: TypeAlias = Sequence[tuple[str, int]]


class Plot(NamedTuple):
    """A plot with one bar a pair; the template draws it."""

    title: str
    series: Series

    @property
    def top(self) -> int:
        """The end of the scale: 1, 2, 4, 6 or 8 times a power of ten, at least 4."""
        most = max((value for _, value in self.series), default=0)
        power = 10 ** max(len(str(most)) - 1, 0)
        return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= max(most, 4))


@router.get("/dashboard")
async def dashboard(request: Request, scope: PageScope) -> Response:
    """Show counts and plots."""
    memories = memories_of(request)
    rows: list[Memory] = []
    cursor, is_whole = None, False
    while len(rows) < MAX_READ and not is_whole:
        recent = await memories.list(scope, order="newest", limit=PAGE, cursor=cursor)
        rows += recent.memories
        cursor, is_whole = recent.cursor, recent.cursor is None
    stats, now = await memories.stats(scope), request.app.state.clock()
    plots = [
        Plot("Memories over the last 30 days", growth(rows, now)),
        Plot("Memories by how often they were delivered", delivered(rows)),
        Plot("Memories that expire in the next 30 days", expiring(rows, now)),
        Plot("Memories by type", sorted(stats.by_type.items())),
        Plot(
            "Jobs in the queue",
            [(state, stats.jobs.get(state, 0)) for state in ("queued", "running", "dead")],
        ),
    ]
    return page(
        request,
        "dashboard.html",
        scope=scope,
        stats=stats,
        plots=plots,
        whole=is_whole,
        read=len(rows),
    )


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


def expiring(rows: Sequence[Memory], now: datetime) -> Series:
    """Count the memories that expire on each of the next 30 days, without pinned ones."""
    ends = Counter(
        memory.expires_at.date() for memory in rows if memory.expires_at and not memory.pinned
    )
    days = [now.date() + timedelta(days=ahead) for ahead in range(DAYS)]
    return [(day.strftime("%d %b"), ends[day]) for day in days]
