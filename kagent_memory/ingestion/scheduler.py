"""Arms the merge of a scope: what a session brings makes its time nearer; what callers save never merges."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from ..records import Change, Scope, new_id
from ..settings import MemorySettings
from ..stores.base import Job, JobQueue

GROUP = "group"
NO_WAIT_HOURS = 24 * 365.0


async def merge_timer(
    store: JobQueue,
    scope: Scope,
    new: int,
    *,
    model: str,
    settings: MemorySettings,
    now: datetime,
) -> tuple[Job, ...]:
    """The merge that this scope waits for, nearer by as many memories as are new (see `mergeable`); queue it with them.

    Two writers at once may count as one.
    """
    if not new or not (settings.consolidate_after or settings.consolidate_every_hours):
        return ()
    waiting = await store.waiting(scope, "consolidate", GROUP)
    return (armed(waiting, scope, new, model, settings, now),)


def armed(waiting: Job | None, scope: Scope, new: int, model: str, settings: MemorySettings, now: datetime) -> Job:
    """The job that takes the place of the waiting one: it keeps that one's model, and its pause after a failure."""
    count = new + (int(waiting.payload.get("new", 0)) if waiting else 0)
    hours = settings.consolidate_every_hours or NO_WAIT_HOURS
    due = waiting.run_after if waiting else now + timedelta(hours=hours)
    failed = waiting is not None and waiting.attempts > 0
    if settings.consolidate_after and count >= settings.consolidate_after and not failed:
        due = min(due, now)
    return Job(
        id=new_id(now),
        scope=scope,
        kind="consolidate",
        key=GROUP,
        payload={"new": count},
        model=model or (waiting.model if waiting else ""),
        run_after=due,
        created_at=now,
    )


def mergeable(changes: Sequence[Change]) -> int:
    """How many memories are new that may ever merge: turns as they were said, and what callers saved or pinned, never
    do.
    """
    stands = {one.memory.id: one.memory for one in changes}
    added = (stands[one.memory.id] for one in changes if one.kind == "add")
    return sum(one.state == "active" and not (one.verbatim or one.explicit or one.pinned) for one in added)
