"""Embedding costs nothing twice: what is kept, shared and batched, and what never is."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Sequence

import numpy as np
import pytest

from kagent_memory import Memories, Scope, telemetry
from kagent_memory.errors import ModelError, ModelUnavailable, UnusableAnswer
from kagent_memory.retrieval.embedding_cache import EmbeddingCache
from kagent_memory.testing.scripted_models import HashEmbedder

ADA = Scope("acme", "ada", "notes")
BOB = Scope("rival", "bob", "notes")


class Asked:
    """Answers when it is let, and remembers what it was asked."""

    def __init__(self, *, open: bool = True) -> None:
        self.calls: list[list[str]] = []
        self.gate = asyncio.Event()
        self.refuses: dict[str, Exception] = {}
        self.cancelled = 0
        if open:
            self.gate.set()

    async def __call__(self, texts: Sequence[str], kind: str):
        self.calls.append([f"{text}" for text in texts])
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        for text in texts:
            if text in self.refuses:
                raise self.refuses[text]
        return [np.full(4, float(len(text)), np.float32) for text in texts]


def cached(ask: Asked, *, batch_size: int = 64, max_bytes: int = 2**20, seconds: float = 600.0) -> EmbeddingCache:
    return EmbeddingCache(ask, batch_size=batch_size, max_bytes=max_bytes, seconds=seconds)


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 a few turns of the loop, which nothing announces
            await asyncio.sleep(0)


async def test_a_text_is_asked_for_once_and_answers_keep_their_order():
    ask = Asked()
    cache = cached(ask)
    found = await cache.vectors(["a", "bb", "a", "ccc"], "document", tenant="t")
    assert [row[0] for row in found] == [1, 2, 1, 3]
    found = await cache.vectors(["ccc", "dddd", "a"], "document", tenant="t")
    assert [row[0] for row in found] == [3, 4, 1]
    assert ask.calls == [["a", "bb", "ccc"], ["dddd"]]


async def test_documents_queries_and_tenants_are_kept_apart():
    ask = Asked()
    cache = cached(ask)
    for tenant in ("t", "u", "t", "u"):
        for kind in ("document", "query"):
            await cache.vectors(["a"], kind, tenant=tenant)
    assert len(ask.calls) == 4


async def test_nobody_may_write_to_what_is_shared():
    cache = cached(Asked())
    [row] = await cache.vectors(["a"], "query", tenant="t")
    with pytest.raises(ValueError, match="read-only"):
        row[0] = 9


async def test_equal_requests_under_way_are_joined_also_across_other_texts():
    ask = Asked(open=False)
    cache = cached(ask)
    first = asyncio.create_task(cache.vectors(["a", "b"], "query", tenant="t"))
    await until(lambda: ask.calls)
    others = [asyncio.create_task(cache.vectors(["b", "a"], "query", tenant="t")) for _ in range(20)]
    await asyncio.sleep(0.02)
    ask.gate.set()
    await asyncio.gather(first, *others)
    assert ask.calls == [["a", "b"]]


async def test_callers_fill_batches_together_while_one_is_under_way():
    ask = Asked(open=False)
    cache = cached(ask, batch_size=8)
    callers = [asyncio.create_task(cache.vectors(["first"], "document", tenant="t"))]
    await until(lambda: ask.calls)
    callers += [asyncio.create_task(cache.vectors([f"text {n}"], "document", tenant=f"{n}")) for n in range(20)]
    await until(lambda: len(ask.calls) == 4)
    ask.gate.set()
    await asyncio.gather(*callers)
    assert [len(call) for call in ask.calls] == [1, 8, 8, 4]


async def test_a_lone_caller_does_not_wait_for_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kagent_memory.retrieval.embedding_cache.FILLING_SECONDS", 3600.0)
    ask = Asked()
    async with asyncio.timeout(60):
        for number in range(5):
            await cached(ask).vectors([f"{number}"], "query", tenant="t")
    assert len(ask.calls) == 5


async def test_a_large_call_goes_by_itself_and_small_ones_beside_it():
    ask = Asked(open=False)
    cache = cached(ask, batch_size=4)
    large = asyncio.create_task(cache.vectors([f"{n:03}" for n in range(10)], "document", tenant="t"))
    small = asyncio.create_task(cache.vectors(["x", "000"], "document", tenant="t"))
    await until(lambda: len(ask.calls) == 2)
    ask.gate.set()
    await asyncio.gather(large, small)
    assert [len(call) for call in ask.calls] == [10, 1]


async def test_who_is_cancelled_takes_no_answer_from_others():
    ask = Asked(open=False)
    cache = cached(ask)
    first = asyncio.create_task(cache.vectors(["a"], "query", tenant="t"))
    await until(lambda: ask.calls)
    joined = asyncio.create_task(cache.vectors(["a"], "query", tenant="t"))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    ask.gate.set()
    assert (await joined)[0][0] == 1
    assert (ask.calls, ask.cancelled) == ([["a"]], 0)


async def test_what_nobody_waits_for_any_more_is_given_up_and_asked_for_anew():
    ask = Asked(open=False)
    cache = cached(ask)
    callers = [asyncio.create_task(cache.vectors(["a"], "query", tenant="t")) for _ in range(3)]
    await until(lambda: ask.calls)
    filling = asyncio.create_task(cache.vectors(["b"], "query", tenant="t"))
    await asyncio.sleep(0)
    for caller in (*callers, filling):
        caller.cancel()
    await asyncio.wait([*callers, filling])
    ask.gate.set()
    again = await cache.vectors(["a"], "query", tenant="t")
    await asyncio.sleep(0.02)
    assert (again[0][0], ask.calls, ask.cancelled) == (1, [["a"], ["a"]], 1)


async def test_errors_are_told_to_all_who_wait_and_never_kept():
    ask = Asked(open=False)
    cache = cached(ask)
    ask.refuses = {"a": ModelUnavailable("away")}
    callers = [asyncio.create_task(cache.vectors(["a"], "document", tenant="t")) for _ in range(3)]
    await until(lambda: ask.calls)
    ask.gate.set()
    told = await asyncio.gather(*callers, return_exceptions=True)
    assert [str(error) for error in told] == ["away"] * 3
    ask.refuses = {}
    assert (await cache.vectors(["a"], "document", tenant="t"))[0][0] == 1
    assert ask.calls == [["a"], ["a"]]


@pytest.mark.parametrize("refusal", [ModelError("too long"), UnusableAnswer("zeros")])
async def test_one_callers_text_costs_nobody_else_the_answer(refusal: Exception):
    ask = Asked(open=False)
    cache = cached(ask)
    ask.refuses = {"bad": refusal}
    opening = asyncio.create_task(cache.vectors(["first"], "document", tenant="t"))
    await until(lambda: ask.calls)
    callers = [
        asyncio.create_task(cache.vectors(texts, "document", tenant="t"))
        for texts in (["good"], ["bad", "fine"], ["other", "good"])
    ]
    await until(lambda: len(ask.calls) == 2)
    ask.gate.set()
    await opening
    good, bad, other = await asyncio.gather(*callers, return_exceptions=True)
    assert bad is refusal
    assert [row[0] for row in (*good, *other)] == [4, 5, 4]
    assert sorted(map(len, ask.calls)) == [1, 1, 1, 2, 4]


async def test_an_embedder_that_is_away_is_not_asked_once_more_by_each():
    ask = Asked(open=False)
    cache = cached(ask)
    ask.refuses = {"b": ModelUnavailable("away")}
    opening = asyncio.create_task(cache.vectors(["a"], "document", tenant="t"))
    await until(lambda: ask.calls)
    callers = [asyncio.create_task(cache.vectors([text], "document", tenant="t")) for text in "bcd"]
    await until(lambda: len(ask.calls) == 2)
    ask.gate.set()
    await opening
    assert [str(e) for e in await asyncio.gather(*callers, return_exceptions=True)] == ["away"] * 3
    assert len(ask.calls) == 2


async def test_it_stays_within_its_bytes_and_without_any_it_keeps_nothing():
    ask = Asked()
    cache = cached(ask, max_bytes=50_000)
    await cache.vectors([f"{n}" for n in range(1000)], "document", tenant="t")
    assert 20 < len(cache) <= 60
    none = cached(ask, max_bytes=0)
    await none.vectors(["a"], "document", tenant="t")
    await none.vectors(["a"], "document", tenant="t")
    assert (len(none), len(ask.calls)) == (0, 3)


async def test_what_is_old_is_asked_for_anew_and_kept_no_longer_though_nobody_asks():
    ask = Asked()
    cache = cached(ask, seconds=0.05)
    await cache.vectors(["a"], "query", tenant="t")
    await until(lambda: not len(cache))
    await cache.vectors(["a"], "query", tenant="t")
    assert len(ask.calls) == 2


async def test_forgetting_also_holds_for_what_is_under_way():
    ask = Asked(open=False)
    cache = cached(ask)
    caller = asyncio.create_task(cache.vectors(["a"], "document", tenant="t"))
    await until(lambda: ask.calls)
    cache.clear()
    ask.gate.set()
    assert (await caller)[0][0] == 1
    assert len(cache) == 0


async def test_no_text_is_held_once_its_vector_came():
    class Text(str):
        pass

    cache, text = cached(Asked()), Text("something secret")
    seen = weakref.ref(text)
    await cache.vectors([text], "document", tenant="t")
    del text
    await until(lambda: gc.collect() >= 0 and seen() is None)
    assert len(cache) == 1


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
    async with await Memories.open("libsql:///:memory:", embedding=embedder, worker=False) as memories:
        await memories.add(ADA, ["The gate code is 4711."])
        await memories.add(Scope("acme", "eve", "notes"), ["The gate code is 4711."])
        assert [texts for texts, kind in embedder.calls if "4711" in texts[0]] == [("The gate code is 4711.",)]
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
        assert memories._parts.vectors is not None
        cache = memories._parts.vectors._current._cache
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
    async with await Memories.open("libsql:///:memory:", embedding=embedder, worker=False) as memories:
        for _ in range(2):
            assert (await memories.check())["embedding"] == "ok"
        assert sum(texts == ("ping",) for texts, _ in embedder.calls) == 2
