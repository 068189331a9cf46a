"""A store that gets its first embedder embeds its memories in the background."""

from __future__ import annotations

import asyncio

from kagent_memory.records import Scope
from kagent_memory.stores.sql.memories import SqlMemoryStore

from .ground import Embedding, lacking, opened

ADA, BEN = Scope("acme", "ada", "notes"), Scope("acme", "ben", "notes")


async def filled(uri: str) -> None:
    async with opened(uri) as memories:
        await memories.add(ADA, ["Ada drinks oolong.", "Ada rows at dawn."])
        await memories.add(BEN, ["Ben drinks coffee."])


async def test_what_was_there_is_found_by_words_until_embedded(store_uri, monkeypatch):
    """Until a scope has vectors its answers are of keyword mode and say why; `drain` waits for
    them.
    """
    await filled(store_uri)
    begin, all_scopes = asyncio.Event(), SqlMemoryStore.all_scopes

    async def held_back(self, **options):
        await begin.wait()
        async for scopes in all_scopes(self, **options):
            yield scopes

    monkeypatch.setattr(SqlMemoryStore, "all_scopes", held_back)
    embedder = Embedding()
    async with opened(store_uri, embedding=embedder, worker=True) as memories:
        answer = await memories.recall(ADA, "oolong")
        assert [hit.memory.content for hit in answer] == ["Ada drinks oolong."]
        warning = "embedder: 2 of 2 memories have no vector, and are found by words alone"
        assert (answer.mode, answer.degraded) == ("keyword", (warning,))
        asyncio.get_running_loop().call_later(0.2, begin.set)
        assert await memories.drain(60)
        assert [await lacking(memories, scope, embedder.name) for scope in (ADA, BEN)] == [0, 0]
        answer = await memories.recall(ADA, "oolong")
        assert (answer.mode, answer.degraded) == ("hybrid", ())


async def test_a_store_with_all_vectors_asks_no_embedder(store_uri):
    """A store whose memories all have vectors asks no embedder."""
    embedder = Embedding()
    async with opened(store_uri, embedding=embedder) as memories:
        await memories.add(ADA, ["Ada drinks oolong."])
    embedder.documents.clear()
    async with opened(store_uri, embedding=embedder, worker=True) as memories:
        await memories.drain()
        assert not await memories.jobs()
    assert not embedder.documents
