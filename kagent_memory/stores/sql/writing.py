"""Writing one batch, whole or not at all, and the counters beside the memories."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from ... import text
from ...errors import Conflict, NotFound
from ...records import Memory, Scope
from .. import rows
from ..base import Applied, Batch
from .decoding import is_id, known, to_memory
from .planning import Plan, events_of, held_back, identity_of
from .queue import put, touch
from .session import Session

_COLUMNS = tuple(field.name for field in fields(Memory) if field.name != "usage")


async def apply(session: Session, scope: Scope, batch: Batch, *, now: datetime) -> Applied:
    """See `MemoryStore.apply`; `planning.check` has passed the batch."""
    step = int(bool(batch.changes or batch.taken or batch.reinforced))
    for other in sorted({job.scope for job in batch.jobs} | {scope}, key=lambda one: one.id):
        await touch(session, other, step if other == scope else 0)
    row = (await session.rows("scope_row", {"scope_id": scope.id}))[0]
    if batch.expected_version is not None and batch.expected_version != row["version"] - step:
        raise Conflict(f"The scope moved on from version {batch.expected_version}; read it again and retry.")
    if batch.calls or batch.tokens:
        await session.run("add_costs", {"scope_id": scope.id, "calls": batch.calls, "tokens": batch.tokens})
    await _end_job(session, scope, batch)
    await _take(session, scope, batch, now)
    plan, held = await _planned(session, scope, batch, row["salt"], now)
    await _write(session, scope, plan)
    await _write_vectors(session, scope, batch, plan, held)
    await put(session, batch.jobs)
    ids = tuple(None if change.memory.id in held else plan.given[change.memory.id] for change in batch.changes)
    return Applied(ids=ids, version=row["version"])


async def _end_job(session: Session, scope: Scope, batch: Batch) -> None:
    if batch.job is None:
        return
    id, fence = batch.job
    if not is_id(id) or not await session.run("end_job", {"scope_id": scope.id, "id": id, "fence": fence}):
        raise Conflict(f"The job {id} is no longer held with the fence {fence}.")


async def _take(session: Session, scope: Scope, batch: Batch, now: datetime) -> None:
    if not batch.taken:
        return
    pairs = list(dict.fromkeys(batch.taken))
    values = {
        "scope_id": scope.id,
        "session_ids": [pair[0] for pair in pairs],
        "event_ids": [pair[1] for pair in pairs],
    }
    if await session.rows("taken_pairs", values):
        raise Conflict("An event of this batch was taken in before; read which ones and retry without them.")
    await session.run_many("insert_taken", [{**values, "at": now}])


async def _planned(
    session: Session, scope: Scope, batch: Batch, salt: bytes, now: datetime
) -> tuple[Plan, frozenset[str]]:
    fresh = {change.memory.id for change in batch.changes if change.kind == "add"}
    named = {change.memory.id for change in batch.changes} | set(batch.vectors) | set(batch.reinforced)
    stored = await _stored(session, scope, named - fresh)
    held = held_back(batch.changes, stored, await _stones(session, scope, batch, salt), salt)
    live = [change for change in batch.changes if change.memory.id not in held]
    equal = await _equal(session, scope, {identity_of(c.memory) for c in live if c.memory.state == "active"})
    stored.update((memory.id, memory) for memory in equal.values())
    sessions = {c.memory.session_id for c in live if c.kind == "add" and c.memory.session_id is not None}
    plan = Plan(
        stored=stored,
        equal={key: memory.id for key, memory in equal.items()},
        positions=await _positions(session, scope, sessions),
        now=now,
    )
    # What stops being active makes room for what says the same from now on.
    for change in sorted(live, key=lambda change: change.memory.state == "active"):
        plan.take(change)
    for memory_id in batch.reinforced:
        plan.renew(memory_id)
    plan.close()
    return plan, held


async def _stored(session: Session, scope: Scope, ids: Iterable[str]) -> dict[str, Memory]:
    wanted = known(ids)
    if not wanted:
        return {}
    found = await session.rows("stored_memories", {"scope_id": scope.id, "ids": wanted})
    return {row["id"]: to_memory(row) for row in found}


async def _stones(session: Session, scope: Scope, batch: Batch, salt: bytes) -> frozenset[tuple[str, str]]:
    bound = [change for change in batch.changes if not change.explicit]
    if not bound:
        return frozenset()
    values = {
        "scope_id": scope.id,
        "events": list(frozenset[str]().union(*(events_of(change) for change in bound))),
        "texts": [rows.forgotten_key(salt, one.memory.session_id, one.memory.content) for one in bound],
    }
    return frozenset((row["kind"], row["key"]) for row in await session.rows("tombstoned", values))


async def _equal(session: Session, scope: Scope, hashes: Collection[bytes]) -> dict[bytes, Memory]:
    if not hashes:
        return {}
    found = await session.rows("equal_memories", {"scope_id": scope.id, "hashes": list(hashes)})
    return {bytes(row["content_hash"]): to_memory(row) for row in found}


async def _positions(session: Session, scope: Scope, sessions: Collection[str]) -> dict[str, int]:
    if not sessions:
        return {}
    found = await session.rows("next_positions", {"scope_id": scope.id, "session_ids": list(sessions)})
    return {row["session_id"]: row["position"] for row in found}


async def _write(session: Session, scope: Scope, plan: Plan) -> None:
    counts = {id: text.index_terms(memory.content, memory.author) for id, memory in plan.standing.items()}
    lengths = {id: sum(terms.values()) for id, terms in counts.items()}
    changed = [memory for id, memory in plan.standing.items() if id in plan.stored]
    changed.sort(key=lambda memory: memory.state == "active")
    if changed:
        values = [_values(scope, memory, lengths[memory.id]) for memory in changed]
        await session.run_many("replace_memory", values)
    if plan.fresh:
        values = [_values(scope, plan.standing[id], lengths[id]) for id in plan.fresh]
        await session.run_many("insert_memory", values)
    reworded = _reworded(plan)
    if reworded:
        await session.run_many("erase_terms", [{"scope_ids": [scope.id] * len(reworded), "ids": reworded}])
    postings = [(id, term, count, lengths[id]) for id in (*plan.fresh, *reworded) for term, count in counts[id].items()]
    if postings:
        columns = dict(zip(("ids", "terms", "counts", "lengths"), map(list, zip(*postings, strict=True)), strict=True))
        await session.run_many("insert_terms", [{"scope_id": scope.id, **columns}])
    if plan.revisions:
        await session.run_many("insert_revision", [{"scope_id": scope.id, **values} for values in plan.revisions])


def _values(scope: Scope, memory: Memory, length: int) -> dict[str, Any]:
    values = {name: getattr(memory, name) for name in _COLUMNS}
    values["metadata"] = dict(memory.metadata)
    return {**values, "scope_id": scope.id, "content_hash": identity_of(memory), "length": length}


def _reworded(plan: Plan) -> list[str]:
    return [
        id
        for id, memory in plan.standing.items()
        if id in plan.stored and (plan.stored[id].content, plan.stored[id].author) != (memory.content, memory.author)
    ]


async def _write_vectors(session: Session, scope: Scope, batch: Batch, plan: Plan, held: frozenset[str]) -> None:
    # A memory that says something else has no vector until one comes for the new text.
    reworded = _reworded(plan)
    if reworded:
        values = {"scope_ids": [scope.id] * len(reworded), "ids": reworded}
        for row in await session.rows("generations", {}):
            await session.run_many("erase_vectors", [values], generation=row["number"])
    vectors = {
        plan.given.get(id, id): vector
        for id, vector in batch.vectors.items()
        if id not in held and (id in plan.given or id in plan.stored)
    }
    if vectors:
        values = [{"scope_id": scope.id, "id": id, "embedding": vector} for id, vector in sorted(vectors.items())]
        await session.run_many("put_vector", values, generation=batch.generation)


async def deliver(
    session: Session, scope: Scope, *, retrieved: Sequence[str], delivered: Sequence[str], now: datetime
) -> None:
    """See `MemoryStore.deliver`."""
    values = {"scope_id": scope.id, "retrieved": known(retrieved), "delivered": known(delivered), "now": now}
    if values["retrieved"] or values["delivered"]:
        await session.run_many("count_usage", [values])


async def feedback(session: Session, scope: Scope, memory_id: str, *, success: bool) -> None:
    """See `MemoryStore.feedback`."""
    values = {"scope_id": scope.id, "id": memory_id, "successes": int(success), "failures": int(not success)}
    if not is_id(memory_id) or not await session.run("count_feedback", values):
        raise NotFound(f"There is no memory {memory_id!r}.")
