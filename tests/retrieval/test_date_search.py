"""A date that a question names finds the memories of that time, words or not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from memories.opening import ADA, contents, opened

from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Filter, Recall
from kagent_memory.stores.values import Batch
from kagent_memory.testing import HashEmbedder
from kagent_memory.testing.fixtures import a_memory, adding

DAY = datetime(2024, 5, 3, 9, tzinfo=UTC)
KAYAK, PASTA = "Bought a red kayak in town.", "Pasta for dinner with Bo."


@pytest.fixture(params=[None, HashEmbedder(64)], ids=["keyword", "hybrid"])
async def memories(request: pytest.FixtureRequest) -> AsyncIterator[Memories]:
    facts = [
        Fact(KAYAK, happened_at=DAY, tags=("shop",)),
        Fact(PASTA, happened_at=DAY + timedelta(hours=10)),
        Fact("It so happened that 3 cats came by.", happened_at=DAY + timedelta(days=200)),
        Fact("The dentist moved to Mill Lane.", happened_at=DAY + timedelta(days=20)),
        Fact("The spare key hangs behind the blue door."),
    ]
    async with await opened(embedding=request.param) as memories:
        await memories.add(ADA, facts)
        yield memories


def texts(recall: Recall) -> set[str]:
    return {*contents(recall)}


@pytest.mark.parametrize(
    "query",
    [
        "What happened on 3 May 2024?",
        "2024-05-03",
        "Tell me about May 3rd, 2024",
        "What did I do on 03.05.2024?",
    ],
)
async def test_a_question_of_a_day_finds_what_happened_then(memories: Memories, query: str):
    """In whatever form the day is written."""
    assert texts(await memories.recall(ADA, query, limit=2)) == {KAYAK, PASTA}


async def test_a_month_and_a_year_find_all_that_lies_in_them(memories: Memories):
    """A month finds its days, and a year its months."""
    may = {KAYAK, PASTA, "The dentist moved to Mill Lane."}
    assert texts(await memories.recall(ADA, "What happened in May 2024?", limit=3)) == may
    assert may < texts(await memories.recall(ADA, "What happened in 2024?", limit=4))


async def test_words_beside_the_date_still_rank(memories: Memories):
    """Of the memories of a day the one that holds the words comes first."""
    recall = await memories.recall(ADA, "Who was at dinner on 3 May 2024?", limit=2)
    assert recall[0].memory.content == PASTA


async def test_what_a_date_finds_passes_the_filter(memories: Memories):
    """Also the times that the filter names."""
    for filter in (Filter(tags=("shop",)), Filter(happened_before=DAY + timedelta(hours=1))):
        assert texts(await memories.recall(ADA, "What happened on 3 May 2024?", filter=filter)) == {
            KAYAK
        }
    late = Filter(happened_after=DAY + timedelta(days=30), happened_before=DAY + timedelta(days=40))
    assert texts(await memories.recall(ADA, "What happened on 3 May 2024?", filter=late)) == set()


async def test_what_a_date_finds_is_explained(memories: Memories):
    """The floor for what vectors alone found spares it."""
    recall = await memories.recall(
        ADA, "What happened on 3 May 2024?", limit=2, min_score=0.99, explain=True
    )
    assert texts(recall) == {KAYAK, PASTA}
    assert all("date" in hit.why["legs"] and hit.why["scores"]["time"] > 0 for hit in recall)


async def test_a_date_finds_no_other_day_s_memories_by_itself(store_uri: str):
    """Nor does a day without a year find any."""
    async with await opened(store_uri) as memories:
        await memories.add(ADA, [Fact(KAYAK, happened_at=DAY), Fact(PASTA)])
        assert texts(await memories.recall(ADA, "What happened on 5 May 2024?")) == set()
        assert texts(await memories.recall(ADA, "What happened on 3 May?")) == set()


@pytest.mark.parametrize("query", ["What happened on 3 May 2024?", "Who is it?"])
async def test_the_turns_of_a_day_leave_room_for_its_facts(store_uri: str, query: str):
    """A query for a day, or of stop words alone, finds facts rather than the turns that they came
    from.
    """
    now = datetime.now(UTC)
    fact = a_memory("Who is it? The plumber.", happened_at=DAY)
    turns = [
        a_memory("Who is it? " * number, state="source", happened_at=DAY, now=now)
        for number in range(1, 120)
    ]
    async with await opened(store_uri) as memories:
        await memories.store.apply(ADA, Batch(changes=adding(fact, *turns)), now=now)
        recall = await memories.recall(ADA, query, limit=3)
        assert texts(recall) == {fact.content}
