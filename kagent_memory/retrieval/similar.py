"""Find the memories of a scope that a new one may duplicate or replace: by words, by vectors and by
its slot.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np

from ..errors import ModelError
from ..language.tokenizer import index_terms
from ..records import Memory, Scope
from ..stores.base import MemoryStore
from ..stores.planning import slot_of
from ..stores.values import MemoryQuery, TextMatches
from ..stores.view import View
from .embedding_spaces import StoreEmbedder

logger = logging.getLogger(__name__)

NEAREST = 5
Near = Mapping[int, Sequence[tuple[Memory, float]]]


async def neighbours(view: View, vectors: StoreEmbedder | None, memories: Sequence[Memory]) -> Near:
    """Find for each memory, by its position, the visible memories most like it, with the cosine or
    else the share of terms in common.

    If the embedder is unavailable, only the text leg is searched. Kept turns are left out.
    """
    facts = view.without(view.index.columns["turn"])
    nearest: Mapping[str, Sequence[tuple[str, float]]] = {}
    if vectors is not None and memories:
        try:
            space, own_vectors = await vectors.embed_memories(view.scope, memories)
            near = await facts.nearest(space.number, [*own_vectors.values()], limit=NEAREST)
            nearest = dict(zip(own_vectors, near, strict=True))
        except ModelError as error:
            logger.warning("Looking for similar memories by words only: %s", error)
    queries = [f"{memory.content} {memory.attribute or ''}" for memory in memories]
    matches = await facts.texts(queries, limit=NEAREST)
    likeness = [
        dict(zip(facts.index.ids_of(hits.matches.rows), _shared(memory, hits), strict=True))
        | dict(nearest.get(memory.id, ()))
        for memory, hits in zip(memories, matches, strict=True)
    ]
    memories_by_id = await facts.memories(
        list({id for likenesses in likeness for id in likenesses})
    )
    return {
        place: [
            (memories_by_id[id], value)
            for id, value in likenesses.items()
            if id in memories_by_id and id != memories[place].id
        ]
        for place, likenesses in enumerate(likeness)
    }


async def current(
    store: MemoryStore,
    scope: Scope,
    memories: Sequence[Memory],
    near: Near,
    *,
    others: Sequence[Memory] = (),
    now: datetime,
) -> Near:
    """Read neighbours again, and add the memories that fill the same slots, with a likeness of 1.

    Args:
        store: the store of the memories.
        scope: their scope.
        memories: the new memories.
        near: the neighbours that were found, by position of the new memory.
        others: memories not stored yet that count as stored.
        now: the time.
    """
    ids = {memory.id for neighbours in near.values() for memory, _ in neighbours}
    slots = {place: slot for place, memory in enumerate(memories) if (slot := slot_of(memory))}
    query = MemoryQuery(slots=list(slots.values()), order="oldest", now=now)
    slot_memories = await store.select(scope, query) if slots else ()
    memories_by_id = {
        **await store.get(scope, list(ids), now=now),
        **{memory.id: memory for memory in (*slot_memories, *others)},
    }
    holders = defaultdict[str | None, list[str]](list)
    for memory in (*slot_memories, *others):
        holders[slot_of(memory) or ""].append(memory.id)
    near_facts: dict[int, list[tuple[Memory, float]]] = {}
    for place in near.keys() | slots.keys():
        likeness = {memory.id: value for memory, value in near.get(place, ())}
        for id in holders[slots.get(place)]:
            likeness.setdefault(id, 1.0)
        near_facts[place] = [
            (memories_by_id[id], value) for id, value in likeness.items() if id in memories_by_id
        ]
    return near_facts


def _shared(memory: Memory, hits: TextMatches) -> list[float]:
    """Return the share of the terms of both that a memory and each match have in common."""
    terms = index_terms(memory.content).keys()
    matches = hits.matches
    both = (matches.counts[:, [term in terms for term in matches.terms]] > 0).sum(axis=1)
    return (both / np.maximum(1, len(terms) + matches.lengths - both)).tolist()
