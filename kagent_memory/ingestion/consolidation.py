"""Merge memories of a scope that state the same."""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import datetime
from operator import attrgetter

from ..models.llm import Llm
from ..records import Change, Memory, Scope
from ..retrieval.embedding_spaces import EXTERNAL, StoreEmbedder, with_vectors
from ..retrieval.similar import Near, neighbours
from ..stores import Store
from ..stores.planning import said, slot_of
from ..stores.values import Batch
from .planner import Plan, decide, unites

MAX_MERGED = 200
"""Newest memories of a scope that one call tries to merge."""
MIN_SIMILARITY = 0.8
"""Lowest cosine of two memories that may be merged."""


async def merge(
    store: Store,
    vectors: StoreEmbedder | None,
    scope: Scope,
    llm: Llm,
    *,
    now: datetime,
    dry_run: bool,
) -> Sequence[Change]:
    """Merge the newest memories of a scope with memories that state the same; return the changes.

    Memories with a vector from their caller stay alone: no new vector can be made for a merged
    text.

    Args:
        store: the store.
        vectors: the embedder; None: memories are compared by their words.
        scope: the scope.
        llm: the model that decides and writes the merged sentence.
        now: the current time (aware UTC).
        dry_run: True to return the changes without applying them.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used.
        Conflict: the scope changed meanwhile.
    """
    memories = store.memories
    version = await memories.version(scope)
    page = await memories.list(scope, limit=MAX_MERGED, now=now)
    recent = list(filter(may_merge, page.memories))
    near = await neighbours(await memories.view(scope, now=now), vectors, recent)
    ids = {memory.id for memory in recent}
    ids |= {memory.id for alike in near.values() for memory, _ in alike}
    bound = {
        id
        for space in await memories.spaces.all()
        if space.name.startswith(EXTERNAL)
        for id in await memories.vectors(scope, space.number, list(ids))
    }
    plan = await plan_merges(recent, near, llm, now=now, without=bound)
    if plan.changes and not dry_run:
        batch = Batch(changes=plan.changes, expected_version=version)
        await store.apply(scope, await with_vectors(vectors, scope, batch, now), now=now)
    return plan.changes


async def plan_merges(
    memories: Sequence[Memory],
    near: Near,
    llm: Llm,
    *,
    now: datetime,
    without: Set[str] = frozenset(),
) -> Plan:
    """Return the plan that merges memories with older ones of their kind where the model decides
    so; each memory is merged at most once.

    Args:
        memories: visible memories of one scope.
        near: index into `memories` → similar memories and their cosines.
        llm: the model that decides and writes the merged sentence.
        now: the current time (aware UTC).
        without: ids of memories that stay alone.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used.
    """
    kind = attrgetter("type", "origin", "is_error", "category", "metadata")
    older = {
        place: [
            (other, value)
            for other, value in alike
            if value >= MIN_SIMILARITY and may_merge(other) and kind(other) == kind(memory)
            if (said(other), other.id) < (said(memory), memory.id)
            if without.isdisjoint((other.id, memory.id))
        ]
        for place, alike in near.items()
        for memory in (memories[place],)
    }
    plan = Plan(now=now)
    for place, decision in (await decide(memories, older, llm)).items():
        newer, text = memories[place], decision.text or ""
        for memory, _ in older[place]:
            is_chosen = memory.id == decision.memory and decision.action == "UPDATE"
            is_new = plan.rows.keys().isdisjoint((memory.id, newer.id))
            if is_chosen and is_new and unites(text, memory, newer):
                plan.unite(memory, newer, text)
    return plan


def may_merge(memory: Memory) -> bool:
    """Return True if consolidation may merge a memory with others."""
    stays = memory.verbatim or memory.pinned or slot_of(memory)
    return memory.state == "active" and not stays
