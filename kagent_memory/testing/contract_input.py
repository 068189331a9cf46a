"""What cannot be stored, a closed store, and a caller that gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ..errors import KagentMemoryError, StoreError
from ..records import Scope
from ..stores.base import Batch, Delivery, Store
from .fixtures import NOW, ContractPart, a_job, a_memory, a_scope, add, adding, contents

Verb = Callable[[Store, Scope], Awaitable[object]]

VERBS: dict[str, Verb] = {
    "apply": lambda store, scope: store.apply(scope, Batch(changes=adding(a_memory("late"))), now=NOW),
    "forget": lambda store, scope: store.forget(scope, everything=True, now=NOW),
    "count": lambda store, scope: store.count([Delivery(scope=scope, delivered={"x": 1}, at=NOW)]),
    "deliver": lambda store, scope: store.deliver(scope, retrieved=["x"], delivered=["x"], now=NOW),
    "feedback": lambda store, scope: store.feedback(scope, "x", success=True),
    "get": lambda store, scope: store.get(scope, ["x"], now=NOW),
    "list": lambda store, scope: store.list(scope, now=NOW),
    "text": lambda store, scope: store.view(scope, now=NOW).text(["x"], limit=1),
    "features": lambda store, scope: store.view(scope, now=NOW).features(["x"]),
    "taken": lambda store, scope: store.taken(scope, "s", ["x"]),
    "history": lambda store, scope: store.history(scope, "x"),
    "group": lambda store, scope: store.group(scope, "x"),
    "version": lambda store, scope: store.version(scope),
    "stats": lambda store, scope: store.stats(scope, now=NOW),
    "embedding_spaces": lambda store, scope: store.embedding_spaces(),
    "add_embedding_space": lambda store, scope: store.add_embedding_space("new", 3, None),
    "enqueue": lambda store, scope: store.enqueue([a_job(scope)]),
    "claim": lambda store, scope: store.claim("me", now=NOW, lease_seconds=9),
    "renew": lambda store, scope: store.renew(a_job(scope), lease_seconds=9),
    "release": lambda store, scope: store.release(a_job(scope), run_after=NOW, error=""),
    "jobs": lambda store, scope: store.jobs(),
    "waiting": lambda store, scope: store.waiting(scope, "embed", "k"),
    "pending": lambda store, scope: store.pending(now=NOW),
    "retry": lambda store, scope: store.retry("x", now=NOW),
    "drop": lambda store, scope: store.drop("x"),
    "lease": lambda store, scope: store.lease("x", "me", seconds=9),
    "prune": lambda store, scope: store.prune(now=NOW, popular_after=1),
    "evict": lambda store, scope: store.evict(scope, ["x"], keep=0, now=NOW),
    "crowded": lambda store, scope: store.crowded(above=0, now=NOW),
    "scopes": lambda store, scope: store.scopes(),
}


class InputContract(ContractPart):
    """One typed error, and nothing half done."""

    async def test_use_after_close_is_a_store_error(self, store: Store) -> None:
        await add(store, a_scope(), a_memory("before"))
        await store.close()
        await store.close()
        for name, verb in VERBS.items():
            try:
                await verb(store, a_scope())
            except StoreError:
                continue
            pytest.fail(f"{name} worked after close()")

    @pytest.mark.parametrize("bad", ["nul\0inside", "lone \ud800 surrogate"])
    async def test_text_that_no_database_can_keep_is_refused_and_nothing_is_written(
        self, store: Store, bad: str
    ) -> None:
        scope = a_scope()
        for memory in (
            a_memory(bad),
            a_memory("x", session_id=bad),
            a_memory("x", metadata={"k": bad}),
            a_memory("x", metadata={bad: 1}),
            a_memory("x", tags=(bad,)),
        ):
            with pytest.raises(KagentMemoryError):
                await add(store, scope, a_memory("good"), memory)
        assert await contents(store, scope) == []
        assert len(await add(store, scope, a_memory("good"))) == 1

    @pytest.mark.parametrize("delay", [0, 0.001, 0.008])
    async def test_a_cancelled_write_is_whole_or_not_at_all_and_the_store_goes_on(
        self, store: Store, delay: float
    ) -> None:
        scope = a_scope()
        for attempt in range(5):
            batch = Batch(changes=adding(*(a_memory(f"{attempt}-{number}") for number in range(100))))
            task = asyncio.create_task(store.apply(scope, batch, now=NOW))
            await asyncio.sleep(delay)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert await add(store, scope, a_memory(f"after {attempt}")) != ()
            seen = await contents(store, scope, limit=1000)
            assert sum(content.startswith(f"{attempt}-") for content in seen) in (0, 100)
            assert f"after {attempt}" in seen

    async def test_cancelled_reads_leave_the_store_usable(self, store: Store) -> None:
        scope = a_scope()
        await add(store, scope, *(a_memory(f"zebra {number}") for number in range(100)))
        for _ in range(30):
            tasks: list[asyncio.Task[Any]] = [
                asyncio.create_task(store.view(scope, now=NOW).text(["zebra"], limit=99)),
                asyncio.create_task(store.list(scope, limit=99, now=NOW)),
            ]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert len((await store.view(scope, now=NOW).text(["zebra"], limit=99)).matches) == 99

    async def test_as_a_context_manager_it_closes_itself(self, store: Store) -> None:
        async with store as same:
            assert same is store
        with pytest.raises(StoreError):
            await store.version(a_scope())
