"""Implement a store of your own, here in a dict. See docs/how-to/testing.md.

The store keeps every promise of `MemoryStore` and passes the contract suite
(tests/stores/test_custom_store.py). A companion in SQLite holds the queue, tokens and receipts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from kagent_memory import Filter, Memory, Scope
from kagent_memory.errors import Conflict, InvalidInput, StoreError
from kagent_memory.records import Change, Revision, Usage, new_id
from kagent_memory.stores import Adapter, EmbeddingSpaces, open_with
from kagent_memory.stores.base import (
    EARLIEST,
    SESSION_END,
    Applied,
    Batch,
    Delivery,
    EmbeddingSpace,
    MemoryStore,
    Order,
    Page,
    Pruned,
    ScopeStats,
    external_name,
)
from kagent_memory.stores.codec import (
    bounded,
    expiry,
    forgotten_key,
    from_cursor,
    from_snapshot,
    is_id,
    known,
    to_cursor,
    to_snapshot,
)
from kagent_memory.stores.filter_match import is_searched, is_visible, matches_filter
from kagent_memory.stores.planning import Plan, Texts, checked, held_back, identity_of
from kagent_memory.stores.values import Gone


@dataclass
class Kept:
    """The contents of one scope."""

    scope: Scope
    version: int = 0
    salt: bytes = field(default_factory=lambda: os.urandom(16))
    calls: int = 0
    tokens: int = 0
    memories: dict[str, Memory] = field(default_factory=dict)
    revisions: dict[str, list[Revision]] = field(default_factory=dict)
    vectors: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)
    taken: set[tuple[str, str]] = field(default_factory=set)
    tombstones: set[tuple[str, str]] = field(default_factory=set)

    def visible(self, now: datetime, filter: Filter = Filter()) -> list[Memory]:
        return [
            memory
            for memory in self.memories.values()
            if is_visible(memory, now, filter.superseded)
        ]

    def erase(self, ids: Sequence[str]) -> None:
        groups = {
            revision.group
            for id in ids
            for revision in self.revisions.get(id, ())
            if revision.group
        }
        for id in ids:
            del self.memories[id]
            self.revisions.pop(id, None)
            for vectors in self.vectors.values():
                vectors.pop(id, None)
        for revisions in self.revisions.values():
            revisions[:] = [
                replace(one, final=one.final or one.group in groups) for one in revisions
            ]


def as_stored(memory: Memory) -> Memory:
    """Return a copy that shares nothing with the original: plain JSON metadata, times in UTC."""
    copy = from_snapshot(to_snapshot(memory))
    times = {name: at for name in copy.__slots__ if isinstance(at := getattr(copy, name), datetime)}
    return replace(copy, **{name: at.astimezone(UTC) for name, at in times.items()})


class DictSpaces(EmbeddingSpaces):
    """Keep embedding spaces in a list."""

    def __init__(self) -> None:
        self.known: list[EmbeddingSpace] = []
        self.widths: dict[str, list[int]] = {}
        self.is_closed = False

    async def all(self) -> Sequence[EmbeddingSpace]:
        if self.is_closed:
            raise StoreError("The store is closed; open it again.")
        return list(self.known)

    async def add(self, name: str, dimensions: int, probe: np.ndarray | None) -> EmbeddingSpace:
        for space in await self.all():
            if (space.name, space.dimensions) == (name, dimensions):
                return space
        number = len(self.known) + 1
        made = EmbeddingSpace(number=number, name=name, dimensions=dimensions, probe=probe)
        self.known.append(made)
        return made

    async def note_width(self, tenant: str, dimensions: int, *, most: int) -> Sequence[int]:
        await self.all()
        widths = self.widths.setdefault(tenant, [])
        if dimensions not in widths and len(widths) < most:
            widths.append(dimensions)
        return sorted(widths)


class DictStore(MemoryStore):
    """Keep memories in a dict until the process ends."""

    def __init__(self) -> None:
        self._scopes: dict[bytes, Kept] | None = {}
        self.spaces = self._spaces = DictSpaces()

    async def close(self) -> None:
        self._scopes, self._spaces.is_closed = None, True

    def _all(self) -> dict[bytes, Kept]:
        if self._scopes is None:
            raise StoreError("The store is closed; open it again.")
        return self._scopes

    def _kept(self, scope: Scope) -> Kept:
        return self._all().get(scope.id) or Kept(scope)

    def _space(self, number: int) -> EmbeddingSpace:
        self._all()
        for space in self._spaces.known:
            if space.number == number:
                return space
        raise InvalidInput(f"There is no embedding space {number} here.")

    # -- writing: nothing here waits, so every call is one transaction

    async def apply(self, scope: Scope, batch: Batch, *, now: datetime) -> Applied:  # noqa: C901 one straight road
        kept = self._kept(scope)
        if batch.vectors and batch.space_number is None:
            raise InvalidInput("Vectors need the number of their embedding space.")
        batch = checked(
            batch,
            None if batch.space_number is None else self._space(batch.space_number).dimensions,
        )
        if batch.expected_version not in (None, kept.version):
            raise Conflict(
                f"The scope moved on from version {batch.expected_version}; read it again and "
                "retry."
            )
        if any(pair[1] != SESSION_END and pair in kept.taken for pair in batch.taken):
            raise Conflict(
                "An event of this batch was taken in before; read which ones and retry without "
                "them."
            )
        held = held_back(batch.changes, kept.memories, frozenset(kept.tombstones), kept.salt)
        live = [change for change in batch.changes if change.memory.id not in held]
        stays = {change.memory.id: change.memory.state == "active" for change in live}
        positions: dict[str, int] = {}
        for memory in kept.memories.values():
            if memory.session_id is not None and memory.position is not None:
                positions[memory.session_id] = max(
                    positions.get(memory.session_id, 0), memory.position + 1
                )
        plan = Plan(
            stored=kept.memories,
            equal={
                identity_of(memory): memory.id
                for memory in kept.memories.values()
                if memory.state == "active" and stays.get(memory.id, True)
            },
            waiting={
                identity_of(memory): memory.id
                for memory in kept.memories.values()
                if memory.state == "quarantined"
            },
            positions=positions,
            now=now,
            texts=Texts(),
        )
        for change in live:
            plan.take(change)
        for id in batch.reinforced:
            plan.renew(id)
        plan.close()
        # from here on nothing can fail
        self._all()[scope.id] = kept
        for id, memory in plan.standing.items():
            former = kept.memories.get(id)
            if former is not None and (former.content, former.author) != (
                memory.content,
                memory.author,
            ):
                for vectors in kept.vectors.values():
                    vectors.pop(id, None)
            usage = former.usage if former else Usage()
            kept.memories[id] = replace(as_stored(memory), usage=usage)
        for revision in plan.revisions:
            kept.revisions.setdefault(revision.memory_id, []).append(revision)
        for id, row in batch.vectors.items():
            holder = plan.given.get(id, id)
            if id not in held and holder in kept.memories:
                kept.vectors.setdefault(batch.space_number or 0, {})[holder] = row
        going_on = {session_id for session_id, event_id in batch.taken if event_id != SESSION_END}
        kept.taken -= {(session_id, SESSION_END) for session_id in going_on}
        kept.taken |= set(batch.taken)
        kept.calls, kept.tokens = kept.calls + batch.calls, kept.tokens + batch.tokens
        kept.version += bool(batch.changes or batch.taken or batch.reinforced)
        ids = (
            None if change.memory.id in held else plan.given[change.memory.id]
            for change in batch.changes
        )
        return Applied(ids=tuple(ids), version=kept.version)

    async def forget(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] = (),
        session_id: str | None = None,
        everything: bool = False,
        event_ids: Sequence[str] = (),
        dry_run: bool = False,
        who: str | None = None,
        now: datetime,
    ) -> tuple[str, ...]:
        kept = self._kept(scope)
        chosen = dict.fromkeys(id for id in known(ids) if id in kept.memories)
        for memory in kept.memories.values():
            if everything or (session_id is not None and memory.session_id == session_id):
                chosen[memory.id] = None
        fresh = set(chosen)
        while fresh:
            fresh = self._lineage(kept, fresh) - set(chosen)
            chosen.update(dict.fromkeys(sorted(fresh)))
        if dry_run:
            return tuple(chosen)
        self._all()[scope.id] = kept
        kept.version += 1
        kept.tombstones |= {("event", event) for event in event_ids}
        for id in chosen:
            revisions = kept.revisions.get(id, [])
            states = [
                kept.memories[id],
                *(revision.before for revision in revisions if revision.before),
            ]
            kept.tombstones |= {
                ("event", event) for one in (*states, *revisions) for event in one.event_ids
            }
            kept.tombstones |= {
                ("text", forgotten_key(kept.salt, one.session_id, one.content)) for one in states
            }
        kept.erase(list(chosen))
        return tuple(chosen)

    def _lineage(self, kept: Kept, ids: set[str]) -> set[str]:
        """Return the ids of these memories' predecessors, of merges made of them, and of equals in
        the history.
        """
        merges = {
            one.group
            for revisions in kept.revisions.values()
            for one in revisions
            if one.kind == "merge" and one.group
        }
        said = {identity_of(kept.memories[id]) for id in ids}
        near: set[str] = set()
        for memory in kept.memories.values():
            past = memory.state != "active" and identity_of(memory) in said
            if memory.superseded_by in ids or past:
                near.add(memory.id)
            changes = kept.revisions.get(memory.id, ())
            was_merged = any(one.kind == "merge" or one.group in merges for one in changes)
            if memory.id in ids and was_merged and memory.superseded_by in kept.memories:
                near.add(memory.superseded_by)
        return near

    async def evict(
        self, scope: Scope, ids: Sequence[str], *, keep: int, now: datetime
    ) -> tuple[str, ...]:
        kept = self._kept(scope)
        visible = {memory.id: memory for memory in kept.visible(now)}
        loose = [id for id in known(ids) if id in visible and not visible[id].pinned]
        gone = loose[: max(0, len(visible) - keep)]
        kept.erase(gone)
        kept.version += 1
        return tuple(gone)

    async def count(self, deliveries: Sequence[Delivery]) -> None:
        for one in deliveries:
            kept = self._kept(one.scope)
            for id in {*one.retrieved, *one.delivered, *one.successes, *one.failures} & set(
                kept.memories
            ):
                memory, times = kept.memories[id], one.delivered.get(id, 0)
                usage = memory.usage
                kept.memories[id] = replace(
                    memory,
                    usage=replace(
                        usage,
                        retrieved=usage.retrieved + one.retrieved.get(id, 0),
                        delivered=usage.delivered + times,
                        delivered_total=usage.delivered_total + times,
                        last_delivered_at=max(usage.last_delivered_at or one.at, one.at)
                        if times
                        else usage.last_delivered_at,
                        successes=usage.successes + one.successes.get(id, 0),
                        failures=usage.failures + one.failures.get(id, 0),
                    ),
                )

    async def prune(self, *, now: datetime, popular_after: int, dry_run: bool = False) -> Pruned:
        pruned = Pruned()
        for kept in self._all().values():
            expired = [
                memory
                for memory in kept.memories.values()
                if not memory.pinned and memory.expires_at is not None and memory.expires_at <= now
            ]
            popular = [memory for memory in expired if memory.usage.delivered >= popular_after]
            unused = [memory.id for memory in expired if memory.usage.delivered < popular_after]
            gone = tuple(Gone(kept.scope, id, "expired") for id in unused)
            pruned += Pruned(deleted=len(unused), extended=len(popular), gone=gone)
            if dry_run or not expired:
                continue
            for memory in popular:
                usage = replace(memory.usage, delivered=0)
                kept.memories[memory.id] = replace(
                    memory, expires_at=expiry(memory.ttl_days, now), usage=usage
                )
            kept.erase(unused)
            kept.version += 1
        if not dry_run:
            for tenant, widths in self._spaces.widths.items():
                widths[:] = [width for width in widths if self._holds(tenant, width)]
        return pruned

    def _holds(self, tenant: str, width: int) -> bool:
        numbers = [
            space.number for space in self._spaces.known if space.name == external_name(width)
        ]
        mine = [kept for kept in self._all().values() if kept.scope.tenant == tenant]
        return not numbers or any(kept.vectors.get(number) for kept in mine for number in numbers)

    # -- reading

    async def get(
        self, scope: Scope, ids: Sequence[str], *, now: datetime, superseded: bool = False
    ) -> Mapping[str, Memory]:
        memories = self._kept(scope).memories
        wanted = [id for id in known(ids) if id in memories]
        return {id: memories[id] for id in wanted if is_searched(memories[id], now, superseded)}

    async def list(  # noqa: C901 an order each
        self,
        scope: Scope,
        *,
        filter: Filter = Filter(),
        order: Order = "newest",
        limit: int = 50,
        cursor: str | None = None,
        now: datetime,
    ) -> Page:
        def key(memory: Memory) -> float:
            match order:
                case "newest":
                    return -memory.created_at.timestamp()
                case "oldest":
                    return memory.created_at.timestamp()
                case "delivered":
                    return -memory.usage.delivered
                case "importance":
                    return -memory.importance
                case "expires":
                    ends = None if memory.pinned else memory.expires_at
                    return float("inf") if ends is None else ends.timestamp()

        upwards = order in ("oldest", "expires")
        rows = [
            one for one in self._kept(scope).visible(now, filter) if matches_filter(filter, one)
        ]
        rows.sort(key=lambda memory: memory.id, reverse=not upwards)
        rows.sort(key=key)
        if cursor is not None:
            match from_cursor(cursor, order):
                case [int() | float() as last, str() as id] if is_id(id):
                    rows = [
                        memory
                        for memory in rows
                        if key(memory) > last
                        or (key(memory) == last and (memory.id > id if upwards else memory.id < id))
                    ]
                case _:
                    raise InvalidInput("This is no cursor of a former page; start without one.")
        some = rows[: bounded(limit)]
        more = (
            to_cursor(order, key(some[-1]), some[-1].id) if some and len(rows) > len(some) else None
        )
        return Page(memories=tuple(some), cursor=more)

    async def vectors(
        self, scope: Scope, space_number: int, ids: Sequence[str]
    ) -> Mapping[str, np.ndarray]:
        self._space(space_number)
        rows = self._kept(scope).vectors.get(space_number, {})
        return {id: rows[id] for id in ids if id in rows}

    async def taken(
        self, scope: Scope, session_id: str, event_ids: Sequence[str]
    ) -> frozenset[str]:
        kept = self._kept(scope)
        return frozenset(
            event
            for event in event_ids
            if (session_id, event) in kept.taken or ("event", event) in kept.tombstones
        )

    async def history(self, scope: Scope, memory_id: str) -> Sequence[Revision]:
        return list(self._kept(scope).revisions.get(memory_id, ()))

    async def stats(self, scope: Scope, *, now: datetime, popular_after: int = 10) -> ScopeStats:
        kept = self._kept(scope)
        expired = [
            one
            for one in kept.memories.values()
            if not one.pinned and one.expires_at and one.expires_at <= now
        ]
        visible = kept.visible(now)
        active = [memory for memory in kept.memories.values() if memory.state == "active"]
        return ScopeStats(
            visible=len(visible),
            by_type={
                kind: sum(one.type == kind for one in visible)
                for kind in sorted({one.type for one in visible})
            },
            expired=len(active) - len(visible),
            unused=sum(memory.usage.delivered < popular_after for memory in expired),
            superseded=sum(memory.state == "superseded" for memory in kept.memories.values()),
            quarantined=sum(
                is_visible(memory, now, "quarantined") for memory in kept.memories.values()
            ),
            short_term=sum(
                is_visible(memory, now, "short_term") for memory in kept.memories.values()
            ),
            pinned=sum(memory.pinned for memory in active),
            delivered_total=sum(memory.usage.delivered_total for memory in visible),
            calls=kept.calls,
            tokens=kept.tokens,
            version=kept.version,
        )

    # -- across scopes

    async def scopes(
        self,
        *,
        tenant: str | None = None,
        user: str | None = None,
        app: str | None = None,
        after: Scope | None = None,
        limit: int = 1000,
    ) -> Sequence[Scope]:
        for part in (tenant, user, app):
            if part is not None and "\0" in part:
                raise InvalidInput("No scope has a NUL character in its parts.")
        wanted = [
            kept.scope
            for kept in self._all().values()
            if kept.memories
            and tenant in (None, kept.scope.tenant)
            and user in (None, kept.scope.user)
            and app in (None, kept.scope.app)
        ]
        wanted.sort(key=in_order)
        return [scope for scope in wanted if after is None or in_order(scope) > in_order(after)][
            : bounded(limit)
        ]


class DictAdapter(Adapter):
    """Open stores of the scheme `dict`, with a queue that is in memory too."""

    @classmethod
    async def open(cls, uri: str, **options: Any) -> DictStore:
        return DictStore()

    @classmethod
    def companion(cls, uri: str) -> str:
        return "libsql:///:memory:"


def in_order(scope: Scope) -> tuple[str, str, str]:
    return scope.tenant, scope.app, scope.user


async def main() -> None:
    now, scope = datetime.now(UTC), Scope("", "ada", "desk")
    async with await open_with(DictAdapter, "dict://") as store:
        memory = Memory(
            id=new_id(), content="The spare key is with Grace.", created_at=now, updated_at=now
        )
        await store.apply(scope, Batch(changes=[Change(kind="add", memory=memory)]), now=now)
        found = await store.memories.view(scope, now=now).text(["key"], limit=5)
        print(
            [
                one.content
                for one in (await store.memories.get(scope, list(found.matches), now=now)).values()
            ]
        )
        erased = await store.forget(scope, ids=[memory.id], now=now)
        left = (await store.memories.list(scope, now=EARLIEST)).memories
        print(f"{now:%Y-%m-%d} erased {len(erased)} of {scope.app}; {len(left)} left")


if __name__ == "__main__":
    asyncio.run(main())
