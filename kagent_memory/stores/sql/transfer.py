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
    return {memory.id: Whole(memory, tuple(histories[memory.id])) for memory in memories}


async def restore(
    session: Transaction, memories: Sequence[Whole], *, texts: Texts, dry_run: bool
) -> Sequence[Restored]:
    """See `MemoryStore.restore`."""
    touch = touching(session, 1, vectors=any(whole.vectors for whole in memories))
    row = await session.row("scope_row" if dry_run else "touch_scope", **touch)
    salt = session.codec.salt(row) if row else b""
    outcomes = await _outcomes(session, memories, salt, texts)
    if dry_run or not row:
        return outcomes
    added = [whole for whole, outcome in zip(memories, outcomes, strict=True) if outcome == "added"]
    rows = [
        session.codec.memory_values(
            whole.memory, texts, touched=row["version"], postings=texts.postings(whole.memory)
        )
        for whole in added
    ]
    await session.run_many("insert_memory", rows)
    await insert_revisions(session, [revision for whole in added for revision in whole.revisions])
    used = (whole.memory for whole in added if whole.memory.usage != Usage())
    await session.run_many(
        "restore_usage", [{"id": memory.id, **asdict(memory.usage)} for memory in used]
    )
    vectors: dict[int, dict[str, Vector]] = defaultdict(dict)
    for whole in added:
        for number, vector in whole.vectors.items():
            vectors[number][whole.memory.id] = vector
    for number, of_space in vectors.items():
        await put_vectors(session, number, of_space)
    return outcomes


async def _outcomes(
    session: Transaction, memories: Sequence[Whole], salt: bytes, texts: Texts
) -> Sequence[Restored]:
    active = {
        whole.memory.id: texts.identity(whole.memory)
        for whole in memories
        if whole.memory.state == "active"
    }
    hashes = session.codec.hashes([*{*active.values()}])
    ids = [whole.memory.id for whole in memories]
    met = await session.memories("met_memories", ids=ids, hashes=hashes)
    present = {memory.id for memory in met}
    # not those of a session alone
    equal = {texts.identity(memory) for memory in met if memory.state == "active"}
    stones = [tombstones_of(whole, salt) for whole in memories]
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
