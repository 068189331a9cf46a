"""What searches cost in round trips: statements sent to PostgreSQL one by one."""

from __future__ import annotations

import pytest
from memories.opening import ADA, GRACE, opened

from kagent_memory.ingestion.echoes import without_recalled
from kagent_memory.models.embedding import CheckedEmbedder
from kagent_memory.records import Fact, Filter, Memory, Message
from kagent_memory.retrieval.embedding_spaces import StoreEmbedder
from kagent_memory.retrieval.similar import neighbours
from kagent_memory.settings import MemorySettings
from kagent_memory.stores import open_store
from kagent_memory.stores.postgres.connection import PostgresSession
from kagent_memory.stores.values import Batch
from kagent_memory.testing import HashEmbedder
from kagent_memory.testing.fixtures import NOW, a_memory, adding

ODD = Filter(tags=("odd",))


@pytest.fixture
def trips(monkeypatch) -> list[str]:
    """The names of the statements that were asked for."""
    names, asked_of = list[str](), PostgresSession.execute

    async def count_trip(self, *queries):
        names.extend(name for name, _ in queries)
        return await asked_of(self, *queries)

    monkeypatch.setattr(PostgresSession, "execute", count_trip)
    return names


def memory(number: int) -> Memory:
    return a_memory(
        f"Ada keeps parcel {number} on shelf {number % 7}", tags=("odd",) if number % 2 else ()
    )


@pytest.fixture
async def store(postgres_uri):
    async with await open_store(postgres_uri) as store:
        changes = adding(*(memory(number) for number in range(30)))
        await store.apply(ADA, Batch(changes=changes), now=NOW)
        await store.memories.view(ADA, now=NOW)
        yield store


@pytest.mark.parametrize("embedded", [True, False])
async def test_neighbours_of_twenty_facts_cost_as_much_as_of_one(store, trips, embedded):
    """The neighbours of twenty facts cost as much as those of one."""
    settings = MemorySettings()
    embedder = CheckedEmbedder(HashEmbedder(), settings)
    vectors = StoreEmbedder(store, embedder, settings) if embedded else None
    facts = [memory(number) for number in range(20)]
    counts: list[int] = []
    for some in (facts[:1], facts[:1], facts):
        trips.clear()
        results = await neighbours(await store.memories.view(ADA, now=NOW), vectors, some)
        counts.append(len(trips))
    assert counts[2] == counts[1]
    assert all(results[place] for place in range(20))


async def test_echoes_of_200_events_cost_as_much_as_of_one(store, trips):
    """The echoes of a session of 200 events cost as much as those of one."""
    messages = [
        Message(text=f"Ada keeps parcel {n} on shelf {n % 7}.", role="agent", event_id=f"e{n}")
        for n in range(200)
    ]
    trips.clear()
    await without_recalled(store.memories, ADA, messages[:1], now=NOW)
    single = len(trips)
    rest, _ = await without_recalled(store.memories, ADA, messages, now=NOW)
    assert len(trips) == 2 * single <= 8
    assert len(rest) == 170


async def test_a_recall_of_a_quiet_scope_takes_one_statement(postgres_uri, trips):
    """Nothing is asked about a scope that nobody writes to but its hits."""
    async with await opened(postgres_uri, embedding=HashEmbedder()) as memories:
        await memories.add(ADA, [f"A {word} parcel" for word in ("zebra", "rome", "tea", "oslo")])
        for _ in range(4):
            await memories.recall(ADA, "tea", deliver=False)
        trips.clear()
        answer = await memories.recall(ADA, "a zebra in oslo. tea for rome!", deliver=False)
        assert trips == ["unchanged_memories"]
    assert [hit.cosine is not None for hit in answer] == [True] * 4


async def test_a_filtered_recall_evaluates_its_filter_once(postgres_uri, trips):
    """A hybrid search under a filter asks the database once what the filter lets through."""
    async with await opened(postgres_uri, embedding=HashEmbedder()) as memories:
        texts = [f"Grace keeps parcel {number} on shelf {number % 7}" for number in range(12)]
        await memories.add(
            GRACE, [Fact(text, tags=("odd",) * (number % 2)) for number, text in enumerate(texts)]
        )
        await memories.recall(GRACE, "a parcel on a shelf", filter=ODD)
        trips.clear()
        recall = await memories.recall(GRACE, "which parcel is on a shelf?", filter=ODD, limit=3)
    assert recall.mode == "hybrid"
    assert len(recall.hits) == 3
    assert all("odd" in hit.memory.tags for hit in recall.hits)
    assert trips.count("passing") == 1
