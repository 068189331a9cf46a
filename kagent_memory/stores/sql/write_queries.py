"""Write scripts: a batch in one transaction, usage counters, and memories of another store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, TypeAlias

from ...concurrency import run_in_thread
from ...errors import Conflict, InvalidInput
from ...records import Memory, Revision, State, Usage
from ..codec import Texts, forgotten_key, is_id, known
from ..decisions import tombstones_of
from ..planning import Plan
from ..values import Applied, Batch, Restored, Whole, embed_job
from .queue import put
from .session import Row, Transaction, Values
from .spaces import erase_vectors

Stone: TypeAlias = tuple[str, str]
"""The kind and key of a tombstone."""
MATCHED: Final = frozenset[State](("active", "quarantined", "short_term"))
"""States in which a memory is merged with an equal one."""
PLAN_WEIGHT = 8  # the cost of planning a change, in characters of other work in threads


async def apply(session: Transaction, batch: Batch, *, now: datetime) -> Applied:
    """Write a batch: see `MemoryStore.apply`."""
    if any(job.scope != session.scope for job in batch.jobs):
        raise InvalidInput("The jobs that follow a batch must belong to its scope.")
    step = int(bool(batch.changes or batch.taken or batch.reinforced))
    [row] = await session.rows("touch_scope", **session.touching(step))
    version, salt = row["version"], session.codec.salt(row)
    if batch.expected_version not in (None, version - step):
        raise Conflict(
            f"The scope is no longer at version {batch.expected_version}; read it again and retry."
        )
    stored, stones, read = await _read(session, batch, _stones_against(batch, salt))
    if read["taken_pairs"]:
        raise Conflict(
            "An event of this batch was already ingested; read which ones and retry without them."
        )
    plan = await run_in_thread(
        PLAN_WEIGHT * len(batch.changes) * session.session.on_event_loop,
        Plan,
        batch,
        stored,
        stones=stones,
        salt=salt,
        positions={row["session_id"]: row["position"] for row in read["next_positions"]},
        now=now,
    )
    await _note_work(session, batch, now)
    embedders = await _put_vectors(session, batch.space_number, plan, read["written_spaces"])
    # last: the database processes the vectors meanwhile
    await _write(session, plan, batch.texts, version)
    await put(session, [*batch.jobs, *(embed_job(session.scope, now, name) for name in embedders)])
    if not plan.standing:
        await session.send("mark_empty")
    return plan.ids


def _stones_against(batch: Batch, salt: bytes) -> set[Stone]:
    """Return the tombstones that would block changes of a batch."""
    stones = set[Stone]()
    for change in batch.changes:
        memory = change.memory
        if not change.explicit:
            stones |= {("event", event) for event in (*change.event_ids, *memory.event_ids)}
            stones.add(("text", forgotten_key(salt, memory.session_id, memory.content)))
    return stones


async def _read(
    session: Transaction, batch: Batch, stones: Set[Stone]
) -> tuple[dict[str, Memory], Set[Stone], Mapping[str, Sequence[Row]]]:
    """Read what a batch depends on, running only the queries that it needs. The caller holds the
    scope's lock.

    Returns:
        The stored memories by id; of these tombstones those that exist; and query → rows.
    """
    memories = [change.memory for change in batch.changes]
    new = [change.memory for change in batch.changes if change.kind == "add"]
    added = {memory.id for memory in new}
    named = {*batch.vectors, *batch.reinforced, *(memory.id for memory in memories)}
    matched = {batch.texts.identity(memory) for memory in memories if memory.state in MATCHED}
    queries = {
        "stored_memories": {"ids": known(named - added)},
        "met_memories": {"ids": known(added), "hashes": [*map(session.codec.hash, matched)]},
        "next_positions": {"session_ids": [*({memory.session_id for memory in new} - {None})]},
        "taken_pairs": parallel_lists(batch.taken, "session_ids", "event_ids"),
        "tombstoned": parallel_lists(stones, "kinds", "keys"),
        "written_spaces": {"number": batch.space_number if batch.vectors else None},
    }
    needed = {query: values for query, values in queries.items() if any(values.values())}
    answers = await session.several(needed.items())
    read = {**dict.fromkeys(queries, ()), **dict(zip(needed, answers, strict=True))}
    stored = {row["id"]: session.codec.memory(row) for row in read["stored_memories"]}
    if met := {row["id"] for row in read["met_memories"]} - stored.keys():
        more = await session.memories("stored_memories", ids=[*met])
        stored |= {memory.id: memory for memory in more}
    return stored, {(row["kind"], row["key"]) for row in read["tombstoned"]}, read


def parallel_lists(pairs: Iterable[tuple[str | None, str]], *names: str) -> dict[str, Any]:
    """Return pairs as parallel lists, by the parameter names of a statement."""
    distinct = list(dict.fromkeys(pairs))
    return {name: [pair[place] for pair in distinct] for place, name in enumerate(names)}


async def _note_work(session: Transaction, batch: Batch, now: datetime) -> None:
    """End the batch's job, add its costs, and record its events as ingested."""
    if batch.calls or batch.tokens:
        await session.send("add_costs", calls=batch.calls, tokens=batch.tokens)
    if batch.job is not None:
        id, fence = batch.job
        if not is_id(id) or not await session.rows("end_job", id=id, fence=fence):
            raise Conflict(f"The job {id} is no longer held with the fence {fence}.")
    for statement in ("reopen_sessions", "insert_taken") if batch.taken else ():
        await session.send(
            statement, **parallel_lists(batch.taken, "session_ids", "event_ids"), at=now
        )


async def _put_vectors(
    session: Transaction, number: int | None, plan: Plan, spaces: Sequence[Row]
) -> Sequence[str]:
    """Write the plan's vectors, and erase those of reworded memories.

    Returns:
        The names of further embedders that must embed the same memories.
    """
    if plan.reworded:
        await erase_vectors(session, ids=plan.reworded)
    if not plan.vectors:
        return ()
    if any(space["is_own"] for space in spaces):
        if plan.vectors.keys() - plan.standing.keys():  # vectors of memories that are not written
            await session.send("mark_vectors")
        await session.run_many(
            "put_vector",
            ({"id": id, "embedding": vector} for id, vector in sorted(plan.vectors.items())),
            space=number,
        )
    return [space["name"] for space in spaces if not space["is_own"]]


async def _write(session: Transaction, plan: Plan, texts: Texts, version: int) -> None:
    fresh = {*plan.fresh}
    changed = (memory for memory in plan.standing.values() if memory.id not in fresh)
    rows = (
        session.codec.memory_values(
            memory, texts, touched=version, has_new_text=memory.id in plan.reworded
        )
        for memory in sorted(changed, key=lambda memory: memory.state == "active")
    )
    await session.run_many("replace_memory", rows)
    await _insert(session, [plan.standing[id] for id in plan.fresh], plan.revisions, texts, version)


async def _insert(
    session: Transaction,
    memories: Iterable[Memory],
    revisions: Iterable[Revision],
    texts: Texts,
    version: int,
) -> None:
    """Insert new memories and revisions."""
    codec = session.codec
    rows = (codec.memory_values(memory, texts, touched=version) for memory in memories)
    await session.run_many("insert_memory", rows)
    await session.run_many("insert_revision", map(codec.revision_values, revisions))


# -- memories of another store ------------------------------------------------------------------


async def restore(
    session: Transaction,
    batch: Batch,
    memories: Sequence[Whole],
    vectors: Sequence[Values],
    *,
    dry_run: bool,
) -> Sequence[Restored]:
    """Write memories, which the batch adds, with their vectors: see `MemoryStore.restore`."""
    row = await session.row("scope_row" if dry_run else "touch_scope", **session.touching(1))
    salt = session.codec.salt(row) if row else b""
    outcomes = await _outcomes(session, batch, memories, salt)
    if dry_run or not row:
        return outcomes
    added = [whole for whole, outcome in zip(memories, outcomes, strict=True) if outcome == "added"]
    restored = {whole.memory.id: whole.memory for whole in added}
    await _insert(
        session,
        restored.values(),
        (revision for whole in added for revision in whole.revisions),
        batch.texts,
        row["version"],
    )
    used = (
        {"id": memory.id, **asdict(memory.usage)}
        for memory in restored.values()
        if memory.usage != Usage()
    )
    await session.run_many("restore_usage", used)
    await session.run_many("put_vector", (row for row in vectors if row["id"] in restored))
    await session.send("mark_empty")
    return outcomes


async def _outcomes(
    session: Transaction, batch: Batch, memories: Sequence[Whole], salt: bytes
) -> Sequence[Restored]:
    stones = [tombstones_of(whole, salt) for whole in memories]
    stored, blocked, _ = await _read(session, batch, set[Stone]().union(*stones))
    present, identity = {*stored}, batch.texts.identity
    # not short-term memories of one session
    equal = {identity(memory) for memory in stored.values() if memory.state == "active"}
    outcomes: list[Restored] = []
    for whole, keys in zip(memories, stones, strict=True):
        memory = whole.memory
        identities = {identity(memory)} if memory.state == "active" else set[bytes]()
        if memory.id in present:
            outcomes.append("present")
        elif keys & blocked:
            outcomes.append("forgotten")
        elif identities & equal:
            outcomes.append("equal")
        else:
            outcomes.append("added")
            present.add(memory.id)
            equal |= identities
    return outcomes
