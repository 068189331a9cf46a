"""A store is embedded anew by another model: beside the vectors it has, where it stopped, and with nothing lost."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from kagent_memory import Memories
from kagent_memory.errors import ConfigurationError, Conflict, InvalidInput, ModelUnavailable
from kagent_memory.records import Filter, Scope
from kagent_memory.retrieval.ranking import in_one_scale
from kagent_memory.testing import HashEmbedder

ADA, BEN = Scope("acme", "ada", "notes"), Scope("acme", "ben", "notes")
OLD, NEW = "before", "after"


class Model(HashEmbedder):
    """An embedder that counts documents, and waits or fails when it is told to."""

    def __init__(self, name: str, dimensions: int = 32) -> None:
        super().__init__(dimensions, name)
        self.documents: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.down_after = 10**9

    async def embed(self, texts, *, kind):
        if kind == "document":
            if len(self.documents) >= self.down_after:
                raise ModelUnavailable("The embedder is down.")
            await self.gate.wait()
            self.documents += [text for text in texts if "quick brown fox" not in text]
        return await super().embed(texts, kind=kind)


class Senses:
    """Knows which of two meanings a text has, whatever its words."""

    def __init__(self, name: str, meanings: dict[str, int]) -> None:
        self.name = name
        self._meanings = meanings

    async def embed(self, texts, *, kind):
        rows = np.full((len(texts), 8), 0.05, np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[self._meanings.get(text, 7)] = 1.0
        return rows


async def filled(uri: str, count: int = 20, model: Model | None = None) -> None:
    async with await Memories.open(uri, embedding=model or Model(OLD), worker=False) as memories:
        await memories.add(ADA, [f"Ada keeps the key number {number}." for number in range(count)])
        await memories.add(BEN, ["Ben drinks coffee."])


async def lacking(memories: Memories, scope: Scope, name: str) -> int:
    [number] = [space.number for space in await memories.store.embedding_spaces() if space.name == name]
    return len(await memories.store.unembedded(scope, number, limit=1000, now=datetime.now(UTC)))


async def states(memories: Memories) -> dict[str, str]:
    return {space.name: space.state for space in await memories.store.embedding_spaces()}


async def test_the_refusal_names_the_command_and_the_store_goes_over_as_a_whole(store_uri):
    await filled(store_uri)
    with pytest.raises(ConfigurationError, match=r"kagent-memory reembed --embedding after"):
        await Memories.open(store_uri, embedding=Model(NEW, 48))
    told = []
    async with await Memories.open(store_uri, worker=False, batch_size=4) as memories:
        done = await memories.reembed(Model(NEW, 48), progress=told.append)
        assert (done.embedding, done.dimensions, done.memories, done.dropped) == (NEW, 48, 21, ())
        assert told == sorted(told)
        assert told[-1] == 21
        assert await states(memories) == {OLD: "retired", NEW: "current"}
    async with await Memories.open(store_uri, embedding=Model(NEW, 48), worker=False) as memories:
        answer = await memories.recall(ADA, "which key has the number 7", min_score=0.1, explain=True)
        assert answer.mode == "hybrid"
        assert all(hit.cosine is not None for hit in answer.hits)
    with pytest.raises(ConfigurationError, match=r"'after' .*was given"):
        await Memories.open(store_uri, embedding=Model(OLD))


async def test_an_embedder_that_goes_down_in_the_middle_is_asked_for_the_rest_alone(store_uri):
    await filled(store_uri)
    first = Model(NEW)
    first.down_after = 8
    async with await Memories.open(store_uri, worker=False, batch_size=4) as memories:
        with pytest.raises(ModelUnavailable):
            await memories.reembed(first)
        assert await states(memories) == {OLD: "current", NEW: "filling"}
        left = await lacking(memories, ADA, NEW) + await lacking(memories, BEN, NEW)
        assert 0 < left < 21
        second = Model(NEW)
        assert (await memories.reembed(second)).memories == left
        assert not {*second.documents} & {*first.documents[:8]}
        third = Model(NEW)
        assert (await memories.reembed(third)).memories == 0
        assert third.documents == []


async def test_the_call_that_goes_on_brings_the_embedder_that_is_asked_from_then_on(store_uri):
    await filled(store_uri)
    down = Model(NEW)
    down.down_after = 8
    async with await Memories.open(store_uri, embedding=Model(OLD), worker=False, batch_size=4) as memories:
        with pytest.raises(ModelUnavailable):
            await memories.reembed(down)
        await memories.reembed(Model(NEW))
        [id] = await memories.add(ADA, ["Ada's bicycle is blue."])
        assert await lacking(memories, ADA, NEW) == 0
        await memories.edit(ADA, id, content="Ada's bicycle is green.")
        assert await lacking(memories, ADA, NEW) == 0


KILLED = """
    import asyncio, os, signal, sys
    sys.path.insert(0, sys.argv[2])
    from test_reembedding import Model, NEW
    from kagent_memory import Memories

    def told(done):
        if done >= 16:
            os.kill(os.getpid(), signal.SIGKILL)

    async def main():
        async with await Memories.open(sys.argv[1], worker=False, batch_size=4) as memories:
            await memories.reembed(Model(NEW), progress=told)

    asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform.startswith("win"), reason="nothing is killed like that there")
async def test_killed_at_forty_per_cent_nothing_is_done_twice(store_uri):
    await filled(store_uri, 40)
    command = [sys.executable, "-c", textwrap.dedent(KILLED), store_uri, str(Path(__file__).parent)]
    ended = await asyncio.to_thread(subprocess.run, command, env=dict(os.environ), capture_output=True, timeout=300)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    async with await Memories.open(store_uri, embedding=Model(OLD), worker=False, batch_size=4) as memories:
        left = {
            memory.content
            for scope in (ADA, BEN)
            for memory in await memories.store.unembedded(
                scope, (await memories.store.embedding_spaces())[-1].number, limit=99, now=datetime.now(UTC)
            )
        }
        assert 0 < len(left) <= 41 - 16
        assert [hit.memory.content for hit in await memories.recall(BEN, "coffee")] == ["Ben drinks coffee."]
        model = Model(NEW)
        assert (await memories.reembed(model, drop_old=True)).dropped == (OLD,)
        assert sorted(model.documents) == sorted(left)
        assert await states(memories) == {NEW: "current"}


async def test_meanwhile_a_memory_is_found_by_either_embedder_and_none_twice(store_uri):
    meanings = {"Quaxel mimtor": 0, "Where is the boat?": 0, "Blonfi tarrup": 1, "When is the feast?": 1}
    async with await Memories.open(store_uri, embedding=Senses(OLD, meanings), worker=False) as memories:
        await memories.add(ADA, ["Quaxel mimtor", "Nothing of that", "Nor of this", "Nor of that one"])
        stuck = asyncio.Event()
        new = Senses(NEW, meanings)

        async def once(done: int) -> None:
            stuck.set()
            await asyncio.Event().wait()

        plain = new.embed

        async def held(texts, *, kind):
            if kind == "document" and any("Nothing" in text for text in texts):
                await once(0)
            return await plain(texts, kind=kind)

        new.embed = held
        task = asyncio.create_task(memories.reembed(new))
        await asyncio.wait_for(stuck.wait(), 120)
        await memories.add(ADA, ["Blonfi tarrup"])  # goes to the new space
        assert await lacking(memories, ADA, NEW) == 4
        for query, wanted in (("Where is the boat?", "Quaxel mimtor"), ("When is the feast?", "Blonfi tarrup")):
            found = [hit.memory.content for hit in await memories.recall(ADA, query, limit=10)]
            assert found[0] == wanted, query
            assert len(found) == len({*found}) == 5
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        new.embed = plain
        await memories.reembed(new)
        found = [hit.memory.content for hit in await memories.recall(ADA, "When is the feast?", limit=10)]
        assert (found[0], len({*found})) == ("Blonfi tarrup", 5)
        assert (await memories.recall(ADA, "When is the feast?")).degraded == ()


async def test_a_process_that_is_ahead_goes_by_words_meanwhile_and_is_told_so(store_uri, caplog):
    meanings = {"Quaxel mimtor": 0, "Where is the boat?": 0}
    async with await Memories.open(store_uri, embedding=Senses(OLD, meanings), worker=False) as memories:
        await memories.add(ADA, ["Quaxel mimtor", "Nothing of that"])
        await memories.store.replace_embedding_space(NEW, 8, None)
    async with await Memories.open(store_uri, embedding=Senses(NEW, {}), worker=False) as memories:
        await memories.add(ADA, ["Said since"])
        assert await lacking(memories, ADA, NEW) == 2
        assert "Quaxel mimtor" in [hit.memory.content for hit in await memories.recall(ADA, "quaxel")]
    async with await Memories.open(store_uri, embedding=Senses(OLD, meanings), worker=False) as memories:
        [first, *_] = (await memories.recall(ADA, "Where is the boat?")).hits
        assert first.memory.content == "Quaxel mimtor"
    with caplog.at_level(logging.WARNING, "kagent_memory"):
        async with await Memories.open(store_uri, embedding=Senses(NEW, {})) as memories:
            assert await lacking(memories, ADA, NEW) == 2  # that is the command's work
            assert (await memories.recall(ADA, "nothing")).mode == "hybrid"
    assert f"Open the store with embedding={OLD!r} until that is done" in caplog.text


@pytest.mark.parametrize("drop", [False, True])
async def test_a_process_that_still_has_the_former_embedder_loses_nothing(store_uri, drop):
    await filled(store_uri)
    stale = Model(OLD)
    async with await Memories.open(store_uri, embedding=stale, worker=False) as behind:
        assert (await behind.recall(ADA, "key")).mode == "hybrid"
        async with await Memories.open(store_uri, worker=False) as memories:
            await memories.reembed(Model(NEW), drop_old=drop)
        await behind.add(ADA, ["Ada grows quinces."])
        assert [hit.memory.content for hit in await behind.recall(ADA, "quinces", limit=1)] == ["Ada grows quinces."]
        answer = await behind.recall(BEN, "coffee")
        assert [hit.memory.content for hit in answer] == ["Ben drinks coffee."]
        assert (answer.mode, len(answer.degraded)) == (("keyword", 1) if drop else ("hybrid", 0))
        await behind.work(until_idle=True)  # it cannot do the job, and leaves it
        [job] = await behind.jobs()
        assert (job.kind, job.model) == ("embed", NEW)
    model = Model(NEW)
    later = datetime.now(UTC).replace(year=datetime.now(UTC).year + 1)
    async with await Memories.open(
        store_uri, embedding=model, worker=False, clock=lambda: later, ttl_days=0
    ) as memories:
        [job] = await memories.jobs()
        await memories.work(until_idle=True)
        assert list(await memories.jobs()) == []
    async with await Memories.open(store_uri, embedding=model, worker=False) as memories:
        assert await lacking(memories, ADA, NEW) in (0, 1)


async def test_what_is_written_by_others_until_the_end_is_embedded_before_it(store_uri):
    await filled(store_uri, 4)
    async with (
        await Memories.open(store_uri, embedding=Model(OLD), worker=False) as other,
        await Memories.open(store_uri, worker=False, batch_size=2) as memories,
    ):
        said = 0

        async def say() -> None:
            nonlocal said
            for number in range(10):
                await other.add(ADA, [f"Ada said {number} meanwhile."])
                said += 1

        model = Model(NEW)
        model.gate.clear()
        task = asyncio.create_task(memories.reembed(model))
        await asyncio.sleep(0)
        talking = asyncio.create_task(say())
        model.gate.set()
        await asyncio.gather(task, talking)
        late = await lacking(memories, ADA, NEW)
        jobs = [job for job in await memories.jobs() if job.kind == "embed" and job.model == NEW]
        assert said == 10
        assert not late or jobs  # what came after the last look waits in the queue
    async with await Memories.open(store_uri, embedding=Model(NEW), worker=False) as memories:
        await memories.work(until_idle=True)
        assert await lacking(memories, ADA, NEW) == 0


async def test_back_to_the_former_costs_what_was_written_since_and_all_once_it_is_dropped(store_uri):
    await filled(store_uri)
    async with await Memories.open(store_uri, worker=False) as memories:
        await memories.reembed(Model(NEW))
    async with await Memories.open(store_uri, embedding=Model(NEW), worker=False) as memories:
        await memories.add(BEN, ["Ben drinks tea."])
        back = Model(OLD)
        assert (await memories.reembed(back)).memories == 1
        assert back.documents == ["Ben drinks tea."]
        assert (await memories.recall(BEN, "tea")).mode == "hybrid"
        await memories.reembed(Model(NEW), drop_old=True)
        numbers = [space.number for space in await memories.store.embedding_spaces()]
        again = Model(OLD)
        assert (await memories.reembed(again)).memories == 22
        assert max(space.number for space in await memories.store.embedding_spaces()) > max(numbers)


async def test_another_choice_meanwhile_ends_the_first(store_uri):
    await filled(store_uri, 8)
    async with await Memories.open(store_uri, worker=False, batch_size=2) as memories:
        first = Model(NEW)
        first.gate.clear()
        task = asyncio.create_task(memories.reembed(first))
        async with asyncio.timeout(120):
            while NEW not in await states(memories):
                first.gate.set()
                await asyncio.sleep(0)
                first.gate.clear()
        await memories.reembed(Model("third"))
        first.gate.set()
        with pytest.raises(Conflict):
            await task
        assert await states(memories) == {OLD: "retired", NEW: "retired", "third": "current"}
        assert sorted(await memories.store.drop_retired()) == [NEW, OLD]


async def test_a_keyword_store_gets_its_first_embedder_and_callers_vectors_stay(store_uri):
    async with await Memories.open(store_uri, worker=False) as memories:
        await memories.add(ADA, ["Ada keeps bees."])
        await memories.add(BEN, ["Ben's own"], embedding=[np.ones(5, np.float32)])
        with pytest.raises(ConfigurationError, match="Name the embedder"):
            await memories.reembed()
        assert (await memories.reembed(Model(NEW), drop_old=True)).memories == 2
        assert await states(memories) == {NEW: "current", "external-5": "current"}
        [(memory, cosine)] = await memories.nearest(BEN, np.ones(5, np.float32), limit=3)
        assert (memory.content, cosine) == ("Ben's own", 1.0)


async def test_forgetting_and_editing_meanwhile_reach_both_spaces(store_uri):
    await filled(store_uri, 6)
    async with await Memories.open(store_uri, embedding=Model(OLD), worker=False, batch_size=2) as memories:
        first = Model(NEW)
        first.down_after = 4
        with pytest.raises(ModelUnavailable):
            await memories.reembed(first)
        first.down_after = 10**9
        page = await memories.list(ADA, filter=Filter(), limit=10)
        gone, edited = page.memories[0], page.memories[1]
        await memories.forget(ADA, gone.id)
        await memories.edit(ADA, edited.id, content="Ada keeps no key at all.")
        for space in await memories.store.embedding_spaces():
            [found] = await memories.store.view(ADA, now=datetime.now(UTC)).nearest(
                space.number, [np.ones(32, np.float32)], limit=20
            )
            assert gone.id not in dict(found)
            assert (edited.id in dict(found)) is (space.name == NEW)
        await memories.reembed(first)
        assert await lacking(memories, ADA, NEW) == 0


async def test_a_search_of_a_dropped_space_says_so(store_uri):
    await filled(store_uri, 2)
    async with await Memories.open(store_uri, worker=False) as behind:
        [old] = await behind.store.embedding_spaces()
        vector = np.ones(32, np.float32)
        await behind.store.view(ADA, now=datetime.now(UTC)).nearest(old.number, [vector], limit=1)
        async with await Memories.open(store_uri, worker=False) as memories:
            await memories.reembed(Model(NEW), drop_old=True)
        with pytest.raises(InvalidInput, match="no embedding space"):
            await behind.store.view(ADA, now=datetime.now(UTC)).nearest(old.number, [vector], limit=1)


def test_two_scales_become_one():
    former = [("a", 0.6), ("b", 0.5), ("c", 0.4), ("d", 0.3), ("e", 0.2)]
    new = [("new", 0.95), ("a", 0.9), ("b", 0.85), ("c", 0.8), ("d", 0.75), ("e", 0.7), ("far", 0.7)]
    assert in_one_scale(new, former) == [("new", 0.7), *former[:4], ("far", 0.2), ("e", 0.2)]
    assert in_one_scale([], former) == former
    assert in_one_scale(new, []) == sorted(new, key=lambda hit: (hit[1], hit[0]), reverse=True)
    assert in_one_scale([("x", 0.9), ("a", 0.8)], [("a", 0.1)]) == [("x", 0.2), ("a", 0.1)]
