"""Embedding costs nothing twice: what is kept, and what never is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from kagent_memory import Memories, Scope, telemetry
from kagent_memory.errors import ModelUnavailable
from kagent_memory.retrieval.embedding_cache import EmbeddingCache
from kagent_memory.testing.scripted_models import HashEmbedder

ADA = Scope("acme", "ada", "notes")
BOB = Scope("rival", "bob", "notes")


class Asked:
    """Answers, and remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    async def __call__(self, texts: Sequence[str]):
        self.calls.append([*texts])
        await asyncio.sleep(0)
        if "bad" in texts:
            raise ModelUnavailable("away")
        return [np.full(4, float(len(text)), np.float32) for text in texts]


async def test_a_text_is_asked_for_once_in_order():
    """Answers keep the order of the texts, and a text of another tenant is another one."""
    ask = Asked()
    cache = EmbeddingCache(ask, "document", max_bytes=2**20)
    found = await cache.vectors(["a", "bb", "a", "ccc"], tenant="t")
    assert [row[0] for row in found] == [1, 2, 1, 3]
    found = await cache.vectors(["ccc", "dddd", "a"], tenant="t")
    assert [row[0] for row in found] == [3, 4, 1]
    assert ask.calls == [["a", "bb", "ccc"], ["dddd"]]
    [row] = await cache.vectors(["a"], tenant="u")
    assert len(ask.calls) == 3
    with pytest.raises(ValueError, match="read-only"):
        row[0] = 9


async def test_errors_are_not_kept():
    ask = Asked()
    cache = EmbeddingCache(ask, "document", max_bytes=2**20)
    for _ in range(2):
        with pytest.raises(ModelUnavailable):
            await cache.vectors(["bad", "good"], tenant="t")
    assert (len(ask.calls), len(cache)) == (2, 0)


async def test_it_stays_within_its_bytes_and_its_time():
    ask = Asked()
    cache = EmbeddingCache(ask, "document", max_bytes=25_000, seconds=0.05)
    await cache.vectors([f"{n}" for n in range(1000)], tenant="t")
    assert 20 < len(cache) <= 60
    await asyncio.sleep(0.1)
    assert len(cache) == 0
    none = EmbeddingCache(ask, "document", max_bytes=0)
    for _ in range(2):
        await none.vectors(["a"], tenant="t")
    assert (len(none), len(ask.calls)) == (0, 3)


async def test_forgetting_also_holds_for_what_is_under_way():
    cache = EmbeddingCache(Asked(), "document", max_bytes=2**20)
    caller = asyncio.create_task(cache.vectors(["a"], tenant="t"))
    await asyncio.sleep(0)
    cache.clear()
    assert (await caller)[0][0] == 1
    assert len(cache) == 0


# -- in memories


class Looks:
    def __init__(self) -> None:
        self.counts: dict[tuple[object, object], float] = {}

    def measured(self, name, value, attributes):
        if name == "cache":
            key = attributes["cache"], attributes["result"]
            self.counts[key] = self.counts.get(key, 0) + value


async def test_memories_embed_nothing_twice_and_tell_so():
    embedder, looks = HashEmbedder(), Looks()
    telemetry.listen(looks)
    async with await Memories.open(
        "libsql:///:memory:", embedding=embedder, worker=False
    ) as memories:
        await memories.add(ADA, ["The gate code is 4711."])
        await memories.add(Scope("acme", "eve", "notes"), ["The gate code is 4711."])
        assert [texts for texts, kind in embedder.calls if "4711" in texts[0]] == [
            ("The gate code is 4711.",)
        ]
        for _ in range(3):
            assert (await memories.recall(ADA, "which code opens the gate?")).hits
        assert sum(kind == "query" for _, kind in embedder.calls) == 1
        await memories.recall(BOB, "which code opens the gate?")
        assert sum(kind == "query" for _, kind in embedder.calls) == 2
    assert looks.counts["documents", "hit"] == 1
    assert looks.counts["queries", "hit"] >= 2
    assert looks.counts["queries", "miss"] >= 2


@pytest.mark.parametrize("way", ["ids", "everything", "tenant", "prune"])
async def test_forgetting_leaves_no_vector_behind(way: str):
    options = {"embedding": HashEmbedder(), "worker": False, "max_memories": 1}
    async with await Memories.open("libsql:///:memory:", **options) as memories:
        [id, _] = await memories.add(ADA, ["The gate code is 4711.", "Ada likes tea."])
        assert memories.parts.vectors is not None
        cache = memories.parts.vectors._caches["document"]
        assert len(cache) == 2
        match way:
            case "ids":
                await memories.forget(ADA, id)
            case "everything":
                await memories.forget(ADA, everything=True)
            case "tenant":
                await memories.forget_tenant("acme")
            case _:
                assert (await memories.prune()).evicted == 1
        assert len(cache) == 0


async def test_a_check_asks_the_embedder_itself():
    embedder = HashEmbedder()
    async with await Memories.open(
        "libsql:///:memory:", embedding=embedder, worker=False
    ) as memories:
        for _ in range(2):
            assert (await memories.check())["embedding"] == "ok"
        assert sum(texts == ("ping",) for texts, _ in embedder.calls) == 2
