"""A date that a question names finds the memories of that time, words or not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Filter, Recall, Scope
from kagent_memory.testing import HashEmbedder

SCOPE = Scope("acme", "ada", "desk")
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
    async with await Memories.open("libsql:///:memory:", embedding=request.param, worker=False) as opened:
        await opened.add(SCOPE, facts)
        yield opened


def texts(found: Recall) -> set[str]:
    return {hit.memory.content for hit in found}


@pytest.mark.parametrize(
    "query",
    ["What happened on 3 May 2024?", "2024-05-03", "Tell me about May 3rd, 2024", "What did I do on 03.05.2024?"],
)
async def test_a_question_that_names_only_a_day_finds_what_happened_then_first(memories: Memories, query: str):
    assert texts(await memories.recall(SCOPE, query, limit=2)) == {KAYAK, PASTA}


async def test_a_month_and_a_year_find_all_that_lies_in_them(memories: Memories):
    may = {KAYAK, PASTA, "The dentist moved to Mill Lane."}
    assert texts(await memories.recall(SCOPE, "What happened in May 2024?", limit=3)) == may
    assert may < texts(await memories.recall(SCOPE, "What happened in 2024?", limit=4))


async def test_a_day_counted_from_now_finds_its_memories(memories: Memories):
    yesterday = datetime.now(UTC) - timedelta(days=1)
    await memories.add(SCOPE, [Fact("Planted two pear trees.", happened_at=yesterday)])
    assert texts(await memories.recall(SCOPE, "What did I do yesterday?", limit=1)) == {"Planted two pear trees."}


async def test_words_beside_the_date_still_rank(memories: Memories):
    found = await memories.recall(SCOPE, "Who was at dinner on 3 May 2024?", limit=2)
    assert found[0].memory.content == PASTA


async def test_what_a_date_finds_passes_the_filter_and_the_caller_s_own_times(memories: Memories):
    for filter in (Filter(tags=("shop",)), Filter(happened_before=DAY + timedelta(hours=1))):
        assert texts(await memories.recall(SCOPE, "What happened on 3 May 2024?", filter=filter)) == {KAYAK}
    late = Filter(happened_after=DAY + timedelta(days=30), happened_before=DAY + timedelta(days=40))
    assert texts(await memories.recall(SCOPE, "What happened on 3 May 2024?", filter=late)) == set()


async def test_the_explanation_says_that_the_date_found_it_and_the_floor_spares_it(memories: Memories):
    found = await memories.recall(SCOPE, "What happened on 3 May 2024?", limit=2, min_score=0.99, explain=True)
    assert texts(found) == {KAYAK, PASTA}
    assert all("date" in hit.why["legs"] and hit.why["scores"]["time"] > 0 for hit in found)


async def test_a_date_finds_no_other_day_s_memories_by_itself(store_uri: str):
    async with await Memories.open(store_uri, worker=False) as memories:
        await memories.add(SCOPE, [Fact(KAYAK, happened_at=DAY), Fact(PASTA)])
        assert texts(await memories.recall(SCOPE, "What happened on 5 May 2024?")) == set()
        assert texts(await memories.recall(SCOPE, "What happened on 3 May?")) == set()


async def test_a_crowded_day_fills_the_limit(store_uri: str):
    async with await Memories.open(store_uri, worker=False) as memories:
        names = [chr(97 + number // 26) + chr(97 + number % 26) for number in range(90)]
        await memories.add(SCOPE, [Fact(f"Crate {name}x came in.", happened_at=DAY) for name in names])
        assert len(await memories.recall(SCOPE, "What happened on 3 May 2024?", limit=40)) == 40


async def test_of_a_log_of_dates_only_the_first_three_are_read(store_uri: str):
    async with await Memories.open(store_uri, worker=False) as memories:
        await memories.add(SCOPE, [Fact(KAYAK, happened_at=DAY)])
        before = "2024-04-01, 2024-04-02"
        assert texts(await memories.recall(SCOPE, f"What happened on {before}, 2024-05-03?")) == {KAYAK}
        assert texts(await memories.recall(SCOPE, f"What happened on {before}, 2024-04-03, 2024-05-03?")) == set()
