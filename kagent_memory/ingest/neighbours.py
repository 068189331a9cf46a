"""Finds the memories of a scope that a text may meet, by both legs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from ..consolidate import upserts
from ..errors import ModelError
from ..records import Filter, Memory, Scope, Vector
from ..stores.base import Batch, Generation, MemoryStore
from ..text import index_terms, query_terms
from ..vectors import Vectors

log = logging.getLogger("kagent_memory")

NEAREST = 5
SUMMARIES_AT_MOST = 200
Near = dict[int, list[tuple[Memory, float]]]


async def neighbours(
    store: MemoryStore, vectors: Vectors | None, scope: Scope, memories: Sequence[Memory], *, now: datetime
) -> tuple[Near, Batch]:
    """For each memory (by its place) the visible ones that are like it, with how much: the cosine, or the share of
    terms both hold; and a batch that holds the vectors made on the way.

    An embedder that is down leaves the text leg.
    """
    generation, rows = await _embedded(vectors, memories)
    nearest = (
        await store.search_vector(scope, generation.number, rows, limit=NEAREST, now=now) if generation and rows else []
    )
    likeness: list[dict[str, float]] = []
    for place, memory in enumerate(memories):
        found = dict(await _sharing(store, scope, memory, now))
        former = dict.fromkeys(await _of_its_session(store, scope, memory, now), 0.0) if upserts(memory) else {}
        likeness.append(former | found | dict(nearest[place] if nearest else ()))
    known = await store.get(scope, list({id for found in likeness for id in found}), now=now)
    near = {
        place: [(known[id], value) for id, value in found.items() if id in known and id != memories[place].id]
        for place, found in enumerate(likeness)
    }
    made = {memory.id: row for memory, row in zip(memories, rows, strict=False)}
    return near, Batch(vectors=made, generation=generation.number if generation else None)


async def _embedded(vectors: Vectors | None, memories: Sequence[Memory]) -> tuple[Generation | None, Sequence[Vector]]:
    if vectors is None or not memories:
        return None, ()
    try:
        return await vectors.embed([memory.content for memory in memories], kind="document")
    except ModelError as error:
        log.warning("What is alike is found by words alone: %s", error)
        return None, ()


async def _of_its_session(store: MemoryStore, scope: Scope, memory: Memory, now: datetime) -> list[str]:
    """The ids of the summaries of its session, one of which it may take the place of."""
    summaries = Filter(session_id=memory.session_id, types=("episodic",))
    page = await store.list(scope, filter=summaries, limit=SUMMARIES_AT_MOST, now=now)
    return [other.id for other in page.memories if upserts(other)]


async def _sharing(store: MemoryStore, scope: Scope, memory: Memory, now: datetime) -> list[tuple[str, float]]:
    own = frozenset(index_terms(memory.content))
    terms = query_terms(f"{memory.content} {memory.attribute or ''}")
    found = await store.search_text(scope, terms, limit=NEAREST, now=now)
    return [
        (id, len(own & held.keys()) / max(1, len(own) + length - len(own & held.keys())))
        for id, (length, held) in found.matches.items()
    ]
