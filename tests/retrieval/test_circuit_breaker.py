"""A model that hangs costs its time-out a few times, not every search."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Any

import pytest

from kagent_memory import Memories
from kagent_memory.errors import ModelError, ModelUnavailable
from kagent_memory.records import Scope
from kagent_memory.retrieval import circuit_breaker
from kagent_memory.retrieval.circuit_breaker import FAILURES, CircuitBreaker
from kagent_memory.testing import HashEmbedder

SCOPE = Scope("", "ada", "app")


class Time:
    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    clock = Time()
    monkeypatch.setattr(circuit_breaker, "time", clock)
    return clock


def fail(breaker: CircuitBreaker, time: Time, seconds: float) -> None:
    def call() -> None:
        with breaker.guard():
            time.now += seconds
            raise ModelError("gone")

    with pytest.raises(ModelError, match="gone"):
        call()


def test_slow_failures_in_a_row_open_it(time: Time) -> None:
    """One success closes it again."""
    breaker = CircuitBreaker("embedder")
    for _ in range(FAILURES - 1):
        fail(breaker, time, 2.0)
    with breaker.guard():
        pass
    for _ in range(FAILURES):
        fail(breaker, time, 2.0)
    with pytest.raises(
        ModelUnavailable,
        match="embedder did not answer 3 times in a row; it is asked again in 30 s",
    ):
        breaker.guard().__enter__()
    time.now += 31
    fail(breaker, time, 2.0)  # the try fails, and it is open again
    with pytest.raises(ModelUnavailable):
        breaker.guard().__enter__()
    time.now += 31
    # while one tries, the others do not wait
    with breaker.guard(), pytest.raises(ModelUnavailable):
        breaker.guard().__enter__()
    with breaker.guard():
        pass


def test_quick_failures_never_open_it(time: Time) -> None:
    breaker = CircuitBreaker("embedder")
    for _ in range(20):
        fail(breaker, time, 0.1)


class Models(HashEmbedder):
    """An embedder, a language model and a reranker that hang while they are told to."""

    def __init__(self) -> None:
        super().__init__(64)
        self.hangs = False
        self.asked = {"embed": 0, "complete": 0, "rerank": 0}

    async def _wait(self, what: str) -> None:
        self.asked[what] += 1
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


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Models:
    monkeypatch.setattr(circuit_breaker, "SLOW_SECONDS", 0.01)
    return Models()


async def test_searches_go_on_at_once_by_words_and_come_back(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models that hang cost three searches their time-out; later ones ask them again."""
    options: dict[str, Any] = {"llm": models, "rerank": models, "rewrite": True}
    async with await Memories.open(
        "libsql:///:memory:",
        embedding=models,
        search_timeout_seconds=0.5,  # in which they answer on a busy machine, too
        **options,
    ) as memories:
        await memories.add(SCOPE, ["Ada likes tea", "Grace likes tea and milk"])
        assert (await memories.recall(SCOPE, "tea")).mode == "hybrid"
        models.hangs, models.asked = True, dict.fromkeys(models.asked, 0)
        # another text each time: what was embedded once is not asked again
        for number in range(FAILURES + 5):
            answer = await memories.recall(SCOPE, f"tea {number}", timeout_seconds=60)
            assert (answer.mode, len(answer)) == ("keyword", 2)
            assert len(answer.degraded) == 3
        assert models.asked == {"embed": FAILURES, "complete": FAILURES, "rerank": FAILURES}
        assert "asked again in" in str(answer.degraded)
        models.hangs = False
        later = Time()
        later.now = monotonic() + 31
        monkeypatch.setattr(circuit_breaker, "time", later)
        answer = await memories.recall(SCOPE, "tea again")
        assert (answer.mode, answer.degraded) == ("hybrid", ())
