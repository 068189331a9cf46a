"""The write path through the verbs: ingested once, masked first, without loops, with
counted costs.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from kagent_memory.memories import Memories
from kagent_memory.records import Fact
from kagent_memory.testing import FrozenClock, HashEmbedder, ScriptedLlm

from .ground import SCOPE, Embedding, a_message, contents, opened, stated, taken_in


async def test_a_session_is_taken_in_once_however_often_it_comes(store_uri: str):
    """A session is queued and then taken in once however often it comes."""
    llm = ScriptedLlm(stated)
    async with opened(store_uri, llm=llm, embedding=HashEmbedder(), worker=True) as memories:
        session = [
            a_message("Fact: The spare key is with Grace.", "e1"),
            a_message("Noted.", "e2", "agent"),
        ]
        assert await memories.remember(SCOPE, session, "s1")
        assert await memories.drain(60)
        assert await contents(memories) == ["The spare key is with Grace."]
        calls = len(llm.prompts)
        assert await memories.remember(SCOPE, session, "s1") is None
        await memories.remember(
            SCOPE, [*session, a_message("Fact: The cat is called Mog.", "e3")], "s1"
        )
        assert await memories.drain(60)
        both = ["The cat is called Mog.", "The spare key is with Grace."]
        assert await contents(memories) == both
        assert "spare key" not in llm.prompts[calls].partition("<transcript")[2]


SECRETS = ("sk-proj-" + "Ab1" * 16, "AKIA" + "IOSFODNN7EXAMPLE", "hunter2" + "horse")


async def test_no_secret_reaches_model_embedder_queue_database_or_log(
    store_uri: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """A secret is masked before a model, embedder, queue, database or log can see it."""
    text = "Fact: the keys are {} and {} and postgres://svc:{}@db.example/app.".format(*SECRETS)
    llm, embedder = ScriptedLlm(stated), Embedding()
    with caplog.at_level(logging.DEBUG, "kagent_memory"):
        async with opened(store_uri, llm=llm, embedding=embedder) as memories:
            await memories.remember(SCOPE, [a_message(text, "e1")], "s1")
            queued = str(await memories.jobs())
            await memories.add(SCOPE, [Fact(text, metadata={"note": text})])
            await memories.work(until_idle=True)
            await memories.recall(SCOPE, text)
            memories_text = [str(memory) for memory in (await memories.list(SCOPE)).memories]
    assert embedder.queries
    assert memories_text
    assert all("[secret:" in text for text in memories_text)
    outputs = [
        *llm.prompts,
        *embedder.documents,
        *embedder.queries,
        *memories_text,
        queued,
        caplog.text,
        *(file.read_bytes().decode("latin-1") for file in tmp_path.glob("memory.db*")),
    ]
    assert not [secret for secret in SECRETS for text in outputs if secret in text]


async def test_a_tail_is_taken_in_after_its_inactivity(store_uri: str):
    """The tail of a session is taken in after its inactivity across a restart."""
    clock = FrozenClock()
    async with opened(store_uri, llm=False, clock=clock) as memories:
        for number in range(3):
            tail = [a_message(f"Tail {turn}.", f"e{turn}") for turn in range(number + 1)]
            await memories.remember(SCOPE, tail, "s1", save=False, end_after_minutes=15)
            clock.advance(minutes=10)
        await memories.work(until_idle=True)
        assert not await contents(memories)
    clock.advance(minutes=10)
    async with opened(store_uri, llm=False, clock=clock) as restarted:
        assert await restarted.work(until_idle=True) == 1
        assert await contents(restarted) == ["Tail 0.", "Tail 1.", "Tail 2."]
        assert not await restarted.jobs()


async def test_a_session_has_one_summary_of_all_of_it(store_uri: str):
    """A session has one summary of all of it however often it ends."""
    prompts = list[str]()

    def summed_up(prompt: str) -> Any:
        prompts.append(prompt)
        summary = f"Summary number {len(prompts)}." if "session is over" in prompt else ""
        return {**stated(prompt), "summary": summary}

    async with opened(store_uri, llm=ScriptedLlm(summed_up)) as memories:
        await taken_in(memories, [a_message("Fact: The trip goes to Lisbon.", "e1")])
        for number in (2, 3):
            late = [a_message(f"Fact: Day {number} is free.", f"e{number}")]
            await memories.remember(SCOPE, late, "s1", save=False, end_after_minutes=15)
            await memories.end_session(SCOPE, "s1")
            await memories.work(until_idle=True)
        assert "The trip goes to Lisbon." in prompts[1]
        summaries = [text for text in await contents(memories) if text.startswith("Summary")]
        assert summaries == ["Summary number 3."]


async def test_long_turns_are_split_and_unfit_facts_are_left_out(
    store_uri: str, caplog: pytest.LogCaptureFixture
):
    """A turn too long is split without loss, and facts that cannot be stored are left out."""
    long = " ".join(f"Sentence number {number} of a long turn." for number in range(2000))
    async with opened(store_uri, llm=False, max_content_bytes=4096) as memories:
        await taken_in(memories, [a_message(long, "e1")])
        stored = (await memories.list(SCOPE, order="oldest", limit=1000)).memories
        assert max(len(memory.content.encode()) for memory in stored) <= 4096
        stored = sorted(stored, key=lambda memory: memory.position or 0)
        assert " ".join(memory.content for memory in stored) == long
        await memories.forget(SCOPE, everything=True)

    class Careless:
        async def facts(self, transcript: Any) -> list[Fact]:
            texts = ("", "nul \0 inside", "A good one.")
            return [*map(Fact, texts), Fact("Odd.", importance=7)]

    async with opened(store_uri, summary=Careless()) as memories:
        await taken_in(memories, [a_message("Anything at all.", "e2")], "s2")
        [memory] = (await memories.list(SCOPE)).memories
        assert [memory.content, memory.session_id, *memory.event_ids] == ["A good one.", "s2", "e2"]
        assert caplog.text.count("cannot be stored") == 3


async def test_a_turn_that_no_database_keeps_as_it_is_loses_no_session(store_uri: str):
    """Characters that no database can store are replaced, and the session is learned."""
    async with opened(store_uri, llm=False, worker=True) as memories:
        await memories.remember(
            SCOPE, [a_message("nul \0 here", "e1"), a_message("half \ud83d pair 😀", "e2")], "s1"
        )
        assert await memories.drain(60)
        assert await contents(memories) == ["half \ufffd pair 😀", "nul \ufffd here"]


async def test_a_wish_that_cannot_be_holds_no_session_up(store_uri: str):
    """A model's text that equals an expired memory does not block a session."""
    clock = FrozenClock()
    expired, current = "The user likes tea with honey and milk.", "The user likes tea."
    new = "The user likes tea with milk, and with honey too."

    def wishing(prompt: str) -> Any:
        return {
            **stated(prompt),
            "decisions": [{"fact": "F1", "action": "UPDATE", "memory": "M1", "text": expired}],
        }

    llm = ScriptedLlm(wishing)
    async with opened(store_uri, llm=llm, clock=clock) as memories:
        await memories.add(SCOPE, [Fact(expired, ttl_days=1)])
        clock.advance(days=2)
        await memories.add(SCOPE, [current])
        assert await taken_in(memories, [a_message(f"Fact: {new}", "e1")]) == 1
        assert await contents(memories) == sorted([current, new])
        assert len(llm.prompts) == 2


async def test_drain_and_close_wait_within_a_bound(store_uri: str, monkeypatch: pytest.MonkeyPatch):
    """Drain and close wait within a bound for a model that hangs and lose nothing; many who wait
    share one look at the queue every 50 ms after their first.
    """
    monkeypatch.setattr("kagent_memory.memories.maintenance.CLOSE_SECONDS", 0.1)

    class Hanging:
        name = "scripted"

        async def complete(self, prompt: str, *, schema: Any) -> Any:
            await asyncio.sleep(600)

    memories = await Memories.open(store_uri, llm=Hanging(), prune_every_hours=0)
    await memories.remember(SCOPE, [a_message("Fact: Heard at last.", "e1")], "s1")
    monkeypatch.setattr(memories.worker, "wake", looks := Mock())
    assert not any(await asyncio.gather(*map(memories.drain, [0.3] * 99)))
    assert looks.call_count < 129
    await asyncio.wait_for(memories.close(), 60)
    async with opened(store_uri, llm=ScriptedLlm(stated), worker=True) as restarted:
        assert await restarted.drain(60)
        assert all(await asyncio.gather(restarted.drain(0), restarted.drain(0)))
        assert await contents(restarted) == ["Heard at last."]
