"""A view answers from memory, and what takes long is done beside the event loop."""

from __future__ import annotations

import asyncio
import time
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from memories.opening import ADA, opened

from kagent_memory import RankSettings
from kagent_memory.records import EVERYTHING, Filter, Memory, Message, Scope
from kagent_memory.retrieval.query import WordGate
from kagent_memory.retrieval.question import Question
from kagent_memory.retrieval.retriever import Retriever
from kagent_memory.retrieval.search import Search
from kagent_memory.settings import MemorySettings
from kagent_memory.stores.index import ScopeIndex, entry_of
from kagent_memory.stores.postings import packed
from kagent_memory.stores.view import MemoriesView
from kagent_memory.testing.fixtures import NOW, a_memory

TERMS = [f"term{number}" for number in range(64)]
MAX_PAUSE_SECONDS = 0.01


async def longest_pause(work: asyncio.Task[Any]) -> float:
    """Return how long the event loop's own thread was at work at most between two turns."""
    longest, last = 0.0, time.thread_time()
    while not work.done():
        await asyncio.sleep(0)
        now = time.thread_time()
        longest, last = max(longest, now - last), now
    return longest


@cache
def memories_of(count: int) -> tuple[dict[str, Memory], ScopeIndex]:
    """Return so many memories, each with every eighth of the terms, and their index."""
    samples = [packed(dict.fromkeys(TERMS[number::8], 1)) for number in range(8)]
    memories = {id: a_memory(id, id=id) for id in (f"{number:06}" for number in range(count))}
    entries = [
        entry_of(memory, samples[place % 8], active=True)
        for place, memory in enumerate(memories.values())
    ]
    return memories, ScopeIndex().updated(entries)


@pytest.mark.parametrize(
    ("count", "terms", "filter", "scopes"),
    [
        (100_000, 6, EVERYTHING, 1),
        (10_000, 64, EVERYTHING, 1),
        (10_000, 1, Filter(min_importance=0.1), 1),
        (4, 64, EVERYTHING, 1000),
    ],
)
async def test_a_large_search_is_done_beside_the_loop(
    count: int, terms: int, filter: Filter, scopes: int
):
    """A search of 100,000 memories, for 64 terms, under a filter or of 1,000 scopes holds up no
    other task.
    """
    memories, index = memories_of(count)
    store: Any = SimpleNamespace(trouble=None, vectors=lambda: None)
    passing = None if filter == EVERYTHING else [*memories]
    view = MemoriesView(store, ADA, index, filter, passing, NOW, memories, set())

    async def taken(scope: Scope, **options: Any) -> MemoriesView:
        return view

    store.reader = SimpleNamespace(view=taken)
    retriever = Retriever(
        store,
        None,
        llm=None,
        reranker=None,
        gate=WordGate(),
        rank=RankSettings(),
        settings=MemorySettings(),
    )
    text = " ".join(TERMS[:terms])
    search = Search(scopes=[ADA] * scopes, text=text, question=Question.read(text, NOW), now=NOW)
    work = asyncio.create_task(retriever.search(search))
    assert await longest_pause(work) < MAX_PAUSE_SECONDS
    assert len((await work).hits) == min(count, 5)


@pytest.mark.parametrize(("count", "recalled"), [(10_000, ""), (60, "I sail on a lake. " * 300)])
async def test_a_long_transcript_is_queued_beside_the_loop(count: int, recalled: str):
    """Neither many messages nor long recalled texts hold up other tasks while they are queued."""
    messages = [
        Message(text="green tea", event_id=f"{number}", recalled=(f"{number} {recalled}",))
        for number in range(count)
    ]
    async with await opened() as memories:
        await memories.remember(ADA, messages[:1], "session")  # the first use of all takes longer
        work = asyncio.create_task(memories.remember(ADA, messages, "session"))
        assert await longest_pause(work) < MAX_PAUSE_SECONDS


async def test_a_redactor_that_raises_anything_ends_its_call():
    """A redactor that raises StopIteration in a thread fails the call, which else never ended."""
    redact: Any = lambda text: next(iter(()))  # noqa: E731
    async with await opened(redact=redact) as memories, asyncio.timeout(9):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await memories.recall(ADA, "green tea " * 200)
