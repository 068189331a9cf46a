"""Writing one batch, whole or not at all, and the counters beside the memories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...errors import Conflict
from ...records import Memory, Scope, State
from .. import codec
from ..codec import is_id, known
from ..planning import Plan, Texts, held_back
from ..values import SESSION_END, Applied, Batch, Delivery, embed_job
from .index_cache import Packed
from .queue import put, touching
from .session import Row, Session


async def apply(
    session: Session, scope: Scope, batch: Batch, *, texts: Texts, now: datetime
) -> Applied:
    """Write a batch: see `MemoryStore.apply`; `texts` are of its memories."""
    step = int(bool(batch.changes or batch.taken or batch.reinforced))
    met = await _meet(session, scope, batch, step, texts)
    if batch.expected_version is not None and batch.expected_version != met.version - step:
        raise Conflict(
            f"The scope is no longer at version {batch.expected_version}; read it again and retry."
        )
    if batch.calls or batch.tokens:
        await session.run(
            "add_costs", {"scope_id": scope.id, "calls": batch.calls, "tokens": batch.tokens}
        )
    await _take(session, scope, batch, met, now)
    plan, held = await _planned(session, scope, batch, met, texts, now)
    reworded = await _reworded(session, scope, plan)
    vectors = {
        plan.given.get(id, id): vector
        for id, vector in batch.vectors.items()
        if id not in held and (id in plan.given or id in plan.stored)
    }
    if vectors and met.writable:
        if alone := sorted(vectors.keys() - plan.standing.keys()):
            await session.run_many(
                "touch_vectors",
                [{"scope_id": scope.id, "ids": alone}],
                space_number=batch.space_number,
            )
        values = [
            {"scope_id": scope.id, "id": id, "embedding": vector}
            for id, vector in sorted(vectors.items())
        ]
        await session.run_many("put_vector", values, space_number=batch.space_number)
    # last: the database works on the vectors meanwhile
    await _write(session, scope, plan, met.version, reworded)
    await put(
        session, [*batch.jobs, *(embed_job(scope, now, name) for name in met.embedders if vectors)]
    )
    ids = tuple(
        None if change.memory.id in held else plan.given[change.memory.id]
        for change in batch.changes
    )
    return Applied(ids=ids, version=met.version)


async def keep_index(session: Session, scope: Scope, packed: Packed) -> None:
    """Store a scope's packed index, unless something was erased since it was read or a newer one is
    stored.
    """
    stand = packed.stand
    if await session.rows(
        "hold_index", {"scope_id": scope.id, "salt": stand.salt, "erased": stand.erased}
    ):
        sealed = session.codec.sealed_index(scope, packed.packed)
        row = {"scope_id": scope.id, "version": stand.version, "packed": sealed}
        await session.run_many("put_index", [row])


@dataclass(frozen=True, slots=True)
class _Met:
    """What a batch meets, read under the scope's lock.

    Attributes:
        stored: the memories that it names, and those that say the same as one of its own.
        twins: identity → id of the latter, where it is active.
        waiting: the same of those in quarantine.
        positions: the next free one of each session that it adds to.
        taken: whether an event of it was taken in before.
        writable: whether the embedding space of its vectors is still there.
        embedders: those that must embed what it writes as well, since their vectors replace its
            own.
    """

    version: int
    salt: bytes
    stored: dict[str, Memory]
    twins: dict[bytes, str]
    waiting: dict[bytes, str]
    short_term: dict[bytes, str]
    positions: dict[str, int]
    taken: bool
    writable: bool
    embedders: Sequence[str]


async def _meet(session: Session, scope: Scope, batch: Batch, step: int, texts: Texts) -> _Met:
    scopes = sorted({job.scope for job in batch.jobs} | {scope}, key=lambda one: one.id)
    own = touching(session, scope, step, vectors=bool(batch.vectors))
    asked = [
        ("touch_scope", own if other == scope else touching(session, other, 0)) for other in scopes
    ]
    answers: list[Sequence[Row]] = []
    if session.codec.ring is not None:  # hashes are keyed by the scope's salt
        answers, asked = [*await session.several(asked)], []
        session.codec.salt(scope, answers[scopes.index(scope)][0])
    questions = _questions(session, scope, batch, texts)
    answers += await session.several([*asked, *questions.items()])
    row = answers[scopes.index(scope)][0]
    salt = session.codec.salt(scope, row)
    found = dict(zip(questions, answers[len(scopes) :], strict=True))
    rows = found.get("stored_memories", ())
    stored = {one.id: one for one in session.codec.memories(scope, rows)}
    equal, held = (
        [row["id"] for row in found.get(name, ())]
        for name in ("equal_memories", "quarantined_memories")
    )
    if unread := known({*equal, *held}.difference(stored)):
        rows = await session.rows("stored_memories", {"scope_id": scope.id, "ids": unread})
        stored |= {one.id: one for one in session.codec.memories(scope, rows)}
    brief = [id for id in equal if id in stored and stored[id].state == "short_term"]
    twins, waiting, short_term = (
        {texts.identity(stored[id]): id for id in ids if id in stored}
        for ids in ({*equal}.difference(brief), held, brief)
    )
    spaces = found.get("written_spaces", ())
    own = next((one["state"] for one in spaces if one["number"] == batch.space_number), "dropped")
    embedding = {"current": "filling", "retired": "current", "dropped": "current"}.get(own)
    return _Met(
        version=row["version"],
        salt=salt,
        stored=stored,
        twins=twins,
        waiting=waiting,
        short_term=short_term,
        positions={row["session_id"]: row["position"] for row in found.get("next_positions", ())},
        taken=bool(found.get("taken_pairs")),
        writable=own != "dropped",
        embedders=[
            one["name"]
            for one in spaces
            if one["number"] != batch.space_number and one["state"] == embedding
        ],
    )


def _questions(
    session: Session, scope: Scope, batch: Batch, texts: Texts
) -> dict[str, dict[str, Any]]:
    """The statements that tell what the batch meets, each only where the batch needs it."""

    def hashes(*states: State) -> list[bytes]:
        said = [one.memory for one in batch.changes if one.memory.state in states]
        return session.codec.hashes(scope, list({texts.identity(one) for one in said}))

    added = [change.memory for change in batch.changes if change.kind == "add"]
    named = (
        {change.memory.id for change in batch.changes} | set(batch.vectors) | set(batch.reinforced)
    )
    values = {
        "stored_memories": {"ids": known(named - {memory.id for memory in added})},
        "equal_memories": {"hashes": hashes("active", "quarantined", "short_term")},
        "quarantined_memories": {"hashes": hashes("quarantined")},
        "next_positions": {
            "session_ids": list({one.session_id for one in added if one.session_id is not None})
        },
        "taken_pairs": _pairs(_events(batch)),
        "written_spaces": {"numbers": [batch.space_number] if batch.vectors else []},
    }
    return {
        name: {"scope_id": scope.id, **lists}
        for name, lists in values.items()
        if any(lists.values())
    }


def _events(batch: Batch) -> list[tuple[str, str]]:
    return [pair for pair in batch.taken if pair[1] != SESSION_END]


def _pairs(taken: Iterable[tuple[str, str]]) -> dict[str, Any]:
    pairs = list(dict.fromkeys(taken))
    return {"session_ids": [pair[0] for pair in pairs], "event_ids": [pair[1] for pair in pairs]}


async def _take(session: Session, scope: Scope, batch: Batch, met: _Met, now: datetime) -> None:
    """Ends the job whose work the batch is, and notes its events as taken in."""
    if batch.job is not None:
        id, fence = batch.job
        if not is_id(id) or not await session.run(
            "end_job", {"scope_id": scope.id, "id": id, "fence": fence}
        ):
            raise Conflict(f"The job {id} is no longer held with the fence {fence}.")
    if met.taken:
        raise Conflict(
            "An event of this batch was already ingested; read which ones and retry without them."
        )
    if events := _events(batch):
        again = {
            "session_ids": list({session_id for session_id, _ in events}),
            "event_id": SESSION_END,
        }
        await session.run("reopen_sessions", {"scope_id": scope.id, **again})
    if batch.taken:
        await session.run_many(
            "insert_taken", [{"scope_id": scope.id, **_pairs(batch.taken), "at": now}]
        )


async def _planned(
    session: Session, scope: Scope, batch: Batch, met: _Met, texts: Texts, now: datetime
) -> tuple[Plan, frozenset[str]]:
    stones: frozenset[tuple[str, str]] = frozenset()
    if bound := [change for change in batch.changes if not change.explicit]:
        events = {event for one in bound for event in (*one.event_ids, *one.memory.event_ids)}
        texts_said = [
            codec.forgotten_key(met.salt, one.memory.session_id, one.memory.content)
            for one in bound
        ]
        stones = await tombstoned(session, scope, list(events), texts_said)
    held = held_back(batch.changes, met.stored, stones, met.salt)
    live = [change for change in batch.changes if change.memory.id not in held]
    # What stops being active makes room for what says the same from now on.
    stays = {change.memory.id: change.memory.state == "active" for change in live}
    equal = {key: id for key, id in met.twins.items() if stays.get(id, True)}
    plan = Plan(
        stored=met.stored,
        equal=equal,
        waiting=dict(met.waiting),
        positions=dict(met.positions),
        now=now,
        texts=texts,
        short_term=met.short_term,
    )
    for change in live:
        plan.take(change)
    for memory_id in batch.reinforced:
        plan.renew(memory_id)
    plan.close()
    return plan, held


async def tombstoned(
    session: Session, scope: Scope, events: Sequence[str], texts: Sequence[str]
) -> frozenset[tuple[str, str]]:
    """Which of these events, and of these keys of texts, a tombstone stands for, each after its
    kind.
    """
    values = {"scope_id": scope.id, "events": events, "texts": texts}
    return frozenset((row["kind"], row["key"]) for row in await session.rows("tombstoned", values))


async def _reworded(session: Session, scope: Scope, plan: Plan) -> Sequence[str]:
    """The memories that say something else, whose vectors are erased until some come for the new
    texts.
    """
    reworded = [
        id
        for id, memory in plan.standing.items()
        if id in plan.stored
        and (plan.stored[id].content, plan.stored[id].author) != (memory.content, memory.author)
    ]
    if reworded:
        values = {"scope_id": scope.id, "ids": reworded}
        for space in await session.rows("embedding_spaces", {}):
            await session.run_many("erase_vectors", [values], space_number=space["number"])
    return reworded


async def _write(
    session: Session, scope: Scope, plan: Plan, version: int, reworded: Sequence[str]
) -> None:
    postings = {id: plan.texts.postings(plan.standing[id]) for id in (*plan.fresh, *reworded)}

    def row(memory: Memory) -> dict[str, Any]:
        return session.codec.memory_values(
            scope, memory, plan.texts, touched=version, postings=postings.get(memory.id)
        )

    changed = [memory for id, memory in plan.standing.items() if id in plan.stored]
    changed.sort(key=lambda memory: memory.state == "active")
    if changed:
        await session.run_many("replace_memory", [row(memory) for memory in changed])
    if plan.fresh:
        await session.run_many("insert_memory", [row(plan.standing[id]) for id in plan.fresh])
    if plan.revisions:
        revisions = [session.codec.revision_values(scope, one) for one in plan.revisions]
        await session.run_many("insert_revision", revisions)


async def count(session: Session, deliveries: Sequence[Delivery]) -> None:
    """See `MemoryStore.count`."""
    values: list[dict[str, Any]] = []
    for one in sorted(deliveries, key=lambda one: one.scope.id):
        ids = sorted(known((*one.retrieved, *one.delivered)))
        counts = {
            name: [getattr(one, name).get(id, 0) for id in ids]
            for name in ("retrieved", "delivered")
        }
        values += [{"scope_id": one.scope.id, "ids": ids, **counts, "now": one.at}] if ids else []
    if values:
        await session.run_many("count_usage", values)
    said = [
        {
            "scope_id": one.scope.id,
            "id": id,
            "successes": one.successes.get(id, 0),
            "failures": one.failures.get(id, 0),
        }
        for one in deliveries
        for id in sorted(known((*one.successes, *one.failures)))
    ]
    if said:
        await session.run_many("count_feedback", said)
