"""Arms the merge of a scope: what is new, by a session or an explicit add, brings its time nearer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..records import Change, Scope, new_id
from ..settings import MemorySettings
from ..stores.base import Job, MemoryStore

GROUP = "group"
NO_WAIT_HOURS = 24 * 365.0
TRUST_SECONDS = 60.0
SCOPES_AT_MOST = 10_000


async def merge_timer(
    store: MemoryStore,
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


@dataclass(slots=True)
class _Known:
    until: datetime
    due: bool
    count: int
    unsaved: int = 0


class MergeTimers:
    """The merges that scopes wait for, as explicit adds see them.

    The queue is asked once a minute, and what is added in between is counted here. A crash loses that count, never the
    merge's time.
    """

    def __init__(self, store: MemoryStore, settings: MemorySettings) -> None:
        self._store = store
        self._settings = settings
        self._known: OrderedDict[bytes, _Known] = OrderedDict()

    async def arm(self, scope: Scope, changes: Sequence[Change], *, model: str, now: datetime) -> tuple[Job, ...]:
        """As `merge_timer`; no job when the waiting one need not move."""
        new = mergeable(changes)
        if not new:
            return ()
        known = self._known.get(scope.id)
        enough = self._settings.consolidate_after
        if known is not None and now < known.until and (known.due or not enough or known.count + new < enough):
            known.count += new
            known.unsaved += new
            return ()
        new += known.unsaved if known else 0
        return await merge_timer(self._store, scope, new, model=model, settings=self._settings, now=now)

    def queued(self, scope: Scope, jobs: Sequence[Job], now: datetime) -> None:
        """The jobs that `arm` gave stand in the queue now."""
        for job in jobs:
            due, trusted = job.run_after <= now, now + timedelta(seconds=TRUST_SECONDS)
            until = trusted if due else min(job.run_after, trusted)
            self._known[scope.id] = _Known(until, due, int(job.payload["new"]))
            self._known.move_to_end(scope.id)
        while len(self._known) > SCOPES_AT_MOST:
            self._known.popitem(last=False)

    def forget(self, scope: Scope) -> None:
        """The scope was merged just now: the next add arms anew."""
        self._known.pop(scope.id, None)


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
    """How many memories are new that may ever merge: turns as they were said, and pinned ones, never do."""
    return sum(one.kind == "add" and not one.memory.verbatim and not one.memory.pinned for one in changes)
