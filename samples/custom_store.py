"""Implement a store of your own, here in a dict. See docs/how-to/testing.md.

The store keeps every promise of `MemoryStore` that it does not refuse, and passes the contract
suite (tests/stores/test_custom_store.py). A companion in SQLite holds queue, tokens and receipts.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from kagent_memory import Memory, Scope
from kagent_memory.errors import Conflict, StoreError
from kagent_memory.records import Change, new_id
from kagent_memory.stores import Adapter, EmbeddingSpaces, MemoryStore, codec, decisions, open_with
from kagent_memory.stores.filter_match import is_visible
from kagent_memory.stores.planning import Plan, checked
from kagent_memory.stores.spaces import EmbeddingSpace
from kagent_memory.stores.values import (
    SESSION_END,
    Applied,
    Batch,
    Delivery,
    Erasure,
    Gone,
    Pruned,
    ScopeStats,
    Whole,
)


@dataclass
class Kept:
    """The contents of one scope."""

    scope: Scope
    counts: Counter[str] = field(default_factory=Counter)
    salt: bytes = field(default_factory=lambda: os.urandom(16))
    whole: dict[str, Whole] = field(default_factory=dict)
    vectors: dict[str, dict[int, np.ndarray]] = field(default_factory=dict)
    taken: set[tuple[str, str]] = field(default_factory=set)
    tombstones: set[tuple[str, str]] = field(default_factory=set)

    @property
    def memories(self) -> list[Memory]:
        return [one.memory for one in self.whole.values()]

    def put(self, memories: Iterable[Memory]) -> None:
        self.whole |= {one.id: replace(self.whole[one.id], memory=one) for one in memories}

    def erase(self, ids: Sequence[str]) -> None:
        groups = {one.group for id in ids for one in self.whole.pop(id).revisions} - {None}
        self.vectors = {id: rows for id, rows in self.vectors.items() if id in self.whole}
        for id, whole in self.whole.items():  # a decision that is gone in part cannot be undone
            now = (replace(one, final=one.final or one.group in groups) for one in whole.revisions)
            self.whole[id] = replace(whole, revisions=tuple(now))
        self.counts["version"] += 1


class DictStore(MemoryStore, EmbeddingSpaces):
    """Keep memories in memory; no verb waits for another, so each is one transaction."""

    def __init__(self) -> None:
        self.spaces, self.is_closed = self, False
        self._scopes: dict[bytes, Kept] = {}
        self._spaces: dict[tuple[str, int], EmbeddingSpace] = {}

    async def close(self) -> None:
        self.is_closed = True

    async def all(self) -> Sequence[EmbeddingSpace]:
        if self.is_closed:
            raise StoreError("The store is closed; open it again.")
        return list(self._spaces.values())

    async def add(self, name: str, dimensions: int, probe: Any) -> EmbeddingSpace:
        await self.all()
        number = len(self._spaces) + 1
        space = EmbeddingSpace(number=number, name=name, dimensions=dimensions, probe=probe)
        return self._spaces.setdefault((name, dimensions), space)

    async def _kept(self, scope: Scope) -> Kept:
        await self.all()
        return self._scopes.setdefault(scope.id, Kept(scope))

    async def apply(self, scope: Scope, batch: Batch, *, now: datetime) -> Applied:
        kept = await self._kept(scope)
        space = batch.space_number
        batch = checked(batch, None if space is None else await self.dimensions_of(space))
        events = {pair for pair in batch.taken if pair[1] != SESSION_END}
        if batch.expected_version not in (None, kept.counts["version"]) or events & kept.taken:
            raise Conflict("The scope was written to meanwhile; read it again and retry.")
        stored = {one.id: one for one in kept.memories}
        places = sorted((one.session_id or "", one.position or 0) for one in kept.memories)
        plan = Plan(batch, stored, stones=kept.tombstones, salt=kept.salt, now=now,
            positions={session_id: place + 1 for session_id, place in places})  # fmt: skip
        # from here on nothing can fail
        kept.vectors = {id: row for id, row in kept.vectors.items() if id not in plan.reworded}
        for id, memory in plan.standing.items():  # as a copy in UTC
            former = kept.whole.get(id, Whole(memory))
            copy = codec.from_snapshot(codec.to_snapshot(memory))
            revisions = (*former.revisions, *(one for one in plan.revisions if one.memory_id == id))
            kept.whole[id] = Whole(replace(copy, usage=former.memory.usage), revisions)
        for id, vector in plan.vectors.items():
            kept.vectors.setdefault(id, {})[batch.space_number or 0] = vector
        kept.taken -= {(session_id, SESSION_END) for session_id, _ in events}
        kept.taken |= {*batch.taken}
        moved = bool(batch.changes or batch.taken or batch.reinforced)
        kept.counts.update(calls=batch.calls, tokens=batch.tokens, version=moved)
        return plan.ids

    async def forget(self, scope: Scope, which: Erasure) -> tuple[str, ...]:
        kept, session, every = await self._kept(scope), which.session_id, which.everything
        ids = [one.id for one in kept.memories if session and one.session_id == session]
        gone = decisions.lineage_of(kept.whole, kept.whole if every else [*ids, *which.ids])
        if not which.dry_run:
            stones = (decisions.tombstones_of(kept.whole[id], kept.salt) for id in gone)
            kept.tombstones.update({("event", event) for event in which.event_ids}, *stones)
            kept.erase(sorted(gone))
        return tuple(sorted(gone))

    async def count(self, deliveries: Sequence[Delivery]) -> None:
        for one in deliveries:
            kept = await self._kept(one.scope)
            kept.put(replace(memory, usage=one.added_to(memory)) for memory in kept.memories)

    async def prune(self, *, now: datetime, popular_after: int, dry_run: bool = False) -> Pruned:
        await self.all()
        pruned = Pruned()
        for kept in self._scopes.values():
            due = [one for one in kept.memories if not is_visible(one, now, superseded=True)]
            doomed = [one.id for one in due if one.usage.delivered < popular_after]
            popular = [codec.renewed(one, now) for one in due if one.id not in doomed]
            gone = tuple(Gone(kept.scope, id, "expired") for id in doomed)
            pruned += Pruned(deleted=len(doomed), extended=len(popular), gone=gone)
            if due and not dry_run:
                kept.put(replace(one, usage=replace(one.usage, delivered=0)) for one in popular)
                kept.erase(doomed)
        return pruned

    async def whole(self, scope: Scope, ids: Sequence[str] | None = None) -> Sequence[Whole]:
        found = (await self._kept(scope)).whole
        return [found[id] for id in sorted(found if ids is None else {*ids} & {*found})]

    async def vectors(
        self, scope: Scope, space_number: int, ids: Sequence[str]
    ) -> dict[str, np.ndarray]:
        await self.dimensions_of(space_number)
        rows = (await self._kept(scope)).vectors
        return {id: rows[id][space_number] for id in ids if space_number in rows.get(id, {})}

    async def taken(
        self, scope: Scope, session_id: str, event_ids: Sequence[str]
    ) -> frozenset[str]:
        kept = await self._kept(scope)
        held = {key for kind, key in kept.tombstones if kind == "event"}
        return frozenset(e for e in event_ids if e in held or (session_id, e) in kept.taken)

    async def stats(self, scope: Scope, *, now: datetime, popular_after: int = 10) -> ScopeStats:
        kept = await self._kept(scope)
        counted = decisions.stats_of(kept.memories, now=now, popular_after=popular_after)
        return replace(counted, **kept.counts)

    async def scopes(self, **which: Any) -> Sequence[Scope]:
        await self.all()
        held = [one.scope for one in self._scopes.values() if one.whole]
        return decisions.in_order(held, **which)


class DictAdapter(Adapter):
    """Open stores of the scheme `dict`, with a queue that is in memory too."""

    @classmethod
    async def open(cls, uri: str, **options: Any) -> DictStore:
        return DictStore()

    @classmethod
    def companion(cls, uri: str) -> str:
        return "libsql:///:memory:"


async def main() -> None:
    now, scope = datetime.now(UTC), Scope("", "ada", "desk")
    memory = Memory(id=new_id(), content="The key is here.", created_at=now, updated_at=now)
    async with await open_with(DictAdapter, "dict://") as store:
        await store.apply(scope, Batch(changes=[Change(kind="add", memory=memory)]), now=now)
        erased = await store.forget(scope, Erasure(ids=[memory.id], now=now))
        print(f"{now:%Y-%m-%d} erased {len(erased)} of {scope.app}")


if __name__ == "__main__":
    asyncio.run(main())
