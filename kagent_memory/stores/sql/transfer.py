"""Memories whole, as they travel from one store to another: scripts that read them, and put them
back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from ...records import Revision, Usage, Vector
from ..codec import known
from ..decisions import tombstones_of
from ..planning import Texts
from ..values import Restored, Whole
from .queue import touching
from .session import Transaction
from .write_queries import insert_revisions, put_vectors, tombstoned


async def wholes(session: Transaction, ids: Iterable[str]) -> dict[str, Whole]:
    """Return these memories by their ids, in the order of these: see `MemoryStore.whole`."""
    if not (ids := known(ids)):
        return {}
    memories = await session.memories("stored_memories", ids=ids)
    histories: dict[str, list[Revision]] = defaultdict(list)
    for revision in await session.revisions("revisions_of_all", ids=ids):
        histories[revision.memory_id].append(revision)
    return {one.id: Whole(one, tuple(histories[one.id])) for one in memories}


async def restore(
    session: Transaction, memories: Sequence[Whole], *, texts: Texts, dry_run: bool
) -> Sequence[Restored]:
    """See `MemoryStore.restore`."""
    touch = touching(session, 1, vectors=any(one.vectors for one in memories))
    row = await session.row("scope_row" if dry_run else "touch_scope", **touch)
    salt = session.codec.salt(row) if row else b""
    outcomes = await _outcomes(session, memories, salt, texts)
    if dry_run or not row:
        return outcomes
    added = [one for one, outcome in zip(memories, outcomes, strict=True) if outcome == "added"]
    rows = [
        session.codec.memory_values(
            one.memory, texts, touched=row["version"], postings=texts.postings(one.memory)
        )
        for one in added
    ]
    await session.run_many("insert_memory", rows)
    await insert_revisions(session, [revision for one in added for revision in one.revisions])
    used = (one.memory for one in added if one.memory.usage != Usage())
    await session.run_many("restore_usage", [{"id": one.id, **asdict(one.usage)} for one in used])
    vectors: dict[int, dict[str, Vector]] = defaultdict(dict)
    for one in added:
        for number, vector in one.vectors.items():
            vectors[number][one.memory.id] = vector
    for number, of_space in vectors.items():
        await put_vectors(session, number, of_space)
    return outcomes


async def _outcomes(
    session: Transaction, memories: Sequence[Whole], salt: bytes, texts: Texts
) -> Sequence[Restored]:
    active = {
        one.memory.id: texts.identity(one.memory)
        for one in memories
        if one.memory.state == "active"
    }
    hashes = session.codec.hashes([*{*active.values()}])
    ids = [one.memory.id for one in memories]
    met = await session.memories("met_memories", ids=ids, hashes=hashes)
    present = {one.id for one in met}
    # not those of a session alone
    equal = {texts.identity(one) for one in met if one.state == "active"}
    stones = [tombstones_of(one, salt) for one in memories]
    standing = await tombstoned(session, set[tuple[str, str]]().union(*stones))
    outcomes: list[Restored] = []
    for id, own in zip(ids, stones, strict=True):
        if id in present:
            outcomes.append("present")
        elif own & standing:
            outcomes.append("forgotten")
        elif active.get(id) in equal:
            outcomes.append("equal")
        else:
            outcomes.append("added")
            present.add(id)
            equal |= {active[id]} if id in active else set()
    return outcomes
