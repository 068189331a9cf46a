"""Re-embedding with another model keeps old vectors meanwhile, resumes, and loses nothing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from kagent_memory import Memories
from kagent_memory.errors import ConfigurationError, ModelUnavailable
from kagent_memory.records import Scope

from .ground import Embedding, lacking, opened

ADA, BEN = Scope("acme", "ada", "notes"), Scope("acme", "ben", "notes")
OLD, NEW = "before", "after"
LONG = NEW * 300  # longer than the key of a job may be


class Senses:
    """An embedder that knows which of two meanings a text has, whatever its words."""

    def __init__(self, name: str, meanings: dict[str, int]) -> None:
        self.name = name
        self._meanings = meanings

    async def embed(self, texts, *, kind):
        rows = np.full((len(texts), 8), 0.05, np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[self._meanings.get(text, 7)] = 1.0
        return rows


async def filled(uri: str, count: int = 20) -> None:
    async with opened(uri, embedding=Embedding(OLD)) as memories:
        await memories.add(ADA, [f"Ada keeps the key number {number}." for number in range(count)])
        await memories.add(BEN, ["Ben drinks coffee."])


async def states(memories: Memories) -> dict[str, str]:
    return {space.name: space.state for space in await memories.store.memories.spaces.all()}


async def test_the_store_goes_over_as_a_whole(store_uri):
    """The store switches as a whole: the new embedder serves it, and the former one is refused."""
    await filled(store_uri)
    counts: list[int] = []
    async with opened(store_uri, batch_size=4) as memories:
        result = await memories.reembed(Embedding(NEW, 48), progress=counts.append)
        assert (result.embedding, result.dimensions, result.memories, result.dropped) == (
            NEW,
            48,
            21,
            (),
        )
        assert (counts, counts[-1]) == (sorted(counts), 21)
        assert await states(memories) == {OLD: "retired", NEW: "current"}
    async with opened(store_uri, embedding=Embedding(NEW, 48)) as memories:
        answer = await memories.recall(ADA, "which key has the number 7")
        assert all(hit.cosine is not None for hit in answer.hits)
    with pytest.raises(ConfigurationError, match=r"'after' .*was given"):
        await Memories.open(store_uri, embedding=Embedding(OLD))


async def test_a_reembedding_goes_on_with_the_rest_alone(store_uri):
    """After an outage of the embedder only the remaining memories are embedded."""
    await filled(store_uri)
    first = Embedding(NEW)
    first.down_after = 8
    async with opened(store_uri, batch_size=4) as memories:
        with pytest.raises(ModelUnavailable):
            await memories.reembed(first)
        assert await states(memories) == {OLD: "current", NEW: "filling"}
        rest = await lacking(memories, ADA, NEW) + await lacking(memories, BEN, NEW)
        assert 0 < rest < 21
        second = Embedding(NEW)
        assert (await memories.reembed(second)).memories == rest
        assert not {*second.documents} & {*first.documents[:8]}
        third = Embedding(NEW)
        assert (await memories.reembed(third)).memories == 0
        assert third.documents == []


async def test_what_an_embedder_refuses_is_asked_for_once():
    """A text that the new embedder refuses is tried once and never counted as done."""
    singles = []

    class Refusing(Embedding):
        async def embed(self, texts, *, kind):
            if "Too long" in texts:
                singles.extend(texts if len(texts) == 1 else ())
                raise ValueError("It is too long.")
            return await super().embed(texts, kind=kind)

    async with opened(batch_size=2) as memories:
        await memories.add(ADA, ["Ada grows quinces.", "Too long", "Ada drinks oolong."])
        assert (await memories.reembed(Refusing(NEW))).memories == 2
    assert singles == ["Too long"]


async def test_meanwhile_the_former_embedder_finds_everything(store_uri):
    """A memory saved during re-embedding is found at once, and embedded by both embedders in the
    end.
    """
    meanings = {"Quaxel mimtor": 0, "Where is the boat?": 0, "Blonfi tarrup": 1, "The feast?": 1}
    queries = {"Where is the boat?": "Quaxel mimtor", "The feast?": "Blonfi tarrup"}
    stuck, freed = asyncio.Event(), asyncio.Event()

    class Held(Senses):
        async def embed(self, texts, *, kind):
            if any("Nothing" in text for text in texts):
                stuck.set()
                await freed.wait()
            return await super().embed(texts, kind=kind)

    async with opened(store_uri, embedding=Senses(OLD, meanings)) as memories:
        await memories.add(ADA, ["Quaxel mimtor", "Nothing of that", "Nor of this"])
        task = asyncio.create_task(memories.reembed(Held(NEW, meanings)))
        await asyncio.wait_for(stuck.wait(), 120)
        await memories.add(ADA, ["Blonfi tarrup"])
        for is_done in (False, True):
            if is_done:
                freed.set()
                await task
                assert await lacking(memories, ADA, NEW) == 0
            for query, expected in queries.items():
                answer = await memories.recall(ADA, query, limit=10)
                assert (answer[0].memory.content, answer.degraded) == (expected, ())
                assert len(answer) == 4


async def test_a_process_that_is_ahead_goes_by_words(store_uri):
    """A process that already has the new embedder searches by words meanwhile and says so."""
    async with opened(store_uri, embedding=Senses(OLD, {})) as memories:
        await memories.add(ADA, ["Quaxel mimtor", "Nothing of that"])
        await memories.store.memories.spaces.replace(NEW, 8, None)
    async with opened(store_uri, embedding=Senses(NEW, {}), worker=True) as memories:
        await memories.add(ADA, ["Said since"])
        assert await lacking(memories, ADA, NEW) == 2  # that is the command's work
        answer = await memories.recall(ADA, "quaxel")
        assert "Quaxel mimtor" in [hit.memory.content for hit in answer]
        assert answer.degraded[0].startswith("embedder: 2 of 3 memories have no vector")


@pytest.mark.parametrize("drop", [False, True])
async def test_a_process_with_the_former_embedder_loses_nothing(store_uri, drop):
    """A process that still has the former embedder loses nothing, however long the new name is."""
    await filled(store_uri)
    async with opened(store_uri, embedding=Embedding(OLD)) as behind:
        assert (await behind.recall(ADA, "key")).mode == "hybrid"
        async with opened(store_uri) as memories:
            await memories.reembed(Embedding(LONG), drop_old=drop)
        await behind.add(ADA, ["Ada grows quinces."])
        assert (await behind.recall(ADA, "quinces"))[0].memory.content == "Ada grows quinces."
        answer = await behind.recall(BEN, "coffee")
        assert [hit.memory.content for hit in answer] == ["Ben drinks coffee."]
        assert (answer.mode, len(answer.degraded)) == (("keyword", 1) if drop else ("hybrid", 0))
        await behind.work(until_idle=True)  # it cannot do the job, and leaves it
        [job] = await behind.jobs()
        assert (job.kind, job.model) == ("embed", LONG)
    later = datetime.now(UTC) + timedelta(hours=1)  # when a job that was left is due again
    async with opened(store_uri, embedding=Embedding(LONG), clock=lambda: later) as memories:
        await memories.work(until_idle=True)
        assert list(await memories.jobs()) == []
        assert await lacking(memories, ADA, LONG) == 0


async def test_a_keyword_store_gets_its_first_embedder(store_uri):
    """A keyword store can get its first embedder and keeps callers' vectors."""
    async with opened(store_uri) as memories:
        await memories.add(ADA, ["Ada keeps bees."])
        await memories.add(BEN, ["Ben's own"], embedding=[np.ones(64, np.float32)])
        with pytest.raises(ConfigurationError, match="Name the embedder"):
            await memories.reembed()
        assert (await memories.reembed(Embedding(NEW), drop_old=True)).memories == 2
        assert await states(memories) == {NEW: "current", "external-64": "current"}
        [hit] = await memories.recall(BEN, "anything", embedding=np.ones(64, np.float32))
        assert (hit.memory.content, hit.cosine) == ("Ben's own", 1.0)
