"""Implement a store of your own, here in a dict. See docs/how-to/testing.md.

The store keeps every promise of `MemoryStore` and passes the contract suite
(tests/stores/test_custom_store.py). A companion in SQLite holds the queue, tokens and receipts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from kagent_memory import Memory, Scope
from kagent_memory.errors import Conflict, InvalidInput, StoreError
from kagent_memory.records import Change, Usage, new_id
from kagent_memory.stores import Adapter, EmbeddingSpaces, MemoryStore, open_with
from kagent_memory.stores.base import EmbeddingSpace, stats_of
from kagent_memory.stores.codec import forgotten_key, from_snapshot, known, renewed, to_snapshot
from kagent_memory.stores.filter_match import is_visible
from kagent_memory.stores.planning import Plan, Texts, checked, identity_of
from kagent_memory.stores.values import (
    EARLIEST,
    SESSION_END,
    Applied,
    Batch,
    Delivery,
    Gone,
    Pruned,
    ScopeStats,
    Whole,
    every_state,
    in_order,
)  # fmt: skip


@dataclass
class Kept:
    """The contents of one scope."""

    scope: Scope
    version: int = 0
    salt: bytes = field(default_factory=lambda: os.urandom(16))
    costs: dict[str, int] = field(default_factory=lambda: {"calls": 0, "tokens": 0})
    whole: dict[str, Whole] = field(default_factory=dict)
    vectors: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)
    taken: set[tuple[str, str]] = field(default_factory=set)
    tombstones: set[tuple[str, str]] = field(default_factory=set)

    @property
    def memories(self) -> list[Memory]:
        return [one.memory for one in self.whole.values()]

    def put(self, memory: Memory) -> None:
        former = self.whole.get(memory.id)
        self.whole[memory.id] = Whole(memory, former.revisions if former else ())

    def erase(self, ids: Iterable[str]) -> None:
        gone = [self.whole.pop(id) for id in ids]
        groups = {one.group for whole in gone for one in whole.revisions} - {None}
        for vectors in self.vectors.values():
            for whole in gone:
                vectors.pop(whole.memory.id, None)
        for id, whole in self.whole.items():
            now = (replace(one, final=one.final or one.group in groups) for one in whole.revisions)
            self.whole[id] = replace(whole, revisions=tuple(now))
        self.version += 1

    def kin(self, ids: set[str]) -> set[str]:
        """Return the ids of what was merged into these, was made of them, or said the same."""
        revisions = [one for whole in self.whole.values() for one in whole.revisions]
        merges = {one.group for one in revisions if one.kind == "merge"}
        merged = {one.memory_id for one in revisions if one.group in merges}
        said = {identity_of(self.whole[id].memory) for id in ids}
        past = [one for one in self.memories if one.state != "active"]
        found = {one.id for one in past if one.superseded_by in ids or identity_of(one) in said}
        made = {one.superseded_by for one in past if one.id in ids & merged}
        return found | made & {*self.whole}


class DictSpaces(EmbeddingSpaces):
    """Keep embedding spaces in a list."""

    def __init__(self, kept: dict[bytes, Kept]) -> None:
        self._kept, self._known, self._widths = kept, list[EmbeddingSpace](), dict[str, set[int]]()
        self.is_closed = False

    async def all(self) -> Sequence[EmbeddingSpace]:
        if self.is_closed:
            raise StoreError("The store is closed; open it again.")
        return list(self._known)

    async def add(self, name: str, dimensions: int, probe: np.ndarray | None) -> EmbeddingSpace:
        for space in await self.all():
            if (space.name, space.dimensions) == (name, dimensions):
                return space
        number = len(self._known) + 1
        self._known.append(
            EmbeddingSpace(number=number, name=name, dimensions=dimensions, probe=probe)
        )
        return self._known[-1]

    async def note_width(self, tenant: str, dimensions: int, *, most: int) -> Sequence[int]:
        await self.all()
        widths = self._widths.setdefault(tenant, set())
        if len(widths) < most:
            widths.add(dimensions)
        return sorted(widths)

    def release_widths(self) -> None:
        for tenant, widths in self._widths.items():
            kept = [one.vectors for one in self._kept.values() if one.scope.tenant == tenant]
            rows = [row for spaces in kept for some in spaces.values() for row in some.values()]
            widths &= {len(row) for row in rows}


class DictStore(MemoryStore):
    """Keep memories in a dict until the process ends."""

    def __init__(self) -> None:
        self._scopes: dict[bytes, Kept] = {}
        self.spaces = self._spaces = DictSpaces(self._scopes)

    async def close(self) -> None:
        self._spaces.is_closed = True

    async def _kept(self, scope: Scope) -> Kept:
        await self.spaces.all()
        return self._scopes.get(scope.id) or Kept(scope)

    async def _width(self, number: int | None) -> int | None:
        found = [one for one in await self.spaces.all() if one.number == number]
        if number is not None and not found:
            raise InvalidInput(f"There is no embedding space {number} here.")
        return found[0].dimensions if found else None

    # -- writing: nothing here waits for others, so every call is one transaction

    async def apply(self, scope: Scope, batch: Batch, *, now: datetime) -> Applied:
        kept = await self._kept(scope)
        if batch.vectors and batch.space_number is None:
            raise InvalidInput("Vectors need the number of their embedding space.")
        batch = checked(batch, await self._width(batch.space_number))
        events = {pair for pair in batch.taken if pair[1] != SESSION_END}
        if batch.expected_version not in (None, kept.version) or events & kept.taken:
            raise Conflict("The scope was written to meanwhile; read it again and retry.")
        stored = {one.id: one for one in kept.memories}
        plan = Plan.of(
            batch, stored, stones=kept.tombstones, salt=kept.salt, texts=Texts(), now=now
        )
        self._scopes[scope.id] = kept  # from here on nothing can fail
        for id in plan.reworded:
            for vectors in kept.vectors.values():
                vectors.pop(id, None)
        for id, memory in plan.standing.items():
            kept.put(
                replace(as_stored(memory), usage=stored[id].usage if id in stored else Usage())
            )
        for revision in plan.revisions:
            whole = kept.whole[revision.memory_id]
            kept.whole[revision.memory_id] = replace(whole, revisions=(*whole.revisions, revision))
        kept.vectors.setdefault(batch.space_number or 0, {}).update(plan.vectors)
        kept.taken -= {(session_id, SESSION_END) for session_id, _ in events}
        kept.taken |= {*batch.taken}
        kept.costs["calls"] += batch.calls
        kept.costs["tokens"] += batch.tokens
        kept.version += bool(batch.changes or batch.taken or batch.reinforced)
        return Applied(ids=plan.ids, version=kept.version)

    async def forget(
        self, scope: Scope, *, ids: Sequence[str] = (), session_id: str | None = None,
        everything: bool = False, event_ids: Sequence[str] = (), dry_run: bool = False,
        who: str | None = None, now: datetime,
    ) -> tuple[str, ...]:  # fmt: skip
        kept = await self._kept(scope)
        chosen = {
            one.id for one in kept.memories
            if everything or one.id in ids or (session_id and one.session_id == session_id)
        }  # fmt: skip
        while fresh := kept.kin(chosen) - chosen:
            chosen |= fresh
        if not dry_run:
            self._scopes[scope.id] = kept
            kept.tombstones |= {("event", event) for event in event_ids}
            for whole in (kept.whole[id] for id in chosen):
                states = every_state(whole.memory, whole.revisions)
                for one in (*states, *whole.revisions):
                    kept.tombstones |= {("event", event) for event in one.event_ids}
                for one in states:
                    key = forgotten_key(kept.salt, one.session_id, one.content)
                    kept.tombstones.add(("text", key))
            kept.erase(chosen)
        return tuple(sorted(chosen))

    async def evict(
        self, scope: Scope, ids: Sequence[str], *, keep: int, now: datetime
    ) -> tuple[str, ...]:
        kept = await self._kept(scope)
        visible = {one.id: one for one in kept.memories if is_visible(one, now)}
        loose = [id for id in known(ids) if id in visible and not visible[id].pinned]
        gone = tuple(loose[: max(0, len(visible) - keep)])
        kept.erase(gone)
        return gone

    async def count(self, deliveries: Sequence[Delivery]) -> None:
        for one in deliveries:
            kept = await self._kept(one.scope)
            for id in {id for counts in one.counts.values() for id in counts} & {*kept.whole}:
                memory, times = kept.whole[id].memory, one.delivered.get(id, 0)
                old = memory.usage
                new: dict[str, Any] = {
                    name: getattr(old, name) + counts.get(id, 0)
                    for name, counts in one.counts.items()
                }
                if times:
                    new["delivered_total"] = old.delivered_total + times
                    new["last_delivered_at"] = max(old.last_delivered_at or one.at, one.at)
                kept.put(replace(memory, usage=replace(old, **new)))

    async def prune(self, *, now: datetime, popular_after: int, dry_run: bool = False) -> Pruned:
        await self.spaces.all()
        pruned = Pruned()
        for kept in self._scopes.values():
            expired = [one for one in kept.memories if not is_visible(one, now, superseded=True)]
            popular = [one for one in expired if one.usage.delivered >= popular_after]
            unused = [one.id for one in expired if one.usage.delivered < popular_after]
            gone = tuple(Gone(kept.scope, id, "expired") for id in unused)
            pruned += Pruned(deleted=len(unused), extended=len(popular), gone=gone)
            if expired and not dry_run:
                for one in popular:
                    usage = replace(one.usage, delivered=0)
                    kept.put(replace(renewed(one, now), usage=usage))
                kept.erase(unused)
        if not dry_run:
            self._spaces.release_widths()
        return pruned

    # -- reading

    async def whole(self, scope: Scope, ids: Sequence[str] | None = None) -> Sequence[Whole]:
        found = (await self._kept(scope)).whole
        return [found[id] for id in sorted(found if ids is None else {*ids} & {*found})]

    async def vectors(
        self, scope: Scope, space_number: int, ids: Sequence[str]
    ) -> dict[str, np.ndarray]:
        await self._width(space_number)
        rows = (await self._kept(scope)).vectors.get(space_number, {})
        return {id: rows[id] for id in ids if id in rows}

    async def taken(
        self, scope: Scope, session_id: str, event_ids: Sequence[str]
    ) -> frozenset[str]:
        kept = await self._kept(scope)
        held = {event for session, event in kept.taken if session == session_id}
        held |= {event for kind, event in kept.tombstones if kind == "event"}
        return held & frozenset(event_ids)

    async def stats(self, scope: Scope, *, now: datetime, popular_after: int = 10) -> ScopeStats:
        kept = await self._kept(scope)
        counted = stats_of(kept.memories, now=now, popular_after=popular_after)
        return replace(counted, **kept.costs, version=kept.version)

    async def scopes(self, **which: Any) -> Sequence[Scope]:
        await self.spaces.all()
        return in_order((kept.scope for kept in self._scopes.values() if kept.whole), **which)


def as_stored(memory: Memory) -> Memory:
    """Return a copy that shares nothing with the original: plain JSON metadata, times in UTC."""
    copy = from_snapshot(to_snapshot(memory))
    times = {name: at for name in copy.__slots__ if isinstance(at := getattr(copy, name), datetime)}
    return replace(copy, **{name: at.astimezone(UTC) for name, at in times.items()})


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
    async with await open_with(DictAdapter, "dict://") as store:
        text = "The spare key is with Grace."
        memory = Memory(id=new_id(), content=text, created_at=now, updated_at=now)
        await store.apply(scope, Batch(changes=[Change(kind="add", memory=memory)]), now=now)
        found = await store.memories.view(scope, now=now).text(["key"], limit=5)
        hits = await store.memories.get(scope, list(found.matches), now=now)
        print([one.content for one in hits.values()])
        erased = await store.forget(scope, ids=[memory.id], now=now)
        left = (await store.memories.list(scope, now=EARLIEST)).memories
        print(f"{now:%Y-%m-%d} erased {len(erased)} of {scope.app}; {len(left)} left")


if __name__ == "__main__":
    asyncio.run(main())
