"""Merge memories of a scope that say the same."""

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
"""The newest memories of a scope, which are merged with what says the same."""
MIN_SIMILARITY = 0.8
"""Cosine of two memories that may be one."""


async def merge(
    store: Store,
    vectors: StoreEmbedder | None,
    scope: Scope,
    llm: Llm,
    *,
    now: datetime,
    dry_run: bool = False,
) -> Sequence[Change]:
    """Merge the newest memories of a scope with what says the same; return the changes.

    What has a vector of its caller's stays alone: nobody here can make one for other words.

    Args:
        store: whose memories.
        vectors: the embedder; None: memories are alike by their words.
        scope: whose.
        llm: decides, and writes the sentence that says both.
        now: the time.
        dry_run: only returns the changes.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used.
        Conflict: the scope changed meanwhile.
    """
    memories = store.memories
    version = await memories.version(scope)
    page = await memories.list(scope, order="newest", limit=MAX_MERGED, now=now)
    recent = list(filter(may_merge, page.memories))
    near, _ = await neighbours(await memories.view(scope, now=now), vectors, recent)
    nearby = (memory for neighbours in near.values() for memory, _ in neighbours)
    ids = list({memory.id for memory in (*recent, *nearby)})
    bound = {
        id
        for space in await memories.spaces.all()
        if ids and space.name.startswith(EXTERNAL)
        for id in await memories.vectors(scope, space.number, ids)
    }
    plan = await plan_merges(alike(recent, near, without=bound), llm, now=now)
    if plan.changes and not dry_run:
        batch = Batch(changes=plan.changes, expected_version=version)
        await store.apply(scope, await with_vectors(vectors, scope, batch, now), now=now)
    return plan.changes


async def plan_merges(pairs: Sequence[tuple[Memory, Memory]], llm: Llm, *, now: datetime) -> Plan:
    """Return the plan that unites pairs of a newer and an older memory where a model says so.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used.
    """
    plan = Plan(now=now)
    shown = {number: [(older, 1.0)] for number, (_, older) in enumerate(pairs)}
    for number, decision in (await decide([newer for newer, _ in pairs], shown, llm)).items():
        newer, older = pairs[number]
        text = decision.text or ""
        if decision.action == "UPDATE" and unites(text, older, newer):
            plan.unite(older, newer, text)
    return plan


def may_merge(memory: Memory) -> bool:
    """Return True if a memory may become one with others, when somebody asks for that."""
    stays = memory.verbatim or memory.is_summary or memory.pinned or slot_of(memory)
    return memory.state == "active" and not stays


def alike(
    memories: Sequence[Memory], near: Near, *, without: Set[str] = frozenset()
) -> list[tuple[Memory, Memory]]:
    """Return pairs of a newer and an older memory of one kind that are alike and may be one, the
    most similar first; each memory is in one pair at most.

    Args:
        memories: visible memories of one scope.
        near: index into `memories` → memories that are like it, with their cosine.
        without: ids of memories that stay alone.
    """
    kind = attrgetter("type", "origin", "is_error", "category", "metadata")
    pairs = [
        (value, *sorted((memories[place], other), key=said, reverse=True))
        for place, neighbours in near.items()
        for other, value in neighbours
        if value >= MIN_SIMILARITY and may_merge(other) and kind(memories[place]) == kind(other)
    ]
    chosen: list[tuple[Memory, Memory]] = []
    taken = {*without}
    for _, newer, older in sorted(pairs, key=lambda pair: -pair[0]):
        if taken.isdisjoint((newer.id, older.id)):
            chosen.append((newer, older))
            taken |= {newer.id, older.id}
    return chosen
