"""A model that hangs costs its time-out a few times, not every search."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from threading import Thread, current_thread
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest
from memories.opening import ADA, opened

from kagent_memory.errors import InvalidInput, ModelError
from kagent_memory.retrieval import search as search_module
from kagent_memory.retrieval.question import Question
from kagent_memory.retrieval.search import MAX_FAILURES
from kagent_memory.testing import HashEmbedder


class Models(HashEmbedder):
    """An embedder, a language model and a reranker that hang, or fail at once, as they are told."""

    def __init__(self) -> None:
        super().__init__(64)
        self.hangs = self.fails = False
        self.asked = {"embed": 0, "complete": 0, "rerank": 0}

    async def _wait(self, what: str) -> None:
        self.asked[what] += 1
        if self.fails:
            raise ModelError("gone")
        if self.hangs:
            await asyncio.sleep(600)

    async def embed(self, texts: Sequence[str], *, kind: Any) -> Any:
        if kind == "query":
            await self._wait("embed")
        return await super().embed(texts, kind=kind)

    async def complete(self, prompt: str, *, schema: Any) -> Any:
        await self._wait("complete")
        return schema(query="tea")

    async def rerank(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        await self._wait("rerank")
        return [0.5] * len(documents)


async def test_hanging_models_cost_three_searches(monkeypatch: pytest.MonkeyPatch):
    """Later searches go on at once without them, one tries again after a pause, and a success
    brings them back.
    """
    monkeypatch.setattr(search_module, "SLOW_SECONDS", 0.01)
    models, asked = Models(), 0
    options: dict[str, Any] = {"llm": models, "rerank": models, "rewrite": True}
    async with await opened(
        embedding=models,
        search_timeout_seconds=0.5,  # in which they answer on a busy machine, too
        **options,
    ) as memories:
        await memories.add(ADA, ["Ada likes tea", "Grace likes tea and milk"])

        async def search(count: int, *degraded: str) -> None:
            """Ask another question each time: what was embedded once is not asked for again."""
            nonlocal asked
            for _ in range(count):
                asked += 1
                answer = await memories.recall(ADA, f"tea {asked}", timeout_seconds=60)
                assert len(answer) == 2
                assert [text.partition(":")[0] for text in answer.degraded] == [*degraded]
                assert answer.mode == ("keyword" if degraded else "hybrid")
            if count > MAX_FAILURES:
                assert "it is asked again in" in str(answer.degraded)

        parts = ("rewrite", "embedder", "rerank")
        await search(1)
        models.hangs, models.asked = True, dict.fromkeys(models.asked, 0)
        await search(MAX_FAILURES + 5, *parts)
        assert set(models.asked.values()) == {MAX_FAILURES}
        later = monotonic() + 31
        monkeypatch.setattr(search_module, "time", SimpleNamespace(monotonic=lambda: later))
        await search(2, *parts)
        assert set(models.asked.values()) == {MAX_FAILURES + 1}
        later += 31
        models.hangs = False
        await search(2)


async def test_quick_failures_are_asked_again():
    """They cost nobody anything."""
    models = Models()
    async with await opened(embedding=models) as memories:
        await memories.add(ADA, ["Ada likes tea"])
        models.fails = True
        for number in range(MAX_FAILURES + 2):
            before = models.asked["embed"]
            assert len(await memories.recall(ADA, f"tea {number}")) == 1
            assert models.asked["embed"] > before


async def test_callers_who_give_up_spare_the_next_ones(monkeypatch: pytest.MonkeyPatch):
    """A search that is cancelled while it waits counts as a failure, and after the pause one search
    waits for the model, not all.
    """
    monkeypatch.setattr(search_module, "SLOW_SECONDS", 0.01)
    models = Models()
    async with await opened(embedding=models, search_timeout_seconds=0.5) as memories:
        await memories.add(ADA, ["Ada likes tea"])
        models.hangs = True
        for number in range(MAX_FAILURES):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):  # less than a model is waited for
                    await memories.recall(ADA, f"tea {number}")
        assert "it is asked again in" in str((await memories.recall(ADA, "tea")).degraded)
        assert models.asked["embed"] == MAX_FAILURES
        later = monotonic() + 31
        monkeypatch.setattr(search_module, "time", SimpleNamespace(monotonic=lambda: later))
        await asyncio.gather(*(memories.recall(ADA, f"tea or {number}") for number in range(3)))
        assert models.asked["embed"] == MAX_FAILURES + 1


async def test_a_search_ends_within_its_callers_time_whatever_hangs():
    """A search ends in its caller's time though models hang, and says what it did without."""
    models = Models()
    async with await opened(
        embedding=models, rerank=models, redact=lambda text: sleep(0.1) or text
    ) as memories:
        await memories.add(ADA, ["Ada likes tea", "Grace likes tea and milk"])
        models.hangs, started = True, monotonic()
        recall = await memories.recall(ADA, "Which tea for Ada?", timeout_seconds=2.0)
        assert monotonic() - started < 20
        assert (recall.mode, recall[0].memory.content) == ("keyword", "Ada likes tea")
        assert [trouble.split(" ")[0] for trouble in recall.degraded] == ["embedder:", "rerank:"]
        # what was spent before the search is spent for models too
        recall = await memories.recall(ADA, "tea", timeout_seconds=0.1)
        assert "no answer within 0 s" in recall.degraded[0]
        for wrong in (0, -1.0, float("nan")):
            with pytest.raises(InvalidInput, match="timeout_seconds"):
                await memories.recall(ADA, "tea", timeout_seconds=wrong)


async def test_no_long_turn_is_read_on_the_event_loop(monkeypatch: pytest.MonkeyPatch):
    """A short query with long turns before it is parsed in a thread."""
    threads, read = list[Thread](), Question.read

    def noted(*given: Any) -> Question:
        threads.append(current_thread())
        return read(*given)

    monkeypatch.setattr(Question, "read", noted)
    async with await opened() as memories:
        await memories.recall(ADA, "And that?", history=["Ada likes tea. " * 1000])
    assert threads
    assert current_thread() not in threads
