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
from kagent_memory.stores import Adapter, EmbeddingSpaces, MemoryStore, codec, open_with
from kagent_memory.stores.decisions import in_order, is_visible, tombstones_of
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
from kagent_memory.testing.derived import counted, lineage_of, stats_of


@dataclass
class ScopeData:
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
        return [whole.memory for whole in self.whole.values()]

    def put(self, memories: Iterable[Memory]) -> None:
        self.whole |= {row.id: replace(self.whole[row.id], memory=row) for row in memories}

    def erase(self, ids: Sequence[str]) -> None:
        groups = {row.group for id in ids for row in self.whole.pop(id).revisions} - {None}
        self.vectors = {id: rows for id, rows in self.vectors.items() if id in self.whole}
        for id, whole in self.whole.items():  # a decision that is erased in part cannot be undone
            rows = (replace(row, final=row.final or row.group in groups) for row in whole.revisions)
            self.whole[id] = replace(whole, revisions=tuple(rows))
        self.counts["version"] += 1


class DictStore(MemoryStore, EmbeddingSpaces):
    """Keep memories in memory; no verb waits for another, so each is one transaction."""

    def __init__(self) -> None:
        self.spaces, self.is_closed = self, False
        self._scopes: dict[bytes, ScopeData] = {}
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

    async def _data(self, scope: Scope) -> ScopeData:
        await self.all()
        return self._scopes.setdefault(scope.id, ScopeData(scope))

    async def apply(self, scope: Scope, batch: Batch, *, now: datetime) -> Applied:
        data = await self._data(scope)
        space = batch.space_number
        batch = checked(batch, None if space is None else await self.dimensions_of(space))
        events = {pair for pair in batch.taken if pair[1] != SESSION_END}
        if batch.expected_version not in (None, data.counts["version"]) or events & data.taken:
            raise Conflict("The scope was written to meanwhile; read it again and retry.")
        stored = {memory.id: memory for memory in data.memories}
        positions = sorted((row.session_id or "", row.position or 0) for row in data.memories)
        plan = Plan(batch, stored, stones=data.tombstones, salt=data.salt, now=now,
            positions={session_id: position + 1 for session_id, position in positions})  # fmt: skip
        # from here on nothing can fail
        data.vectors = {id: row for id, row in data.vectors.items() if id not in plan.reworded}
        for id, memory in plan.standing.items():  # as a copy in UTC
            former = data.whole.get(id, Whole(memory))
            copy = codec.from_snapshot(codec.to_snapshot(memory))
            revisions = (*former.revisions, *(row for row in plan.revisions if row.memory_id == id))
            data.whole[id] = Whole(replace(copy, usage=former.memory.usage), revisions)
        for id, vector in plan.vectors.items():
            data.vectors.setdefault(id, {})[batch.space_number or 0] = vector
        data.taken -= {(session_id, SESSION_END) for session_id, _ in events}
        data.taken |= {*batch.taken}
        is_change = bool(batch.changes or batch.taken or batch.reinforced)
        data.counts.update(calls=batch.calls, tokens=batch.tokens, version=is_change)
        return plan.ids

    async def forget(self, scope: Scope, erasure: Erasure) -> tuple[str, ...]:
        data, session = await self._data(scope), erasure.session_id
        ids = [memory.id for memory in data.memories if session and memory.session_id == session]
        roots = data.whole if erasure.everything else [*ids, *erasure.ids]
        erased = lineage_of(data.whole, roots)
        if not erasure.dry_run:
            stones = (tombstones_of(data.whole[id], data.salt) for id in erased)
            data.tombstones.update({("event", event) for event in erasure.event_ids}, *stones)
            data.erase(sorted(erased))
        return tuple(sorted(erased))

    async def count(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            data = await self._data(delivery.scope)
            data.put(counted(memory, delivery) for memory in data.memories)

    async def prune(self, *, now: datetime, popular_after: int, dry_run: bool = False) -> Pruned:
        await self.all()
        pruned = Pruned()
        for data in self._scopes.values():
            due = [row for row in data.memories if not is_visible(row, now, superseded=True)]
            unused = [row.id for row in due if row.usage.delivered < popular_after]
            popular = [codec.renewed(row, now) for row in due if row.id not in unused]
            gone = tuple(Gone(data.scope, id, "expired") for id in unused)
            pruned += Pruned(deleted=len(unused), extended=len(popular), gone=gone)
            if due and not dry_run:
                data.put(replace(row, usage=replace(row.usage, delivered=0)) for row in popular)
                data.erase(unused)
        return pruned

    async def whole(self, scope: Scope, ids: Sequence[str] | None = None) -> Sequence[Whole]:
        whole = (await self._data(scope)).whole
        return [whole[id] for id in sorted(whole if ids is None else {*ids} & {*whole})]

    async def vectors(
        self, scope: Scope, space_number: int, ids: Sequence[str]
    ) -> dict[str, np.ndarray]:
        await self.dimensions_of(space_number)
        rows = (await self._data(scope)).vectors
        return {id: rows[id][space_number] for id in ids if space_number in rows.get(id, {})}

    async def taken(
        self, scope: Scope, session_id: str, event_ids: Sequence[str]
    ) -> frozenset[str]:
        data = await self._data(scope)
        blocked = {key for kind, key in data.tombstones if kind == "event"}
        return frozenset(id for id in event_ids if id in blocked or (session_id, id) in data.taken)

    async def stats(self, scope: Scope, *, now: datetime, popular_after: int = 10) -> ScopeStats:
        data = await self._data(scope)
        return replace(stats_of(data.memories, now=now, popular_after=popular_after), **data.counts)

    async def scopes(self, **query: Any) -> Sequence[Scope]:
        await self.all()
        scopes = [data.scope for data in self._scopes.values() if data.whole]
        return in_order(scopes, **query)


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
