"""A recall answers first from what its process holds of a scope, and is never behind what the
database says.
"""

from __future__ import annotations

import random

import pytest
from memories.opening import ADA, START, contents, opened

from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Filter
from kagent_memory.stores.postgres.connection import PostgresSession
from kagent_memory.stores.postgres.database import PostgresDatabase
from kagent_memory.stores.sql.index_cache import ScopeView
from kagent_memory.stores.values import Batch
from kagent_memory.testing import HashEmbedder

WORDS = ["tea", "oslo", "green", "parcel", "rome", "black", "shelf", "zebra"]


@pytest.fixture
async def pair(store_uri):
    """Two processes' memories in one database."""
    async with (
        await opened(store_uri, embedding=HashEmbedder()) as first,
        await opened(store_uri, embedding=HashEmbedder()) as second,
    ):
        yield first, second


async def texts(memories: Memories, query: str, **options) -> list[str]:
    recall = await memories.recall(ADA, query, deliver=False, **options)
    assert not recall.degraded
    return contents(recall)


async def steady(memories: Memories) -> None:
    """Two looks: one that loads, one that finds that nothing was written since."""
    for _ in range(2):
        await memories.recall(ADA, "tea", deliver=False)


async def test_nothing_found_is_told_of_a_scope_as_it_is_now(pair):
    """An empty answer is checked against the database, too."""
    reader, writer = pair
    [tea] = await reader.add(ADA, ["green tea"])
    await steady(reader)
    await writer.forget(ADA, [tea])
    for _ in range(3):
        assert await texts(reader, "tea") == []
    await writer.add(ADA, ["white tea"])
    assert await texts(reader, "tea") == ["white tea"]


async def test_what_is_written_during_a_recall_is_in_its_answer(pair, monkeypatch):
    """A view that turns out to be stale is taken once more."""
    reader, writer = pair
    await reader.add(ADA, ["green tea"])
    await steady(reader)
    nearest, ids = ScopeView.nearest_rows, []

    async def late(self, *arguments, **options):
        rows = await nearest(self, *arguments, **options)
        if self.source is reader.store.memories and not ids:
            ids.append(await writer.add(ADA, ["tea from oslo"]))
        return rows

    monkeypatch.setattr(ScopeView, "nearest_rows", late)
    assert set(await texts(reader, "tea")) == {"green tea", "tea from oslo"}


async def test_the_model_that_rewrites_is_asked_once(pair, store_uri):
    """However often a recall has to search."""

    class Rewriting:
        name = "rewriting"
        calls = 0

        async def complete(self, prompt, *, schema):
            self.calls += 1
            return schema.model_validate(dict.fromkeys(schema.model_fields, "tea from oslo"))

    llm = Rewriting()
    async with await opened(store_uri, embedding=HashEmbedder(), llm=llm, rewrite=True) as reader:
        await reader.add(ADA, ["green tea"])
        await steady(reader)
        await pair[1].add(ADA, ["tea from oslo"])
        calls = llm.calls
        assert set(await texts(reader, "tea")) == {"green tea", "tea from oslo"}
    assert llm.calls == calls + 1


async def test_a_vector_that_another_process_set_counts_at_once(pair):
    """A vector alone is a write, too."""
    reader, writer = pair
    [first, _] = await reader.add(ADA, ["green tea", "black coffee"])
    await steady(reader)
    [space] = await writer.store.memories.spaces.all()
    [zebra] = await HashEmbedder().embed(["zebra"], kind="document")
    await writer.store.apply(
        ADA, Batch(vectors={first: zebra}, space_number=space.number), now=START
    )
    [hit, *_] = (await reader.recall(ADA, "zebra", deliver=False)).hits
    assert (hit.memory.id, hit.cosine) == (first, pytest.approx(1, abs=1e-3))


async def test_dropped_vectors_are_searched_no_more(pair):
    """The answer says that the embedder was replaced."""
    reader, writer = pair
    await reader.add(ADA, ["green tea", "black coffee"])
    await steady(reader)
    other = await writer.store.memories.spaces.replace("another", 3, None)
    await writer.store.memories.spaces.finish_replacing(other.number)
    await writer.store.memories.spaces.drop_retired()
    answer = await reader.recall(ADA, "tea", deliver=False)
    assert contents(answer) == ["green tea"]
    assert "dropped" in "".join(answer.degraded)


async def test_what_ceases_to_fit_the_filter_is_not_handed_over(pair, monkeypatch):
    """A hit fits the filter as it is handed over, not only as it was found."""
    reader, writer = pair
    ids = await reader.add(ADA, [Fact(f"{word} tea", category="drinks") for word in WORDS[:2]])
    memories = ScopeView.memories

    async def late(self, *arguments, **options):
        await writer.edit(ADA, ids[0], category="secrets")
        return await memories(self, *arguments, **options)

    monkeypatch.setattr(ScopeView, "memories", late)
    assert await texts(reader, "tea", filter=Filter(category="drinks")) == ["oslo tea"]


async def test_a_scope_erased_while_its_index_is_read_is_empty(pair, monkeypatch):
    """An index is read by several statements."""
    reader, writer = pair
    if not isinstance(reader.store.memories.database, PostgresDatabase):
        return  # a file's is read in one transaction
    await reader.add(ADA, ["green tea"])
    await steady(reader)
    await writer.add(ADA, ["black tea"])
    execute, looks = PostgresSession.execute, []

    async def read(session, *queries):
        answers = await execute(session, *queries)
        if not looks and "scope_changes" in dict(queries):
            looks.append(queries)
            await writer.forget_tenant(ADA.tenant)
        return answers

    await texts(reader, "tea")
    await writer.add(ADA, ["white tea"])
    monkeypatch.setattr(PostgresSession, "execute", read)
    assert await texts(reader, "tea") == []
    await writer.add(ADA, ["red tea"])
    assert await texts(reader, "tea") == ["red tea"]


@pytest.mark.parametrize(("seed", "at_once"), [(0, 10_000), (1, 192), (2, 192)])
@pytest.mark.usefixtures("packs_at_once")
async def test_random_writers_are_never_behind(pair, seed, at_once, monkeypatch):
    """Two processes that write at random read the same, as it is now, by words and by vectors,
    also where one begins with the packed index.
    """
    monkeypatch.setattr("kagent_memory.stores.sql.index_cache.MAX_NUMBERS_AT_ONCE", at_once)
    first, second = pair
    chance, ids = random.Random(seed), dict[str, str]()
    for step in range(40):
        writer = chance.choice((first, second))
        match chance.choice(["add", "edit", "forget", "begin", "recall", "recall", "recall"]):
            case "add":
                content = " ".join(chance.sample(WORDS, 3)) + f" {step}"
                [new] = await writer.add(ADA, [content])
                ids[new] = content
            case "edit" if ids:
                changed = chance.choice(sorted(ids))
                ids[changed] = " ".join(chance.sample(WORDS, 3)) + f" {step}"
                await writer.edit(ADA, changed, content=ids[changed])
            case "forget" if ids:
                id = chance.choice(sorted(ids))
                await writer.forget(ADA, [id])
                del ids[id]
            case "begin":
                writer.store.memories.indexes.drop()
            case _:
                word = chance.choice(WORDS)
                cosines, others = [
                    {
                        hit.memory.content: hit.cosine
                        for hit in await memories.recall(ADA, word, limit=100, deliver=False)
                    }
                    for memories in pair
                ]
                # the database works with another precision than the memory
                assert cosines == pytest.approx(others, abs=1.5e-6)
                holding = {content for content in ids.values() if word in content}
                assert holding <= cosines.keys() <= set(ids.values())
