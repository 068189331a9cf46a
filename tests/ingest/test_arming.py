"""Explicit adds arm the merge of their scope as sessions do; what a caller stored on purpose is not lost by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from kagent_memory.errors import StoreError
from kagent_memory.ingest.arming import armed
from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Message, Scope
from kagent_memory.settings import MemorySettings
from kagent_memory.testing import ScriptedLlm

SCOPE = Scope("acme", "ada", "desk")
DARK = ("The user prefers dark mode.", "User prefers the dark mode")
TEA = ("Ada drinks green tea at her desk.", "At her desk Ada drinks green tea.")


class Clock:
    """A time that only the test moves."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 21, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def merging(prompt: str) -> Any:
    """A model that merges whatever it is shown."""
    return {"facts": [{"text": "Grace sings."}], "decisions": [], "groups": [MERGED]}


MERGED = {"group": "G1", "merge": True, "text": "Ada drinks green tea at desk."}


async def opened(uri: str, **options: Any) -> Memories:
    return await Memories.open(uri, **{"llm": False, "worker": False, "prune_every_hours": 0, **options})


async def contents(memories: Memories) -> list[str]:
    return sorted(memory.content for memory in (await memories.list(SCOPE)).memories)


async def test_what_was_only_ever_saved_explicitly_is_merged_after_so_many(store_uri: str):
    async with await opened(store_uri, consolidate_after=3) as memories:
        first, second = [(await memories.add(SCOPE, [text]))[0] for text in DARK]
        assert await memories.work(until_idle=True) == 0
        await memories.add(SCOPE, ["The bicycle is red."])
        assert await memories.work(until_idle=True) == 1
        assert await contents(memories) == ["The bicycle is red.", DARK[1]]
        assert [revision.kind for revision in await memories.history(SCOPE, first)] == ["merge"]
        await memories.undo(SCOPE, second)
        assert await contents(memories) == sorted(["The bicycle is red.", *DARK])


async def test_many_adds_are_one_job_that_is_due_an_hour_after_the_first_and_is_not_pending(store_uri: str):
    clock = Clock()
    async with await opened(store_uri, clock=clock) as memories:
        for text in (*DARK, "The bicycle is red."):
            await memories.add(SCOPE, [text])
            clock.now += timedelta(minutes=10)
        (job,) = await memories.jobs()
        assert (job.kind, job.payload, job.run_after) == (
            "consolidate",
            {"new": 3},
            datetime(2026, 11, 21, 13, tzinfo=UTC),
        )
        assert await memories.store.pending(now=clock.now) == 0
        assert await memories.drain(5)
        assert await memories.work(until_idle=True) == 0
        clock.now += timedelta(minutes=30)
        assert await memories.work(until_idle=True) == 1
        assert await memories.jobs() == []
        assert await contents(memories) == ["The bicycle is red.", DARK[1]]


@pytest.mark.parametrize(
    ("items", "options"),
    [
        ([Fact(DARK[0], pinned=True)], {}),
        ([Fact(DARK[0], verbatim=True, event_ids=("e1",))], {}),
        ([DARK[0]], {"consolidate_after": 0, "consolidate_every_hours": 0}),
    ],
    ids=["pinned", "a turn as it was said", "turned off"],
)
async def test_what_can_never_merge_arms_nothing(store_uri: str, items: list[Fact | str], options: dict[str, Any]):
    async with await opened(store_uri, **options) as memories:
        await memories.add(SCOPE, items)
        assert await memories.jobs() == []


@pytest.mark.parametrize("kept", [{"pinned": True}, {"metadata": {"ticket": 7}}], ids=["pinned", "labelled apart"])
async def test_what_is_pinned_or_labelled_apart_outlives_the_merge_as_it_was(store_uri: str, kept: dict[str, Any]):
    async with await opened(store_uri, consolidate_after=2) as memories:
        [id] = await memories.add(SCOPE, [Fact(DARK[0], **kept)])
        before = await memories.get(SCOPE, id)
        await memories.add(SCOPE, [Fact(DARK[1], metadata={"ticket": 8}), "The bicycle is red."])
        assert await memories.work(until_idle=True) == 1
        assert await memories.get(SCOPE, id) == before
        assert len(await contents(memories)) == 3


async def test_the_session_that_says_it_in_the_metadata_does_not_hold_a_merge_up(store_uri: str):
    async with await opened(store_uri, consolidate_after=2) as memories:
        facts = [Fact(text, metadata={"session_id": text[:3], "a": 1}) for text in DARK]
        await memories.add(SCOPE, facts)
        await memories.work(until_idle=True)
        assert await contents(memories) == [DARK[1]]


async def test_the_job_is_queued_with_the_memory_or_not_at_all(store_uri: str):
    async with await opened(store_uri) as memories:
        inner = memories.store.apply
        for when, left in (("before", 0), ("after", 1)):
            object.__setattr__(memories.store, "apply", _failing(inner, when))
            with pytest.raises(StoreError):
                await memories.add(SCOPE, DARK[:1])
            assert (len(await memories.jobs()), len(await contents(memories))) == (left, left)


def _failing(inner: Callable[..., Any], when: str) -> Callable[..., Any]:
    async def apply(*args: Any, **kwargs: Any) -> None:
        if when == "after":
            await inner(*args, **kwargs)
        raise StoreError("gone")

    return apply


async def test_a_merge_runs_with_the_configured_model_and_explicit_adds_bring_none_of_their_own(store_uri: str):
    async with await opened(store_uri, llm=None) as memories:
        await memories.add(SCOPE, DARK[:1])
        assert [job.model for job in await memories.jobs()] == [""]
        said = [Message(text="Grace sings.", event_id="e1")]
        await memories.remember(SCOPE, said, "s", llm=ScriptedLlm(merging, name="at hand"))
        await memories.work(until_idle=True)
        await memories.add(SCOPE, DARK[1:])
        assert [job.model for job in await memories.jobs()] == ["at hand"]
    async with await opened(store_uri, llm=ScriptedLlm(merging, name="configured")) as memories:
        await memories.add(SCOPE, ["The bicycle is red."])
        assert [job.model for job in await memories.jobs()] == ["configured"]


async def test_memories_with_vectors_of_their_callers_keep_words_that_those_vectors_are_of(store_uri: str):
    llm = ScriptedLlm(merging)
    async with await opened(store_uri, llm=llm, consolidate_after=4) as memories:
        vectors = list(np.eye(4, 8, dtype=np.float32))
        ids = await memories.add(SCOPE, [*DARK, *TEA], embedding=vectors)
        await memories.work(until_idle=True)
        assert await contents(memories) == sorted([DARK[1], *TEA])
        for id, vector in zip(ids[1:], vectors[1:], strict=True):
            (hit, *_) = await memories.recall(SCOPE, "", embedding=vector)
            assert hit.memory.id == id


async def test_without_such_vectors_the_model_words_what_is_merged(store_uri: str):
    async with await opened(store_uri, llm=ScriptedLlm(merging), consolidate_after=2) as memories:
        await memories.add(SCOPE, TEA)
        await memories.work(until_idle=True)
        assert await contents(memories) == [MERGED["text"]]


def test_new_memories_do_not_shorten_the_pause_after_a_failure():
    now, settings = datetime(2026, 11, 21, tzinfo=UTC), MemorySettings(consolidate_after=2)
    first = armed(None, SCOPE, 1, "m", settings, now)
    assert first.run_after == now + timedelta(hours=1)
    assert armed(first, SCOPE, 1, "", settings, now).run_after == now
    failed = replace(first, attempts=1, run_after=now + timedelta(minutes=5))
    again = armed(failed, SCOPE, 9, "", settings, now)
    assert (again.run_after, again.payload, again.model) == (failed.run_after, {"new": 10}, "m")


async def test_adds_one_after_another_ask_the_queue_once_a_minute_and_all_count(store_uri: str):
    clock = Clock()
    async with await opened(store_uri, consolidate_after=5, clock=clock) as memories:
        asked: list[str] = []
        inner = memories.store.waiting

        async def waiting(*given: Any) -> Any:
            asked.append("asked")
            return await inner(*given)

        object.__setattr__(memories.store, "waiting", waiting)
        for number in range(4):
            await memories.add(SCOPE, [f"Fact {number}"])
        assert (len(asked), [job.payload["new"] for job in await memories.jobs()]) == (1, [1])
        clock.now += timedelta(minutes=1)
        await memories.add(SCOPE, ["Fact 4"])
        [job] = await memories.jobs()
        assert (len(asked), job.payload["new"], job.run_after <= clock.now) == (2, 5, True)
