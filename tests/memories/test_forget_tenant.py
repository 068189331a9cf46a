"""A tenant is erased whole: nothing tells that it was there, others are untouched, and an
interruption heals.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from server.ground import served

from kagent_memory import InvalidInput, Memories, Message, Scope, StoreError
from kagent_memory.remote import open_memories
from kagent_memory.server.tokens import create_token
from kagent_memory.stores.sql import forgetting
from kagent_memory.stores.values import ForgottenTenant
from kagent_memory.testing import HashEmbedder
from kagent_memory.testing.fixtures import vector
from memories import opening
from memories.opening import CANARY, contents, listed

GONE, STAYS = "acme", ("acme-corp", "ACME", "acme ", "other")

pytestmark = pytest.mark.usefixtures("packs_at_once")


opened = partial(opening.opened, embedding=HashEmbedder(16))


async def fill(memories: Memories, tenant: str, count: int = 3) -> None:
    """A tenant of two users with everything that a store keeps."""
    for user in ("ada", f"{CANARY} {tenant}"):
        scope = Scope(tenant, user, "notes")
        ids = await memories.add(
            scope, [f"{CANARY} of {tenant} keeps key {number}" for number in range(count)]
        )
        await memories.edit(scope, ids[0], content=f"{CANARY} of {tenant} keeps no key", who=CANARY)
        await memories.add(scope, [f"{CANARY} brings a vector"], embedding=[vector(*[1.0] * 64)])
        await memories.forget(scope, ids[1])
        for number in (1, 2):  # one is ingested, one waits
            message = Message(text=f"{CANARY} said {number}", event_id=f"{CANARY}-{number}")
            await memories.remember(scope, [message], f"{CANARY}-{number}")
            if number == 1:
                await memories.work(until_idle=True)
        await memories.recall(scope, "keeps key")
        await memories.feedback(scope, ids[0], success=True)
    await create_token(memories, tenant=tenant, label=CANARY)


async def state(memories: Memories, tenant: str) -> Any:
    scopes = await memories.scopes(tenant=tenant)
    texts = [await listed(memories, scope) for scope in scopes]
    jobs = [job.id for job in await memories.jobs(tenant=tenant)]
    tokens = [token.id for token in await memories.store.tokens.find() if token.tenant == tenant]
    return scopes, texts, jobs, tokens


def rows_left(uri: str) -> dict[str, int]:
    """The rows of every table that has something of a scope or a tenant, of whoever; receipts
    stay, and tell no content.
    """
    tables = (
        "SELECT DISTINCT t.name FROM sqlite_master AS t, pragma_table_info(t.name) AS c "
        "WHERE t.type = 'table' AND c.name IN ('scope_id', 'tenant')"
        if uri.startswith("libsql")
        else "SELECT DISTINCT table_name FROM information_schema.columns "
        "WHERE table_schema = 'kagent_memory' AND column_name IN ('scope_id', 'tenant')"
    )
    names = [name for (name,) in opening.execute(uri, tables) if "receipt" not in name]
    assert len(names) >= 10, names
    return {name: opening.execute(uri, f"SELECT count(*) FROM {name}")[0][0] for name in names}


async def test_nothing_is_left_of_the_tenant_and_all_of_the_others(uri, tmp_path):
    """No row or byte is left of an erased tenant, and its namesakes keep everything."""
    async with await opened(uri) as memories:
        for tenant in (*STAYS, GONE):
            await fill(memories, tenant)
        before = {tenant: await state(memories, tenant) for tenant in STAYS}
        erased = await memories.forget_tenant(GONE)
        assert erased.done
        assert erased.scopes == 2
        assert erased.tokens == 1
        assert erased.memories >= 6
        assert await state(memories, GONE) == ([], [], [], [])
        assert {tenant: await state(memories, tenant) for tenant in STAYS} == before
        assert await memories.forget_tenant(GONE) == ForgottenTenant()
        for tenant in STAYS:
            assert (await memories.forget_tenant(tenant)).done
    assert set(rows_left(uri).values()) == {0}
    if uri.startswith("libsql"):
        for file in tmp_path.glob("memory.db*"):
            assert CANARY.encode() not in file.read_bytes(), file


async def test_what_is_saved_afterwards_is_a_beginning(uri):
    """Memories saved after forgetting a tenant are found, also by stores that knew the tenant
    before.
    """
    scope = Scope(GONE, "ada", "notes")
    async with await opened(uri) as memories, await opened(uri) as beside:
        for number in range(5):
            await memories.add(scope, [f"The old locker {number} is green"])
        assert len(await beside.recall(scope, "locker", limit=9)) == 5
        await memories.forget_tenant(GONE)
        for number in range(5):  # as many writes: the scope counts its versions from the beginning
            await memories.add(scope, [f"The new locker {number} is blue"])
        for reader in (memories, beside):
            assert sorted(contents(await reader.recall(scope, "locker", limit=9))) == [
                f"The new locker {n} is blue" for n in range(5)
            ]
        message = [Message(role="user", text="The canoe is red", event_id="e")]
        await memories.remember(scope, message, "s")
        await memories.work(until_idle=True)
        await memories.forget_tenant(GONE)
        await memories.remember(scope, message, "s")  # no tombstone, no event that was ingested
        await memories.work(until_idle=True)
        assert await listed(memories, scope) == {"The canoe is red"}


async def test_a_part_at_a_time_goes_on_where_it_ended(uri):
    """With a limit each call erases a part, of several scopes where they are small, until one says
    that it is done.
    """
    async with await opened(uri) as memories:
        await fill(memories, GONE, count=12)
        await fill(memories, "other", count=2)
        parts = []
        while not parts or not parts[-1].done:
            parts.append(await memories.forget_tenant(GONE, limit=5))
            assert len(parts) < 50
            assert parts[-1].memories <= 5
        assert len(parts) > 3
        assert sum(part.scopes for part in parts) == 2
        assert await state(memories, GONE) == ([], [], [], [])
        assert len((await state(memories, "other"))[0]) == 2
        assert (await memories.forget_tenant("other", limit=50)).scopes == 2


async def test_an_interrupted_erasure_is_ended_by_the_next_call(uri, monkeypatch):
    """An interruption leaves a whole store and the next call ends it."""
    real, calls = forgetting.erase_some, []

    async def breaks(session, **options):
        calls.append(session)
        result = await real(session, **options)
        if len(calls) == 2:
            raise StoreError("memory unavailable: power cut")
        return result

    async with await opened(uri) as memories:
        await fill(memories, GONE)
        monkeypatch.setattr(forgetting, "erase_some", breaks)
        with pytest.raises(StoreError):
            await memories.forget_tenant(GONE)
        [scope] = await memories.scopes(tenant=GONE)
        assert (await memories.list(scope)).memories  # the transaction that failed erased nothing
        assert (await memories.forget_tenant(GONE)).done
        assert await state(memories, GONE) == ([], [], [], [])


async def test_a_job_of_an_erased_tenant_writes_nothing(uri):
    """A worker in the middle of a job writes nothing afterwards."""
    scope = Scope(GONE, "ada", "notes")
    async with await opened(uri) as memories:
        await memories.remember(
            scope, [Message(role="user", text="The lighthouse is white", event_id="e")], "s"
        )
        now = memories.clock()
        job = await memories.store.queue.claim("me", now=now, lease_seconds=30)
        assert job is not None
        await memories.forget_tenant(GONE)
        assert not await memories.store.queue.renew(job, lease_seconds=30)
        assert not await memories.store.queue.release(job, run_after=now, error="")
        assert await memories.scopes(tenant=GONE) == []


async def test_saves_at_the_same_time_break_nothing(uri):
    """A tenant that saves meanwhile is erased by the next call."""
    scope = Scope(GONE, "ada", "notes")
    async with await opened(uri) as memories:
        await fill(memories, GONE, count=5)

        async def save(number: int) -> None:
            await memories.add(scope, [f"meanwhile {number}"])

        await asyncio.gather(*(save(number) for number in range(10)), memories.forget_tenant(GONE))
        assert (await memories.forget_tenant(GONE)).done
        assert await state(memories, GONE) == ([], [], [], [])


@pytest.mark.parametrize(
    ("tenant", "limit", "message"),
    [("", None, "tenant"), (None, None, "tenant"), ("a\0b", 5, "tenant"), (GONE, 0, "limit")],
)
async def test_an_erasure_of_nothing_is_refused(tmp_path, tenant, limit, message):
    """An empty tenant, what can be no name, and a limit of 0 erase nothing."""
    async with await opened(f"libsql:///{tmp_path}/memory.db") as memories:
        for owner in ("", GONE):
            await memories.add(Scope(owner, "ada", "notes"), ["kept"])
        with pytest.raises(InvalidInput, match=message):
            await memories.forget_tenant(tenant, limit=limit)
        assert len(await memories.scopes()) == 2


async def test_over_http_an_erasure_goes_on_until_it_is_done(tmp_path):
    """A client asks for part after part; with a limit it is told that some is left."""
    uri = f"libsql:///{tmp_path}/memory.db"
    async with await opened(uri) as memories:
        await fill(memories, GONE)
        await fill(memories, "other")
    with served(lambda: opened(uri)) as address:
        async with await open_memories(address) as remote:
            assert (await remote.forget_tenant(GONE, limit=1)).done is False
            erased = await remote.forget_tenant(GONE)
            assert erased.done
            assert [scope.tenant for scope in await remote.scopes()] == ["other", "other"]
