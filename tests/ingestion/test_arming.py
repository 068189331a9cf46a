"""What sessions bring arms the merge of their scope; what a caller saved neither arms it nor is
lost by it.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Message, Scope
from kagent_memory.stores.values import Job
from kagent_memory.testing import FrozenClock, ScriptedLlm

from .ground import SCOPE, contents, opened

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
AT_HER_DESK = "tea with honey and milk at her wooden desk every single morning."
TEA = (f"Ada drinks green {AT_HER_DESK}", f"Ada drinks hot {AT_HER_DESK}")
MERGED = f"Ada drinks hot green {AT_HER_DESK}"
BICYCLE = "The bicycle is red."


def merging(prompt: str) -> Any:
    """A model that finds every line that says "Fact:", and unites what is said about tea."""
    facts = [{"text": text} for text in re.findall(r"Fact: ([^\n<]+)", prompt)]
    decisions = [
        {"fact": fact, "action": "UPDATE", "memory": memory, "text": MERGED}
        for fact, text, memory in re.findall(
            r"^(F\d+): \[.*?\] (.*)\n  (M\d+): ", prompt, re.MULTILINE
        )
        if text in TEA
    ]
    return {"facts": facts, "decisions": decisions}


def configured(
    uri: str = "libsql:///:memory:", **options: Any
) -> AbstractAsyncContextManager[Memories]:
    llm = ScriptedLlm(merging, name="configured")
    return opened(uri, **{"llm": llm, **options})


async def tell(memories: Memories, *texts: str, **options: Any) -> int:
    """Takes a session in that says the facts; gives how many jobs came to their end."""
    session = f"session of {texts[0]}"
    said = [
        Message(text=f"Fact: {text}", event_id=f"{n} of {session}") for n, text in enumerate(texts)
    ]
    await memories.remember(SCOPE, said, session, **options)
    return await memories.work(until_idle=True)


async def ids(memories: Memories) -> dict[str, str]:
    return {memory.content: memory.id for memory in (await memories.list(SCOPE)).memories}


async def test_what_sessions_brought_is_merged_and_undone(store_uri: str):
    """What sessions brought is merged after so many and undone."""
    async with configured(store_uri, consolidate_after=3) as memories:
        assert await tell(memories, *TEA) == 1
        assert await contents(memories) == sorted(TEA)
        first = (await ids(memories))[TEA[0]]
        assert await tell(memories, BICYCLE) == 2
        assert await contents(memories) == [MERGED, BICYCLE]
        assert [revision.kind for revision in await memories.history(SCOPE, first)][-1] == "merge"
        await memories.undo(SCOPE, (await ids(memories))[MERGED])
        assert await contents(memories) == sorted([BICYCLE, *TEA])


async def test_what_a_job_queues_late_is_done_before_idle(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
):
    """What a job queues while the queue is looked at is done before it is idle."""
    async with configured(store_uri, consolidate_after=1) as memories:
        claim = memories.store.queue.claim

        async def slow(*args: Any, **options: Any) -> Job | None:
            job = await claim(*args, **options)
            if job is None:
                # in which the job that runs comes to its end, and queues another
                await asyncio.sleep(0.5)
            return job

        monkeypatch.setattr(memories.store.queue, "claim", slow)
        assert await tell(memories, *TEA) == 2


async def test_many_facts_are_one_merge_an_hour_later(store_uri: str):
    """Many facts are one job that is due an hour after the first and is not pending."""
    clock = FrozenClock(START)
    async with configured(store_uri, clock=clock) as memories:
        for texts in (TEA, (BICYCLE,)):
            await tell(memories, *texts)
            clock.now += timedelta(minutes=15)
        (job,) = await memories.jobs()
        assert (job.kind, job.payload, job.run_after) == (
            "consolidate",
            {"new": 3},
            datetime(2026, 11, 21, 13, tzinfo=UTC),
        )
        assert (await memories.store.queue.pending(now=clock.now)).count == 0
        assert await memories.drain(60)
        assert await memories.work(until_idle=True) == 0
        clock.now += timedelta(minutes=30)
        assert await memories.work(until_idle=True) == 1
        assert await memories.jobs() == []
        assert await contents(memories) == [MERGED, BICYCLE]


@pytest.mark.parametrize(
    "options",
    [{"llm": False}, {"consolidate_after": 0}],
    ids=["without a model", "turned off"],
)
async def test_what_can_never_merge_arms_nothing(store_uri: str, options: dict[str, Any]):
    """Without a model, or with merging turned off, no job to merge is queued."""
    async with configured(store_uri, **options) as memories:
        await tell(memories, *TEA)
        await memories.add(SCOPE, [Fact(BICYCLE, verbatim=True, event_ids=("e1",))])
        assert await memories.jobs() == []


@pytest.mark.parametrize(
    "kept", [{}, {"pinned": True}, {"event_ids": ("e1",)}, {"metadata": {"source": "x"}}]
)
async def test_what_a_caller_saved_arms_no_merge(store_uri: str, kept: dict[str, Any]):
    """What a caller saved arms no merge and outlives every one as it was."""
    async with configured(store_uri, consolidate_after=1) as memories:
        saved = await memories.add(SCOPE, [Fact(text, **kept) for text in TEA])
        before = [await memories.get(SCOPE, id) for id in saved]
        assert (await memories.jobs(), await memories.work(until_idle=True)) == ([], 0)
        assert await tell(memories, "Ada drinks the green tea at her desk!", BICYCLE) == 2
        assert [await memories.get(SCOPE, id) for id in saved] == before


async def test_a_caller_may_merge_what_was_saved(store_uri: str):
    """A caller who asks for it merges what was saved but nothing with a vector of its own."""
    async with configured(store_uri) as memories:
        await memories.add(SCOPE, list(TEA))
        planned = await memories.consolidate(SCOPE, dry_run=True)
        assert [change.kind for change in planned] == ["add", "merge", "merge"]
        assert await contents(memories) == sorted(TEA)
        await memories.consolidate(SCOPE)
        assert await contents(memories) == [MERGED]
    other = Scope("acme", "bob", "desk")
    async with configured(store_uri) as memories:
        vectors = list(np.eye(2, 8, dtype=np.float32))
        await memories.add(other, list(TEA), embedding=vectors)
        assert list(await memories.consolidate(other)) == []


async def test_a_merge_runs_with_the_model_that_armed_it(store_uri: str):
    """A merge runs with the model of the session that armed it."""
    async with configured(store_uri, llm=None) as memories:
        await memories.add(SCOPE, [TEA[0]])
        await tell(memories, "Grace sings.", llm=ScriptedLlm(merging, name="at hand"))
        assert [job.model for job in await memories.jobs()] == ["at hand"]
    async with configured(store_uri) as memories:
        await tell(memories, BICYCLE)
        assert [job.model for job in await memories.jobs()] == ["configured"]


async def test_new_memories_do_not_shorten_the_pause_after_a_failure():
    """A merge that failed waits its pause, with the model that armed it, whatever comes in
    meanwhile.
    """

    def failing(prompt: str) -> Any:
        return "no answer" if merging(prompt)["decisions"] else merging(prompt)

    async with configured(
        "libsql:///:memory:",
        llm=ScriptedLlm(failing),
        consolidate_after=2,
        clock=FrozenClock(START),
    ) as memories:
        await tell(memories, *TEA)
        [failed] = await memories.jobs()
        assert failed.failures == 1
        await tell(memories, BICYCLE, "Grace sings.")
        [again] = await memories.jobs()
        assert (again.run_after, again.model) == (failed.run_after, failed.model)
