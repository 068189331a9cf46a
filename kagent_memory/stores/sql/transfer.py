"""Memories whole, as they travel from one store to another: scripts that read them, and put them
back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict

from ...records import Revision, Scope, Usage
from ..codec import known
from ..decisions import tombstones_of
from ..planning import Texts
from ..values import Restored, Whole
from .queue import touching
from .session import Session
from .write_queries import tombstoned


async def whole(session: Session, scope: Scope, ids: Sequence[str]) -> Sequence[Whole]:
    """See `MemoryStore.whole`."""
    values = {"scope_id": scope.id, "ids": known(ids)}
    memories = session.codec.memories(scope, await session.rows("stored_memories", values))
    histories: dict[str, list[Revision]] = defaultdict(list)
    rows = await session.rows("revisions_of_all", values)
    for revision in session.codec.revisions(scope, rows):
        histories[revision.memory_id].append(revision)
    for revisions in histories.values():
        revisions.sort(key=lambda revision: revision.revision)
    return [
        Whole(one, tuple(histories[one.id])) for one in sorted(memories, key=lambda one: one.id)
    ]


async def wholes(session: Session, scope: Scope, ids: Sequence[str]) -> dict[str, Whole]:
    """Return the memories of `whole` by their ids."""
    return {one.memory.id: one for one in await whole(session, scope, ids)} if ids else {}


async def restore(
    session: Session, scope: Scope, memories: Sequence[Whole], *, texts: Texts, dry_run: bool
) -> Sequence[Restored]:
    """See `MemoryStore.restore`."""
    touched = "scope_row" if dry_run else "touch_scope"
    brings_vectors = any(one.vectors for one in memories)
    touch = touching(session, scope, 1, vectors=brings_vectors)
    found = await session.rows(touched, {"scope_id": scope.id} if dry_run else touch)
    salt = session.codec.salt(scope, found[0]) if found else b""
    outcomes = await _outcomes(session, scope, memories, salt, texts)
    added = [one for one, outcome in zip(memories, outcomes, strict=True) if outcome == "added"]
    if dry_run or not added:
        return outcomes
    await session.run_many(
        "insert_memory",
        [
            session.codec.memory_values(
                scope,
                one.memory,
                texts,
                touched=found[0]["version"],
                postings=texts.postings(one.memory),
            )
            for one in added
        ],
    )
    revisions = [
        session.codec.revision_values(scope, revision)
        for one in added
        for revision in one.revisions
    ]
    await session.run_many("insert_revision", revisions)
    used = [
        {"scope_id": scope.id, "id": one.memory.id, **asdict(one.memory.usage)}
        for one in added
        if one.memory.usage != Usage()
    ]
    await session.run_many("restore_usage", used)
    for number in sorted({number for one in added for number in one.vectors}):
        kept = [
            {"scope_id": scope.id, "id": one.memory.id, "embedding": one.vectors[number]}
            for one in added
            if number in one.vectors
        ]
        await session.run_many("put_vector", kept, space_number=number)
    return outcomes


async def replace_revisions(session: Session, scope: Scope, revisions: Sequence[Revision]) -> None:
    """Write revisions that are there anew."""
    values = [session.codec.revision_values(scope, one) for one in revisions]
    await session.run_many("erase_revision", values)
    await session.run_many("insert_revision", values)


async def _outcomes(
    session: Session, scope: Scope, memories: Sequence[Whole], salt: bytes, texts: Texts
) -> Sequence[Restored]:
    ids = {"scope_id": scope.id, "ids": [one.memory.id for one in memories]}
    present = {row["id"] for row in await session.rows("stored_memories", ids)}
    active = [one.memory for one in memories if one.memory.state == "active"]
    identities = list({texts.identity(memory) for memory in active})
    hashes = dict(zip(session.codec.hashes(scope, identities), identities, strict=True))
    asked = {"scope_id": scope.id, "hashes": [*hashes]}
    alike = await session.rows("equal_memories", asked) if active else ()
    # not those of a session alone
    equal = {hashes[bytes(row["content_hash"])] for row in alike if row["state"] == "active"}
    marks = set[tuple[str, str]]().union(*(tombstones_of(one, salt) for one in memories))
    events, said = ([key for kind, key in marks if kind == wanted] for wanted in ("event", "text"))
    tombstones = await tombstoned(session, scope, events, said)
    outcomes: list[Restored] = []
    for one in memories:
        memory = one.memory
        identity = texts.identity(memory) if memory.state == "active" else None
        if memory.id in present:
            outcomes.append("present")
        elif tombstones_of(one, salt) & tombstones:
            outcomes.append("forgotten")
        elif identity in equal:
            outcomes.append("equal")
        else:
            outcomes.append("added")
            present.add(memory.id)
            if identity is not None:
                equal.add(identity)
    return outcomes
