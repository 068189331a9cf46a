"""What the parts of the store contract stand on: the store under test, and short words for what they write."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from ..records import Change, Memory, Scope, Usage, Vector, new_id
from ..stores.base import Batch, EmbeddingSpace, Job, JobKind, Store
from ..stores.codec import expiry

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
BEYOND_INT32 = 2**40

examples = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,  # an example writes into a scope of its own
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
    """A theme of the contract: `store` is open on an empty database, and closed after the test."""

    pytestmark = pytest.mark.asyncio

    @abstractmethod
    async def open_store(self) -> Store:
        """A store, open on an empty database of its own."""

    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[Store]:
        """The store under test."""
        store = await self.open_store()
        yield store
        await store.close()


def a_scope() -> Scope:
    """A scope that nobody else uses."""
    return Scope(tenant="acme", user=uuid.uuid4().hex, app="notes")


def a_memory(content: str, *, now: datetime = NOW, ttl_days: int | None = None, **values: Any) -> Memory:
    """A memory as a caller makes it, not yet stored."""
    made: dict[str, Any] = {"id": new_id(), "created_at": now, "updated_at": now, **values}
    return Memory(content=content, ttl_days=ttl_days, expires_at=expiry(ttl_days, now), **made)


def adding(*memories: Memory, explicit: bool = False) -> list[Change]:
    """The changes that add these memories."""
    return [Change(kind="add", memory=memory, explicit=explicit) for memory in memories]


def changing(memory: Memory, kind: Any = "edit", *, now: datetime = NOW, **values: Any) -> Change:
    """The change that replaces a stored memory by one with other values."""
    return Change(kind=kind, memory=replace(memory, revision=memory.revision + 1, updated_at=now, **values))


async def add(
    store: Store, scope: Scope, *memories: Memory, now: datetime = NOW, explicit: bool = False
) -> tuple[str | None, ...]:
    """Adds memories in one batch; the ids that hold them."""
    return (await store.apply(scope, Batch(changes=adding(*memories, explicit=explicit)), now=now)).ids


async def add_texts(store: Store, scope: Scope, *texts: str, **values: Any) -> tuple[str, ...]:
    """Adds one memory per text, created a second apart; their ids."""
    memories = [a_memory(text, created_at=NOW + number * SECOND, **values) for number, text in enumerate(texts)]
    return tuple(id for id in await add(store, scope, *memories) if id)


async def embed(store: Store, scope: Scope, space: EmbeddingSpace, rows: Mapping[str, Sequence[float]]) -> None:
    """Sets the vectors of stored memories."""
    vectors = {id: vector(*row) for id, row in rows.items()}
    await store.apply(scope, Batch(vectors=vectors, space_number=space.number), now=NOW)


def vector(*numbers: float) -> Vector:
    """A float32 vector."""
    return np.asarray(numbers, dtype=np.float32)


async def the(store: Store, scope: Scope, memory_id: str, *, now: datetime = NOW) -> Memory:
    """The stored memory of this id, superseded ones included."""
    return (await store.get(scope, [memory_id], now=now, superseded=True))[memory_id]


async def contents(store: Store, scope: Scope, *, now: datetime = NOW, **query: Any) -> list[str]:
    """The contents that `list` gives, in its order."""
    return [memory.content for memory in (await store.list(scope, now=now, **query)).memories]


def bare(memory: Memory) -> Memory:
    """The memory without its counters, which revisions do not keep."""
    return replace(memory, usage=Usage())


def a_job(scope: Scope, kind: JobKind = "transcript", *, now: datetime = NOW, **values: Any) -> Job:
    """A job that is due at `now`."""
    made: dict[str, Any] = {"run_after": now, "created_at": now, **values}
    return Job(id=new_id(), scope=scope, kind=kind, **made)
