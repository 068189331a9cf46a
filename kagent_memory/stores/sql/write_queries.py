"""Writing one batch, whole or not at all, and the counters beside the memories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from ...errors import Conflict, InvalidInput
from ...records import Change, Memory, Revision, State
from .. import codec
from ..codec import is_id, known
from ..planning import Plan, Texts
from ..values import SESSION_END, Applied, Batch, Delivery, embed_job
from .index_reads import Stand
from .queue import put, touching
from .session import Row, Transaction
from .spaces import erase_vectors

MATCHED: Final = frozenset[State](("active", "quarantined", "short_term"))
"""States in which a memory is united with one that says the same."""


async def apply(session: Transaction, batch: Batch, *, texts: Texts, now: datetime) -> Applied:
    """Write a batch: see `MemoryStore.apply`; `texts` are of its memories."""
    if any(job.scope != session.scope for job in batch.jobs):
        raise InvalidInput("The jobs that follow a batch must belong to its scope.")
    step = int(bool(batch.changes or batch.taken or batch.reinforced))
    row, met = await _read(session, batch, step, texts)
    version, salt = row["version"], session.codec.salt(row)
    if batch.expected_version not in (None, version - step):
        raise Conflict(
            f"The scope is no longer at version {batch.expected_version}; read it again and retry."
        )
    if met["taken_pairs"]:
        raise Conflict(
            "An event of this batch was already ingested; read which ones and retry without them."
        )
    plan = Plan(
        batch,
        {row["id"]: session.codec.memory(row) for row in met["stored_memories"]},
        stones=await _stones(session, batch.changes, salt),
        salt=salt,
        positions={row["session_id"]: row["position"] for row in met["next_positions"]},
        texts=texts,
        now=now,
    )
    if batch.calls or batch.tokens:
        await session.run("add_costs", calls=batch.calls, tokens=batch.tokens)
    await _end_job(session, batch)
    await _take(session, batch, now)
    embedders = await _put_vectors(session, batch, plan, met["written_spaces"])
    # last: the database works on the vectors meanwhile
    await _write(session, plan, texts, version)
    follow_on = (embed_job(session.scope, now, name) for name in embedders)
    await put(session, [*batch.jobs, *follow_on])
    return Applied(ids=plan.ids, version=version)


async def keep_index(session: Transaction, stand: Stand, packed: bytes) -> None:
    """Store a scope's packed index, unless something was erased since it was read or a newer one is
    stored.
    """
    if await session.rows("hold_index", salt=stand.salt, erased=stand.erased):
        sealed = session.codec.sealed_index(packed)
        await session.send("put_index", version=stand.version, packed=sealed)


async def _read(
    session: Transaction, batch: Batch, step: int, texts: Texts
) -> tuple[Row, Mapping[str, Sequence[Row]]]:
    """Take the scope's lock; return its row, and the rows that the batch meets by the statements
    that found them.
    """
    touch = "touch_scope", touching(session, step, vectors=bool(batch.vectors))
    answers: list[Sequence[Row]] = []
    if session.codec.ring is not None:  # hashes are keyed by the scope's salt
        answers += await session.several([touch])
        session.codec.salt(answers[0][0])
    questions = _questions(session, batch, texts)
    if asked := [*(() if answers else (touch,)), *questions.items()]:
        answers += await session.several(asked)
    row = answers.pop(0)[0]
    found = defaultdict[str, Sequence[Row]](tuple, zip(questions, answers, strict=True))
    read = {row["id"] for row in found["stored_memories"]}
    if unread := known({row["id"] for row in found["equal_memories"]} - read):
        rows = await session.rows("stored_memories", ids=unread)
        found["stored_memories"] = [*found["stored_memories"], *rows]
    return row, found


def _questions(session: Transaction, batch: Batch, texts: Texts) -> dict[str, dict[str, Any]]:
    """Return the statements that tell what the batch meets, each only where the batch needs it."""
    memories = [change.memory for change in batch.changes]
    added = [change.memory for change in batch.changes if change.kind == "add"]
    named = {*batch.vectors, *batch.reinforced, *(one.id for one in memories)}
    matched = {texts.identity(one) for one in memories if one.state in MATCHED}
    values = {
        "stored_memories": {"ids": known(named - {memory.id for memory in added})},
        "equal_memories": {"hashes": session.codec.hashes(list(matched))},
        "next_positions": {
            "session_ids": list({one.session_id for one in added if one.session_id is not None})
        },
        "taken_pairs": _pairs(_events(batch)),
        "written_spaces": {"numbers": [batch.space_number] if batch.vectors else []},
    }
    return {name: lists for name, lists in values.items() if any(lists.values())}


def _events(batch: Batch) -> list[tuple[str, str]]:
    return [pair for pair in batch.taken if pair[1] != SESSION_END]


def _pairs(taken: Iterable[tuple[str, str]]) -> dict[str, Any]:
    pairs = list(dict.fromkeys(taken))
    return {"session_ids": [pair[0] for pair in pairs], "event_ids": [pair[1] for pair in pairs]}


async def _end_job(session: Transaction, batch: Batch) -> None:
    if batch.job is not None:
        id, fence = batch.job
        if not is_id(id) or not await session.run("end_job", id=id, fence=fence):
            raise Conflict(f"The job {id} is no longer held with the fence {fence}.")


async def _take(session: Transaction, batch: Batch, now: datetime) -> None:
    """Note the batch's events as taken in."""
    if sessions := {session_id for session_id, _ in _events(batch)}:
        again = {"session_ids": list(sessions), "event_id": SESSION_END}
        await session.run("reopen_sessions", **again)
    if batch.taken:
        await session.send("insert_taken", **_pairs(batch.taken), at=now)


async def _stones(
    session: Transaction, changes: Sequence[Change], salt: bytes
) -> frozenset[tuple[str, str]]:
    """Return the tombstones that may hold these changes back."""
    if not (bound := [change for change in changes if not change.explicit]):
        return frozenset()
    events = {event for one in bound for event in (*one.event_ids, *one.memory.event_ids)}
    memories = [one.memory for one in bound]
    texts = [codec.forgotten_key(salt, one.session_id, one.content) for one in memories]
    return await tombstoned(session, list(events), texts)


async def tombstoned(
    session: Transaction, events: Sequence[str], texts: Sequence[str]
) -> frozenset[tuple[str, str]]:
    """Return which of these events, and of these keys of texts, a tombstone stands for, each after
    its kind.
    """
    found = await session.rows("tombstoned", events=events, texts=texts)
    return frozenset((row["kind"], row["key"]) for row in found)


async def _put_vectors(
    session: Transaction, batch: Batch, plan: Plan, spaces: Sequence[Row]
) -> Sequence[str]:
    """Write the plan's vectors, and erase those of memories that say something else now.

    Returns:
        The names of the embedders that must embed the same as well, since their vectors replace
        the plan's.
    """
    number, vectors = batch.space_number, plan.vectors
    if plan.reworded:
        await erase_vectors(session, ids=plan.reworded)
    own = next((one["state"] for one in spaces if one["number"] == number), "dropped")
    if vectors and own != "dropped":
        if alone := sorted(vectors.keys() - plan.standing.keys()):
            await session.send("touch_vectors", space=number, ids=alone)
        rows = [{"id": id, "embedding": vector} for id, vector in sorted(vectors.items())]
        await session.run_many("put_vector", rows, space=number)
    embedding = {"current": "filling", "retired": "current", "dropped": "current"}.get(own)
    others = (one for one in spaces if vectors and one["number"] != number)
    return [one["name"] for one in others if one["state"] == embedding]


async def _write(session: Transaction, plan: Plan, texts: Texts, version: int) -> None:
    told = {*plan.fresh, *plan.reworded}

    def row(memory: Memory) -> dict[str, Any]:
        postings = texts.postings(memory) if memory.id in told else None
        return session.codec.memory_values(memory, texts, touched=version, postings=postings)

    fresh = {*plan.fresh}
    changed = [one for one in plan.standing.values() if one.id not in fresh]
    changed.sort(key=lambda memory: memory.state == "active")
    await session.run_many("replace_memory", map(row, changed))
    await session.run_many("insert_memory", [row(plan.standing[id]) for id in plan.fresh])
    await insert_revisions(session, plan.revisions)


async def insert_revisions(session: Transaction, revisions: Sequence[Revision]) -> None:
    """Write new revisions."""
    values = [session.codec.revision_values(one) for one in revisions]
    await session.run_many("insert_revision", values)


async def count(session: Transaction, deliveries: Sequence[Delivery]) -> None:
    """See `MemoryStore.count`."""
    values: list[dict[str, Any]] = []
    for one in sorted(deliveries, key=lambda one: one.scope.id):
        ids = sorted(known(id for counts in one.counts.values() for id in counts))
        counts = {name: [by_id.get(id, 0) for id in ids] for name, by_id in one.counts.items()}
        values += [{"scope_id": one.scope.id, "ids": ids, **counts, "now": one.at}] if ids else []
    await session.run_many("count_usage", values)
