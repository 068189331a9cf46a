"""Builders and helpers for the store contract: scopes, memories, changes and jobs."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from ..errors import ConfigurationError
from ..records import EVERYTHING, Change, Filter, Memory, Scope, Vector, new_id
from ..stores import Store
from ..stores.codec import expiry
from ..stores.columns import COLUMNS
from ..stores.values import (
    Applied,
    Batch,
    Delivery,
    Erasure,
    Job,
    JobKind,
    MemoryQuery,
    ScopeStats,
    Use,
)
from ..stores.view import View

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
BEYOND_INT32 = 2**40

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
examples = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,  # each example writes into its own scope
        HealthCheck.differing_executors,  # many stores inherit one contract
        HealthCheck.too_slow,
    ],
)

HOSTILE = (
    "'; DROP TABLE memory; --",
    'x" OR "1"="1',
    "100% _under_ %s %(name)s $1 :name ? {space}",
    "back\\slash \\' \\x00 \\u0000",
    "NEAR(a b) AND OR NOT * ^ col:val",
    'un"balanced (quotes',
    "null",
    "acme::corp/../app\tuser\r\nline",
    "e\u0301 \u00e9 \ufb01 \u212b \u0130 \u00df",
    "\u202etxt.exe \u200b\ufeff \U0001f9e0\U0001f469\u200d\U0001f680",
    "日本語のテキスト 中文 한국어 ไทย",
    "\x01\x1f\x7f\x85\u2028",
)


class ContractPart(ABC):
    """A part of the contract; `home` is a scope in an open store on an empty database."""

    pytestmark = pytest.mark.asyncio

    @abstractmethod
    async def open_store(self) -> Store:
        """Open a store on an empty database of its own."""

    @pytest_asyncio.fixture
    async def home(self) -> AsyncIterator[ScopedStore]:
        """Open the store under test for one test."""
        store = await self.open_store()
        yield ScopedStore(store, a_scope())
        await store.close()


async def is_refused(verb: Awaitable[object]) -> bool:
    """Return True if the store refuses an optional method by name."""
    try:
        await verb
    except ConfigurationError:
        return True
    return False


def a_scope() -> Scope:
    """Return a new scope."""
    return Scope(tenant="acme", user=uuid.uuid4().hex, app="notes")


def a_memory(
    content: str, *, now: datetime = NOW, ttl_days: int | None = None, **values: Any
) -> Memory:
    """Return a memory that is not stored yet."""
    fields: dict[str, Any] = {"id": new_id(), "created_at": now, "updated_at": now, **values}
    return Memory(content=content, ttl_days=ttl_days, expires_at=expiry(ttl_days, now), **fields)


def a_job(scope: Scope, kind: JobKind = "transcript", *, now: datetime = NOW, **values: Any) -> Job:
    """Return a job that is due at `now`."""
    fields: dict[str, Any] = {"run_after": now, "created_at": now, **values}
    return Job(id=new_id(), scope=scope, kind=kind, **fields)


def vector(*numbers: float) -> Vector:
    """Return a float32 vector."""
    return np.asarray(numbers, dtype=np.float32)


def adding(*memories: Memory, explicit: bool = False) -> list[Change]:
    """Return the changes that add these memories."""
    return [Change(kind="add", memory=memory, explicit=explicit) for memory in memories]


def delivery(scope: Scope, *ids: str, times: int = 1, now: datetime = NOW) -> Delivery:
    """Return the counts of memories that were retrieved and delivered so many times."""
    counts = dict.fromkeys(ids, times)
    return Delivery(scope=scope, counts={"retrieved": counts, "delivered": counts}, at=now)


def changing(memory: Memory, kind: Any = "edit", *, now: datetime = NOW, **values: Any) -> Change:
    """Return the change that updates a stored memory with these values."""
    return Change(
        kind=kind, memory=replace(memory, revision=memory.revision + 1, updated_at=now, **values)
    )


def superseding(memory: Memory, by: Memory, kind: Any = "supersede", **values: Any) -> Change:
    """Return the change that retires a stored memory in favour of another."""
    return replace(changing(memory, kind, state="superseded", superseded_by=by.id), **values)


def found_by(view: View, terms: Sequence[str], limit: int) -> Any:
    """Return the result of `View.text` with matches by id: length and term counts."""
    answer = view.text(terms, limit=limit)
    rows, row_terms, lengths, counts = answer.matches
    matches = {
        id: (length, {term: count for term, count in zip(row_terms, row, strict=True) if count})
        for id, length, row in zip(
            view.index.ids_of(rows), lengths.tolist(), counts.tolist(), strict=True
        )
    }
    return answer._replace(**dict[str, Any](matches=matches))


def features_of(view: View, ids: Sequence[str], reach: int) -> dict[str, dict[str, Any]]:
    """Return the features of memories and their neighbours by id, with their authors."""
    index = view.index
    return {
        index.ids[row]: {
            "author": index.authors[row],
            **dict(zip(COLUMNS.names or (), index.columns[row].tolist(), strict=True)),
        }
        for row in index.near(index.rows_of(ids), reach, view.current).tolist()
    }


@dataclass(frozen=True)
class ScopedStore:
    """One scope of a store at one time, with helpers for the contract's tests."""

    store: Store
    scope: Scope
    now: datetime = NOW

    def at(self, now: datetime) -> ScopedStore:
        """Return the same scope at another time."""
        return replace(self, now=now)

    def elsewhere(self, scope: Scope | None = None) -> ScopedStore:
        """Return another scope of the same store; None: a new one."""
        return replace(self, scope=scope or a_scope())

    async def apply(self, *changes: Change, **batch: Any) -> Applied:
        """Apply a batch of these changes."""
        return await self.store.apply(self.scope, Batch(changes=changes, **batch), now=self.now)

    async def add(self, *memories: Memory, explicit: bool = False) -> tuple[str | None, ...]:
        """Add memories in one batch and return the ids under which they are stored."""
        return await self.apply(*adding(*memories, explicit=explicit))

    async def write(self, *texts: str, **values: Any) -> list[Memory]:
        """Add one memory per text, created a second apart; return them as stored."""
        memories = [
            a_memory(text, created_at=NOW + n * SECOND, **values) for n, text in enumerate(texts)
        ]
        return [await self.get(id) for id in await self.add(*memories) if id]

    async def change(self, memory: Memory, kind: Any = "edit", **values: Any) -> Memory:
        """Replace a stored memory by one with other values; return the new one."""
        change = changing(memory, kind, now=self.now, **values)
        await self.apply(change)
        return change.memory

    async def forget(self, *ids: str, **conditions: Any) -> tuple[str, ...]:
        """Forget memories by ids or by other conditions."""
        return await self.store.forget(self.scope, Erasure(ids=ids, now=self.now, **conditions))

    async def deliver(self, *ids: str, times: int = 1) -> None:
        """Count deliveries of these memories."""
        await self.count({"delivered": dict.fromkeys(ids, times)})

    async def count(self, counts: Mapping[Use, Mapping[str, int]]) -> None:
        """Count uses of memories by their ids."""
        await self.store.memories.count([Delivery(scope=self.scope, at=self.now, counts=counts)])

    async def get(self, memory_id: str) -> Memory:
        """Return a stored memory, active or not."""
        return (
            await self.store.memories.get(self.scope, [memory_id], now=self.now, superseded=True)
        )[memory_id]

    async def visible(self, *ids: str, superseded: bool = False) -> set[str]:
        """Return the ids among these that `get` returns."""
        return set(
            await self.store.memories.get(self.scope, ids, now=self.now, superseded=superseded)
        )

    async def listed(self, **query: Any) -> tuple[Memory, ...]:
        """Return the memories of one page of `list`."""
        return (await self.store.memories.list(self.scope, now=self.now, **query)).memories

    async def contents(self, **query: Any) -> list[str]:
        """Return the contents that `list` gives, in its order."""
        return [memory.content for memory in await self.listed(**query)]

    async def view(self, filter: Filter = EVERYTHING) -> View:
        """Return a view of the scope."""
        return await self.store.memories.view(self.scope, filter=filter, now=self.now)

    async def text(self, *terms: str, limit: int = 99, filter: Filter = EVERYTHING) -> Any:
        """Search a view by terms."""
        return found_by(await self.view(filter), terms, limit)

    async def nearest(
        self, space: int, *row: float, limit: int = 99, filter: Filter = EVERYTHING
    ) -> list[tuple[str, float]]:
        """Search a view by one vector."""
        [hits] = await (await self.view(filter)).nearest(space, [vector(*row)], limit=limit)
        return hits

    async def features(self, *ids: str, reach: int = 0) -> dict[str, dict[str, Any]]:
        """Return the features of these memories in a view, by id."""
        return features_of(await self.view(), ids, reach)

    async def space(self, dimensions: int = 2, name: str = "hash") -> int:
        """Return the number of an embedding space, creating it if necessary."""
        return (await self.store.memories.spaces.add(name, dimensions, None)).number

    async def embed(self, space: int, rows: Mapping[str, Sequence[float]]) -> None:
        """Set the vectors of stored memories."""
        await self.apply(vectors={id: vector(*row) for id, row in rows.items()}, space_number=space)

    async def unembedded(self, space: int, *, limit: int = 99) -> list[str]:
        """Return the ids of memories without a vector."""
        query = MemoryQuery(lacking=space, order="oldest", limit=limit, now=self.now)
        memories = await self.store.memories.select(self.scope, query)
        return [memory.id for memory in memories]

    async def taken(self, session_id: str, *events: str) -> frozenset[str]:
        """Return the events among these that were ingested."""
        return await self.store.memories.taken(self.scope, session_id, events)

    async def version(self) -> int:
        """Return the version of the scope."""
        return await self.store.memories.version(self.scope)

    async def stats(self) -> ScopeStats:
        """Return the counts of the scope."""
        return await self.store.stats(self.scope, now=self.now)

    async def jobs(self, **query: Any) -> list[Job]:
        """Return the jobs of the scope."""
        return list(await self.store.queue.jobs(scope=self.scope, **query))

    async def enqueue(self, kind: JobKind = "transcript", **values: Any) -> Job:
        """Queue a job and return it."""
        job = a_job(self.scope, kind, **values)
        await self.store.queue.enqueue([job])
        return job

    async def try_claim(self, owner: str = "me", **values: Any) -> Job | None:
        """Claim a job of any scope; None if there is none."""
        options: dict[str, Any] = {"now": self.now, "lease_seconds": 30, **values}
        return await self.store.queue.claim(owner, **options)

    async def claim(self, owner: str = "me", **values: Any) -> Job:
        """Claim a job of any scope, which must exist."""
        job = await self.try_claim(owner, **values)
        assert job is not None
        return job
