"""Schedules the merge of a scope: what a session adds brings it nearer; what callers save never merges."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from ..records import Change, Scope, new_id
from ..settings import MemorySettings
from ..stores.base import Job, JobQueue

GROUP = "group"
MAX_WAIT = timedelta(hours=1)  # of a scope with new memories


class MergeScheduler:
    """Schedules the merge of a scope; the job is queued together with the changes that it counts."""

    def __init__(self, queue: JobQueue, settings: MemorySettings) -> None:
        self._queue = queue
        self._settings = settings

    async def job(self, scope: Scope, changes: Sequence[Change], *, model: str, now: datetime) -> tuple[Job, ...]:
        """The merge that this scope waits for, due the sooner the more of these changes add what may ever merge.

        Turns as they were said, and what callers saved or pinned, never do. Two writers at once may count as one.
        """
        if not self._settings.consolidate_after:
            return ()
        last = {change.memory.id: change.memory for change in changes}
        added = [last[change.memory.id] for change in changes if change.kind == "add"]
        new = sum(one.state == "active" and not (one.verbatim or one.explicit or one.pinned) for one in added)
        if not new:
            return ()
        waiting = await self._queue.waiting(scope, "consolidate", GROUP)
        return (armed(waiting, scope, new, model, self._settings, now),)


def armed(waiting: Job | None, scope: Scope, new: int, model: str, settings: MemorySettings, now: datetime) -> Job:
    """The job that takes the place of the waiting one: it keeps that one's model, and its pause after a failure."""
    count = new + (int(waiting.payload.get("new", 0)) if waiting else 0)
    due = waiting.run_after if waiting else now + MAX_WAIT
    failed = waiting is not None and waiting.attempts > 0
    if count >= settings.consolidate_after and not failed:
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
