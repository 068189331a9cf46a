"""Memories whole, as they travel from one store to another: scripts that read them, and put them
back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict

from ...records import Revision, Usage
from ..codec import known
from ..decisions import tombstones_of
from ..planning import Texts
from ..values import Restored, Whole
from .queue import touching
from .session import Transaction
from .write_queries import insert_revisions, tombstoned


async def wholes(session: Transaction, ids: Sequence[str]) -> dict[str, Whole]:
    """Return these memories by their ids, in the order of these: see `MemoryStore.whole`."""
    if not (ids := known(ids)):
        return {}
    memories = await session.memories("stored_memories", ids=ids)
    histories: dict[str, list[Revision]] = defaultdict(list)
    for revision in await session.revisions("revisions_of_all", ids=ids):
        histories[revision.memory_id].append(revision)
    for revisions in histories.values():
        revisions.sort(key=lambda revision: revision.revision)
    memories.sort(key=lambda one: one.id)
    return {one.id: Whole(one, tuple(histories[one.id])) for one in memories}


async def restore(
    session: Transaction, memories: Sequence[Whole], *, texts: Texts, dry_run: bool
) -> Sequence[Restored]:
    """See `MemoryStore.restore`."""
    touch = touching(session, 1, vectors=any(one.vectors for one in memories))
    row = await session.row("scope_row" if dry_run else "touch_scope", **touch)
    salt = session.codec.salt(row) if row else b""
    outcomes = await _outcomes(session, memories, salt, texts)
    added = [one for one, outcome in zip(memories, outcomes, strict=True) if outcome == "added"]
    if dry_run or not row:
        return outcomes
    memory_values, version = session.codec.memory_values, row["version"]
    rows = [
        memory_values(one.memory, texts, touched=version, postings=texts.postings(one.memory))
        for one in added
    ]
    await session.run_many("insert_memory", rows)
    await insert_revisions(session, [revision for one in added for revision in one.revisions])
    used = [
        {"id": one.memory.id, **asdict(one.memory.usage)}
        for one in added
        if one.memory.usage != Usage()
    ]
    await session.run_many("restore_usage", used)
    for number in sorted({number for one in added for number in one.vectors}):
        kept = [
            {"id": one.memory.id, "embedding": one.vectors[number]}
            for one in added
            if number in one.vectors
        ]
        await session.run_many("put_vector", kept, space=number)
    return outcomes


async def replace_revisions(session: Transaction, revisions: Sequence[Revision]) -> None:
    """Write revisions that are there anew."""
    keys = [{"memory_id": one.memory_id, "revision": one.revision} for one in revisions]
    await session.run_many("erase_revision", keys)
    await insert_revisions(session, revisions)


async def _outcomes(
    session: Transaction, memories: Sequence[Whole], salt: bytes, texts: Texts
) -> Sequence[Restored]:
    present = {*await session.ids("stored_memories", ids=[one.memory.id for one in memories])}
    active = [one.memory for one in memories if one.memory.state == "active"]
    identities = list({texts.identity(memory) for memory in active})
    hashes = dict(zip(session.codec.hashes(identities), identities, strict=True))
    alike = await session.rows("equal_memories", hashes=[*hashes]) if active else ()
    # not those of a session alone
    equal = {hashes[bytes(row["content_hash"])] for row in alike if row["state"] == "active"}
    marks = set[tuple[str, str]]().union(*(tombstones_of(one, salt) for one in memories))
    events, said = ([key for kind, key in marks if kind == wanted] for wanted in ("event", "text"))
    tombstones = await tombstoned(session, events, said)
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
