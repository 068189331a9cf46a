"""What searches cost in round trips: statements sent to PostgreSQL one by one, transactions of the
libSQL file.
"""

from __future__ import annotations

import pytest

from kagent_memory.ingestion.echoes import without_recalled
from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Filter, Memory, Message, Scope
from kagent_memory.retrieval.embedding_spaces import StoreEmbedder
from kagent_memory.retrieval.similar import neighbours
from kagent_memory.stores import open_store
from kagent_memory.stores.libsql.database import Database
from kagent_memory.stores.libsql.session import LibSQLSession
from kagent_memory.stores.postgres.session import PostgresSession
from kagent_memory.stores.values import Batch
from kagent_memory.testing import HashEmbedder
from kagent_memory.testing.fixtures import NOW, a_memory, adding

SCOPE = Scope("acme", "ada", "notes")
ODD = Filter(tags=("odd",))


class Trips:
    """The round trips since the last look, and the named statements of libSQL's transactions."""

    def __init__(self) -> None:
        self.count = 0
        self.statements: list[str] = []

    def since(self) -> tuple[int, list[str]]:
        seen = self.count, self.statements
        self.count, self.statements = 0, []
        return seen


@pytest.fixture
def trips(monkeypatch) -> Trips:
    trips = Trips()
    asked_of, run, execute = PostgresSession.execute, Database._on_thread, LibSQLSession.execute

    async def asked(self, *queries):
        trips.count += len(queries)
        trips.statements += [name for name, _ in queries]
        return await asked_of(self, *queries)

    async def ran(self, action):
        trips.count += 1
        return await run(self, action)

    async def read(self, *queries):
        trips.statements += [name for name, _ in queries]
        return await execute(self, *queries)

    monkeypatch.setattr(PostgresSession, "execute", asked)
    monkeypatch.setattr(Database, "_on_thread", ran)
    monkeypatch.setattr(LibSQLSession, "execute", read)
    return trips


def memory(number: int) -> Memory:
    return a_memory(
        f"Ada keeps parcel {number} on shelf {number % 7}", tags=("odd",) if number % 2 else ()
    )


@pytest.fixture
async def store(store_uri):
    async with await open_store(store_uri) as store:
        changes = adding(*(memory(number) for number in range(30)))
        await store.apply(SCOPE, Batch(changes=changes), now=NOW)
        await store.memories.view(SCOPE, now=NOW)
        yield store


@pytest.mark.parametrize("embedded", [True, False])
async def test_neighbours_of_twenty_facts_cost_as_much_as_of_one(store, trips, embedded):
    """The neighbours of twenty facts cost as much as those of one."""
    vectors = StoreEmbedder(store, HashEmbedder()) if embedded else None
    facts = [memory(number) for number in range(20)]
    await neighbours(await store.memories.view(SCOPE, now=NOW), vectors, facts[:1])
    trips.since()
    await neighbours(await store.memories.view(SCOPE, now=NOW), vectors, facts[:1])
    one, _ = trips.since()
    near, _ = await neighbours(await store.memories.view(SCOPE, now=NOW), vectors, facts)
    twenty, _ = trips.since()
    assert twenty == one
    assert all(near[place] for place in range(20))


async def test_echoes_of_200_events_cost_as_much_as_of_one(store, trips):
    """The echoes of a session of 200 events cost as much as those of one."""
    said = [
        Message(text=f"Ada keeps parcel {n} on shelf {n % 7}.", role="agent", event_id=f"e{n}")
        for n in range(200)
    ]
    trips.since()
    await without_recalled(store.memories, SCOPE, said[:1], now=NOW)
    one, _ = trips.since()
    left, echoed = await without_recalled(store.memories, SCOPE, said, now=NOW)
    all_of_them, _ = trips.since()
    assert all_of_them == one <= 4
    assert (len(left), len(echoed)) == (170, 30)


async def test_a_recall_of_a_quiet_scope_takes_one_statement(store_uri, trips):
    """Nothing is asked about a scope that nobody writes to but its hits."""
    async with await Memories.open(store_uri, embedding=HashEmbedder(), worker=False) as memories:
        await memories.add(SCOPE, [f"A {word} parcel" for word in ("zebra", "rome", "tea", "oslo")])
        for _ in range(4):
            await memories.recall(SCOPE, "tea", deliver=False)
        trips.since()
        answer = await memories.recall(SCOPE, "a zebra in oslo. tea for rome!", deliver=False)
        assert trips.since() == (1, ["unchanged_memories"])
    assert [hit.cosine is not None for hit in answer] == [True] * 4


async def test_a_filtered_recall_evaluates_its_filter_once(store_uri, trips):
    """A hybrid search under a filter asks the database once what the filter lets through."""
    async with await Memories.open(store_uri, embedding=HashEmbedder()) as memories:
        scope = Scope("acme", "grace", "notes")
        texts = [f"Grace keeps parcel {number} on shelf {number % 7}" for number in range(12)]
        facts = [Fact(text, tags=("odd",) * (number % 2)) for number, text in enumerate(texts)]
        await memories.add(scope, facts)
        await memories.recall(scope, "a parcel on a shelf", filter=ODD)
        trips.since()
        recall = await memories.recall(scope, "which parcel is on a shelf?", filter=ODD, limit=3)
        _, statements = trips.since()
    assert recall.mode == "hybrid"
    assert len(recall.hits) == 3
    assert all("odd" in hit.memory.tags for hit in recall.hits)
    assert statements.count("passing") == 1
