"""What readers of one scope ask: scripts that change nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from ...errors import InvalidInput
from ...records import EVERYTHING, Filter, Memory, Revision, Scope
from .. import codec
from ..base import EARLIEST, Facets, Order, Page, ScopeStats
from ..codec import bounded, is_id, known
from ..text_index import ScopeIndex
from .decoding import filter_values, to_memory, to_revision
from .index_cache import Indexes
from .maintenance import embedding_spaces
from .session import Session


async def get(
    session: Session, scope: Scope, ids: Sequence[str], *, now: datetime, superseded: bool
) -> Mapping[str, Memory]:
    """See `MemoryStore.get`."""
    if not (wanted := known(ids)):
        return {}
    values = {"scope_id": scope.id, "ids": wanted, "now": now, "superseded": superseded}
    found = {row["id"]: to_memory(row) for row in await session.rows("visible_memories", values)}
    return {id: found[id] for id in wanted if id in found}


async def unchanged(
    session: Session,
    indexes: Indexes,
    scope: Scope,
    ids: Sequence[str],
    *,
    version: int,
    marks: Mapping[int, int],
    now: datetime,
) -> Mapping[str, Memory] | None:
    """See `SqlStore.unchanged`; the scope's row tells the mark of all its vectors."""
    said = indexes.unchanged(scope, version)
    wanted = known(ids)
    rows = await session.rows("unchanged_memories", {**said, "ids": wanted, "now": now}) if said else ()
    if not rows or any(mark != rows[0]["mark"] for mark in marks.values()):
        indexes.unsettle(scope)
        return None
    found = {row["id"]: to_memory(row) for row in rows if row["id"] is not None}
    return {id: found[id] for id in wanted if id in found}


async def in_slots(session: Session, scope: Scope, *, slots: Sequence[str], now: datetime) -> Sequence[Memory]:
    """See `MemoryStore.in_slots`."""
    if not slots:
        return []
    values = {"scope_id": scope.id, "slots": list(dict.fromkeys(slots)), "now": now}
    return [to_memory(row) for row in await session.rows("in_slots", values)]


async def short_term(
    session: Session, scope: Scope, *, session_id: str | None, limit: int, now: datetime
) -> Sequence[Memory]:
    """See `MemoryStore.short_term`."""
    values = {"scope_id": scope.id, "session_id": session_id, "limit": bounded(limit), "now": now}
    return [to_memory(row) for row in await session.rows("short_term_memories", values)]


async def list_page(
    session: Session, scope: Scope, *, filter: Filter, order: Order, limit: int, cursor: str | None, now: datetime
) -> Page:
    """See `MemoryStore.list`."""
    match codec.from_cursor(cursor, order) if cursor is not None else [None, None]:
        case [None, None]:
            after_key, after_id = None, None
        case [str() | int() | float() as key, str() as id] if is_id(id):
            after_key, after_id = key, id
        case _:
            raise InvalidInput("Invalid cursor; start without one.")
    limit = bounded(limit)
    values = {
        **filter_values(scope, filter, now),
        "order": order,
        "after_key": after_key,
        "after_id": after_id,
        "limit": limit + 1,
    }
    if not limit:
        return Page(memories=())
    found = await session.rows("list_memories", values)
    more = codec.to_cursor(order, found[limit - 1]["sort_key"], found[limit - 1]["id"]) if len(found) > limit else None
    return Page(memories=tuple(to_memory(row) for row in found[:limit]), cursor=more)


async def passing(session: Session, scope: Scope, filter: Filter, now: datetime) -> Sequence[str] | None:
    """The ids of the memories that pass the filter; None when it asks for nothing."""
    if filter == EVERYTHING:
        return None
    values = filter_values(scope, filter, now)
    return [row["id"] for row in await session.rows("passing", values)] if values["filtered"] else None


async def kept(session: Session, scope: Scope, filter: Filter) -> Sequence[str]:
    """See `MemoryStore.kept`."""
    every = filter if filter.superseded else replace(filter, superseded=True)
    return sorted(row["id"] for row in await session.rows("passing", filter_values(scope, every, EARLIEST)))


async def index_of(
    session: Session, indexes: Indexes, scope: Scope, filter: Filter, now: datetime
) -> tuple[ScopeIndex, Sequence[str] | None]:
    """Return a scope's index as the database has it now, and the ids that pass the filter (None: all do)."""
    return await indexes.current(session, scope), await passing(session, scope, filter, now)


async def taken(session: Session, scope: Scope, session_id: str, event_ids: Sequence[str]) -> frozenset[str]:
    """See `MemoryStore.taken`."""
    values = {"scope_id": scope.id, "session_id": session_id, "event_ids": list(event_ids)}
    return frozenset(row["event_id"] for row in await session.rows("taken_events", values))


async def history(session: Session, scope: Scope, memory_id: str) -> Sequence[Revision]:
    """See `MemoryStore.history`."""
    if not is_id(memory_id):
        return []
    found = await session.rows("revisions_of", {"scope_id": scope.id, "id": memory_id})
    return [to_revision(row) for row in found]


async def group(session: Session, scope: Scope, name: str) -> Sequence[Revision]:
    """See `MemoryStore.group`."""
    return [to_revision(row) for row in await session.rows("revisions_in", {"scope_id": scope.id, "group": name})]


async def unembedded(
    session: Session, scope: Scope, space_number: int, *, limit: int, now: datetime
) -> Sequence[Memory]:
    """See `MemoryStore.unembedded`."""
    values = {"scope_id": scope.id, "now": now, "limit": bounded(limit)}
    return [to_memory(row) for row in await session.rows("unembedded", values, space_number=space_number)]


async def unembedded_ids(session: Session, scope: Scope, space_number: int, *, now: datetime) -> Sequence[str]:
    """See `MemoryStore.unembedded_ids`."""
    values = {"scope_id": scope.id, "now": now}
    return [row["id"] for row in await session.rows("unembedded_ids", values, space_number=space_number)]


async def orphans(session: Session, scope: Scope) -> Mapping[str, Sequence[str]]:
    """See `MemoryStore.orphans`."""
    whose = {"scope_id": scope.id}
    found: dict[str, list[str]] = defaultdict(list)
    for row in await session.rows("orphans", whose):
        found[row["id"]].append(row["kind"])
    for space in await embedding_spaces(session):
        for row in await session.rows("orphaned_vectors", whose, space_number=space.number):
            found[row["id"]].append(f"vector of {space.name}")
    return found


async def version(session: Session, scope: Scope) -> int:
    """See `MemoryStore.version`."""
    found = await session.rows("scope_row", {"scope_id": scope.id})
    return found[0]["version"] if found else 0


async def facets(session: Session, scope: Scope, *, filter: Filter, most: int, now: datetime) -> Facets:
    """See `MemoryStore.facets`."""
    counts: dict[str, dict[str, int]] = {"total": {}, "topic": {}, "tag": {}}
    for row in await session.rows("facets", {**filter_values(scope, filter, now), "most": bounded(most)}):
        counts[row["kind"]][row["label"]] = row["memories"]
    return Facets(total=counts["total"][""], topics=counts["topic"], tags=counts["tag"])


async def stats(session: Session, scope: Scope, *, now: datetime, popular_after: int) -> ScopeStats:
    """See `MemoryStore.stats`."""
    counts = await session.rows("scope_counts", {"scope_id": scope.id, "now": now, "popular_after": popular_after})
    jobs = await session.rows("job_counts", {"scope_id": scope.id, "now": now})
    found = await session.rows("scope_row", {"scope_id": scope.id})
    row = found[0] if found else {"calls": 0, "tokens": 0, "version": 0}
    return ScopeStats(
        visible=sum(row["visible"] for row in counts),
        by_type={row["type"]: row["visible"] for row in counts if row["visible"]},
        expired=sum(row["expired"] for row in counts),
        unused=sum(row["unused"] for row in counts),
        superseded=sum(row["superseded"] for row in counts),
        quarantined=sum(row["quarantined"] for row in counts),
        short_term=sum(row["short_term"] for row in counts),
        pinned=sum(row["pins"] for row in counts),
        delivered_total=sum(row["delivered_total"] for row in counts),
        jobs={row["state"]: row["jobs"] for row in jobs},
        oldest_job_at=min((row["oldest"] for row in jobs if row["oldest"]), default=None),
        calls=row["calls"],
        tokens=row["tokens"],
        version=row["version"],
    )
