"""What an embedder refuses: text by text, in halves, and told."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from kagent_memory import Memories, Scope
from kagent_memory.errors import ModelError, ModelUnavailable
from kagent_memory.models.embedding import CheckedEmbedder
from kagent_memory.models.failures import transient
from kagent_memory.settings import MemorySettings
from kagent_memory.testing import HashEmbedder

ADA = Scope("acme", "ada", "notes")
LONG = " ".join(f"Chapter {number} is about the tide and the ferry." for number in range(60))


class Picky(HashEmbedder):
    """Refuses a call with a text that is too long, or that holds a word it does not like."""

    def __init__(self, most_chars: int = 1000, unwanted: str = "") -> None:
        super().__init__(name="picky")
        self.most_chars = most_chars
        self.unwanted = unwanted
        self.away_after = 1_000_000

    async def embed(self, texts, *, kind):
        if len(self.calls) >= self.away_after:
            raise ModelUnavailable("The embedder is away.")
        answer = await super().embed(texts, kind=kind)
        if any(
            len(text) > self.most_chars or (self.unwanted and self.unwanted in text)
            for text in texts
        ):
            raise ModelError("The input is too long.")
        return answer


async def embedded(embedder: HashEmbedder, texts: list[str]):
    return await CheckedEmbedder(embedder, MemorySettings()).embed_each(texts, kind="document")


async def test_refused_text_costs_its_batch_nothing():
    """Every other text has the vector that it has alone, and the refused one the mean of its
    parts.
    """
    texts = [f"Memory {number}" for number in range(20)] + [LONG]
    rows = await embedded(picky := Picky(), texts)
    alone = await HashEmbedder().embed(texts, kind="document")
    assert all(np.array_equal(row, one) for row, one in zip(rows[:-1], alone[:-1], strict=True))
    assert rows[-1] @ alone[-1] / np.linalg.norm(rows[-1]) > 0.9
    assert len(picky.calls) < 20


async def test_text_refused_however_short_has_no_vector():
    """A text refused in its shortest part too gets no vector, and those beside it get theirs."""
    rows = await embedded(Picky(unwanted="forbidden"), ["fine", "a forbidden word", "fine as well"])
    assert [row is None for row in rows] == [False, True, False]


async def test_embedder_that_refuses_everything_is_asked_twice():
    """A wrong key is no reason to ask for each text."""
    picky = Picky(most_chars=0)
    with pytest.raises(ModelError):
        await embedded(picky, ["one", "two", "three", "four"])
    assert len(picky.calls) == 2


async def test_embedder_that_goes_away_is_not_taken_for_refusing():
    """An embedder that goes away is told as such at once, and asked no more in halves."""
    picky = Picky()
    picky.away_after = 4
    with pytest.raises(ModelUnavailable):
        await embedded(picky, ["one", "two", LONG])
    assert len(picky.calls) == 4


@pytest.mark.parametrize(
    "text",
    [
        "input is too large to process",
        "the input length exceeds the context length",
        "maximum 512 tokens",
    ],
)
def test_server_error_about_length_is_a_refusal(text: str):
    """llama.cpp and former Ollamas answer 500 to a text that is too long."""
    error = ModelError(text)
    error.status_code = 500
    assert not transient(error)


async def test_memories_beside_a_refused_one_have_vectors():
    """The others have vectors, and a search tells how many are found by words alone."""
    picky = Picky(unwanted="forbidden")
    async with await Memories.open("libsql:///:memory:", embedding=picky, worker=False) as memories:
        await memories.add(
            ADA, ["Ada rows at dawn.", "A forbidden word.", *(f"Note {n}" for n in range(19))]
        )
        assert not await memories.jobs()
        [space] = await memories.store.memories.spaces.all()
        assert (
            len(
                await memories.store.memories.unembedded(
                    ADA, space.number, limit=99, now=datetime.now(UTC)
                )
            )
            == 1
        )
        answer = await memories.recall(ADA, "rowing")
        assert answer.mode == "hybrid"
        assert answer.degraded == ("embedder: 1 of 21 memories are found by words alone",)


async def test_job_of_what_is_refused_comes_to_its_end():
    """More refused texts than one batch holds do not keep those behind them from being embedded."""
    picky = Picky(unwanted="forbidden")
    picky.away_after = 0
    async with await Memories.open("libsql:///:memory:", embedding=picky, worker=False) as memories:
        await memories.add(ADA, [f"A forbidden word, {number}." for number in range(300)])
        await memories.add(ADA, ["Ada rows at dawn."])
        picky.away_after = 1_000_000
        await memories.work(until_idle=True)
        assert not await memories.jobs()
        assert [hit.cosine is not None for hit in await memories.recall(ADA, "dawn", limit=1)] == [
            True
        ]
