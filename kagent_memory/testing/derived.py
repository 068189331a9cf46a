"""Derive usage, counts and lineage from memories, for stores without SQL.

`samples/custom_store.py` is such a store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..records import Memory
from ..stores.decisions import is_visible
from ..stores.planning import identity_of
from ..stores.values import Delivery, ScopeStats, Whole


def counted(memory: Memory, delivery: Delivery) -> Memory:
    """Return a memory with the counts of a delivery added to its usage."""
    old, times = memory.usage, delivery.counts.get("delivered", {}).get(memory.id, 0)
    new: dict[str, Any] = {
        name: getattr(old, name) + counts.get(memory.id, 0)
        for name, counts in delivery.counts.items()
    }
    if times:
        new["delivered_total"] = old.delivered_total + times
        new["last_delivered_at"] = max(old.last_delivered_at or delivery.at, delivery.at)
    return replace(memory, usage=replace(old, **new))


def stats_of(memories: Sequence[Memory], *, now: datetime, popular_after: int) -> ScopeStats:
    """Return the counts of memories in any state."""
    lives = Counter((memory.state, is_visible(memory, now, superseded=True)) for memory in memories)
    visible = [memory for memory in memories if is_visible(memory, now)]
    return ScopeStats(
        visible=len(visible),
        by_type=dict(sorted(Counter[str](memory.type for memory in visible).items())),
        expired=lives["active", False],
        unused=sum(
            memory.usage.delivered < popular_after
            for memory in memories
            if not is_visible(memory, now, superseded=True)
        ),
        superseded=lives["superseded", True] + lives["superseded", False],
        quarantined=lives["quarantined", True],
        short_term=lives["short_term", True],
        pinned=sum(memory.pinned for memory in memories if memory.state == "active"),
        delivered_total=sum(memory.usage.delivered_total for memory in visible),
    )


def lineage_of(memories: Mapping[str, Whole], ids: Iterable[str]) -> set[str]:
    """Return the ids of all memories that are forgotten with these: those merged or superseded into
    them, those that a merge made of them, and history that said the same.
    """
    lineage, frontier = set[str](), {*ids} & memories.keys()
    inactive = [whole.memory for whole in memories.values() if whole.memory.state != "active"]
    revisions = [revision for whole in memories.values() for revision in whole.revisions]
    merges = {revision.group for revision in revisions if revision.kind == "merge"}
    merged = {revision.memory_id for revision in revisions if revision.group in merges}
    while frontier:
        lineage |= frontier
        identities = {identity_of(memories[id].memory) for id in frontier}
        frontier = {
            memory.id
            for memory in inactive
            if memory.superseded_by in frontier or identity_of(memory) in identities
        }
        frontier |= {
            memory.superseded_by or "" for memory in inactive if memory.id in lineage & merged
        }
        frontier = frontier & memories.keys() - lineage
    return lineage
