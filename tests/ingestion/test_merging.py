"""Callers merge stored memories; a worker is idle only after the jobs that its jobs queued."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import numpy as np
import pytest

from kagent_memory.records import Message, Scope
from kagent_memory.stores.values import Job
from kagent_memory.testing import ScriptedLlm

from .ground import SCOPE, AsSaid, Embedding, contents, opened

AT_HER_DESK = "tea with honey and milk at her wooden desk every single morning."
TEA = (f"Ada drinks green {AT_HER_DESK}", f"Ada drinks hot {AT_HER_DESK}")
MERGED = f"Ada drinks hot green {AT_HER_DESK}"


def merging(prompt: str) -> Any:
    """Merge the statements about tea."""
    shown = re.findall(r"^(F\d+): \[.*?\] (.*)\n  (M\d+): ", prompt, re.MULTILINE)
    return {
        "decisions": [
            {"fact": fact, "action": "UPDATE", "memory": memory, "text": MERGED}
            for fact, text, memory in shown
            if text in TEA
        ]
    }


async def test_a_caller_merges_what_was_saved_and_undoes_it(store_uri: str):
    """A caller can merge saved memories, and one undo takes the merge back."""
    async with opened(store_uri, llm=ScriptedLlm(merging)) as memories:
        await memories.add(SCOPE, [*TEA, "The bicycle is red."])
        planned = await memories.consolidate(SCOPE, dry_run=True)
        assert [change.kind for change in planned] == ["merge", "update"]
        assert len(await contents(memories)) == 3
        former, united = await memories.consolidate(SCOPE)
        assert await contents(memories) == [MERGED, "The bicycle is red."]
        [hit] = await memories.recall(SCOPE, "green hot tea")
        assert (hit.memory.id, hit.memory.explicit) == (united.memory.id, True)
        assert former.memory.superseded_by == united.memory.id
        assert not await memories.consolidate(SCOPE)
        await memories.undo(SCOPE, united.memory.id)
        assert await contents(memories) == sorted([*TEA, "The bicycle is red."])


async def test_what_has_a_vector_of_its_callers_stays_alone():
    """A memory with a caller's vector is not merged, as no vector can be made for the
    merged words.
    """
    other = Scope("acme", "bob", "desk")
    async with opened(llm=ScriptedLlm(merging)) as memories:
        vectors = list(np.eye(2, 64, dtype=np.float32))
        await memories.add(other, list(TEA), embedding=vectors)
        assert list(await memories.consolidate(other)) == []


async def test_what_a_job_queues_late_is_done_before_idle(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
):
    """A job queued by another one while the queue is read is done before the worker is idle."""
    embedder = Embedding()
    embedder.error = ConnectionError("away")
    async with opened(store_uri, embedding=embedder, summary=AsSaid(), llm=False) as memories:
        claim = memories.store.queue.claim

        async def slow(*args: Any, **options: Any) -> Job | None:
            job = await claim(*args, **options)
            if job is None:
                # in which the job that runs comes to its end, and queues another
                await asyncio.sleep(0.5)
                embedder.error = None
            return job

        monkeypatch.setattr(memories.store.queue, "claim", slow)
        await memories.remember(SCOPE, [Message(text=TEA[0], event_id="e1")], "s1")
        assert await memories.work(until_idle=True) == 2
