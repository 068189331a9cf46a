"""Short-term memories are limited to their session until they prove important."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any

import pytest
from memories import opening
from memories.opening import ADA, DAY, HOUR, START, contents, kept_ids, later, listed

from kagent_memory import (
    CompactionAwareSummary,
    ConfigurationError,
    Fact,
    Filter,
    Memories,
    Memory,
    Message,
    NotFound,
)
from kagent_memory.ingestion.summary_provider import Transcript
from kagent_memory.testing import HashEmbedder, ScriptedLlm

OWN: dict[str, Any] = {"superseded": "short_term"}
TEA = "Ada drinks green tea at work"


class Said:
    """A provider that makes each message a fact: JSON is read as the fact's fields, other text as
    its text.
    """

    name = "said"

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        return [
            Fact(**self.fields(message.text), event_ids=(message.event_id,))
            for message in transcript.messages
        ]

    def fields(self, text: str) -> dict[str, Any]:
        return json.loads(text) if text[0] == "{" else {"text": text}


opened = partial(opening.opened, summary=Said(), policy="tiers")


_numbers = count()


async def heard(
    memories: Memories,
    session: str,
    *facts: str | dict[str, Any],
    role: Any = "user",
    ended: bool = False,
) -> None:
    """Ingest messages of a session, and let a minute pass."""
    messages = [
        Message(
            text=fact if isinstance(fact, str) else json.dumps(fact),
            role=role,
            event_id=f"e{next(_numbers)}",
        )
        for fact in facts
    ]
    await memories.remember(ADA, messages, session, ended=ended)
    await memories.work(until_idle=True)
    assert not await memories.jobs(state="dead")
    later(memories, minutes=1)


async def search(
    memories: Memories, query: str, session: str | None = None, **options: Any
) -> list[str]:
    return contents(await memories.recall(ADA, query, session_id=session, limit=100, **options))


async def only(memories: Memories, **conditions: Any) -> Memory:
    [memory] = (await memories.list(ADA, filter=Filter(**conditions))).memories
    return memory


def parcels(numbers: range) -> set[str]:
    return {f"Parcel {number} is blue" for number in numbers}


async def test_it_is_found_in_its_session_only_and_ends_with_its_hours(store_uri):
    """A short-term memory is found in its own session for 24 hours, and nowhere else."""
    async with await opened(store_uri, embedding=HashEmbedder()) as memories:
        [lasting] = await memories.add(ADA, ["Ada lives in Paris"])
        await heard(memories, "s1", TEA)
        memory = await only(memories, **OWN)
        state = (memory.state, memory.session_id, memory.expires_at)
        assert state == ("short_term", "s1", START + DAY)
        hit = (await memories.recall(ADA, TEA, session_id="s1"))[0]
        assert (hit.memory.id, hit.scope) == (memory.id, ADA)
        assert (hit.cosine or 0) > 0.99
        for session in (None, "s2", "S1", "s1 ", ""):
            for filter in (Filter(), Filter(superseded=True), Filter(session_id="s1")):
                assert TEA not in await search(memories, "green tea", session, filter=filter)
        assert await listed(memories) == {"Ada lives in Paris"}
        stats = await memories.stats(ADA)
        assert (stats.visible, stats.short_term, stats.superseded) == (1, 1, 0)
        explained = await memories.recall(ADA, TEA, explain=True)
        assert [out.reason for out in explained.left_out] == ["short_term"]
        later(memories, hours=24)
        assert TEA not in await search(memories, "green tea", "s1")
        with pytest.raises(NotFound):
            await memories.get(ADA, memory.id)
        [item] = (await memories.prune()).gone
        assert (item.memory_id, item.reason) == (memory.id, "expired")
        assert await kept_ids(memories) == [lasting]


async def test_the_important_and_the_repeated_become_long_term(store_uri):
    """An important memory, or one repeated in another session, becomes long-term."""
    async with await opened(store_uri, embedding=HashEmbedder()) as memories:
        vital, bus = "Ada is allergic to penicillin", "A bus was late"
        facts = {"text": vital, "importance": 0.7}, {"text": bus, "importance": 0.69}
        await heard(memories, "s1", TEA, *facts)
        assert await listed(memories) == {vital}
        await heard(memories, "s1", TEA)  # the same session again is no repetition
        assert await listed(memories, **OWN) == {TEA, bus}
        await heard(memories, "s2", f"{TEA}.")
        assert await listed(memories) == {vital, TEA}
        [hit] = [hit for hit in await memories.recall(ADA, TEA) if hit.memory.content == TEA]
        lasting = hit.memory
        assert (lasting.state, lasting.session_id) == ("active", "s1")
        assert lasting.expires_at == lasting.updated_at + 90 * DAY
        assert hit.cosine is not None
        assert [revision.kind for revision in await memories.history(ADA, lasting.id)] == [
            "promote"
        ]
        await memories.undo(ADA, lasting.id)
        assert TEA not in await search(memories, "green tea")
        assert TEA in await search(memories, "green tea", "s1")


async def test_what_somebody_saves_edits_or_pins_becomes_long_term(store_uri):
    """A short-term memory that a caller saves, edits, pins or replaces becomes long-term."""
    async with await opened(store_uri) as memories:
        await heard(memories, "s1", TEA, "Ada has a cat", "Ada plays chess", "Ada owns a boat")
        page = await memories.list(ADA, filter=Filter(**OWN))
        ids = {memory.content: memory.id for memory in page.memories}
        await memories.add(ADA, [Fact(TEA, tags=("drinks",))])
        saved = await memories.get(ADA, ids[TEA])
        assert (saved.state, saved.tags, saved.explicit) == ("active", ("drinks",), True)
        assert saved.expires_at == memories.clock() + 90 * DAY
        await memories.edit(ADA, ids["Ada has a cat"], content="Ada has two cats")
        await memories.pin(ADA, ids["Ada plays chess"])
        await memories.add(ADA, ["Ada sold her boat"], replaces=ids["Ada owns a boat"])
        others = {"Ada has two cats", "Ada plays chess", "Ada sold her boat"}
        later(memories, hours=25)
        assert await listed(memories) == {TEA, *others}
        assert not await listed(memories, **OWN)
        await memories.undo(ADA, saved.id)
        assert await listed(memories) == others
        await memories.add(ADA, [TEA])  # what has expired comes back too
        assert await listed(memories) == {TEA, *others}


async def test_a_promoted_memory_joins_its_long_term_equal():
    """A promoted memory joins an equal long-term memory, even one added meanwhile."""
    async with await opened() as memories:
        [other] = await memories.add(ADA, ["Ada drinks coffee"])
        await heard(memories, "s1", TEA)
        memory = await only(memories, **OWN)
        await memories.edit(ADA, other, content=TEA)
        pinned = await memories.pin(ADA, memory.id)
        assert (pinned.id, pinned.pinned, pinned.state) == (other, True, "active")
        assert (await memories.get(ADA, memory.id, superseded=True)).superseded_by == other
        await memories.undo(ADA, memory.id)
        assert (await only(memories, **OWN)).id == memory.id
        await memories.pin(ADA, other, pinned=False)
        await memories.edit(ADA, other, ttl_days=1)
        later(memories, days=1)
        for session in ("s3", "s4"):
            await heard(memories, session, TEA)
        assert (await only(memories)).id == other


async def test_a_session_is_searched_by_its_newest_50():
    """A search in a session reads the session's newest 50 short-term memories."""
    async with await opened() as memories:
        for start in range(0, 60, 10):
            await heard(memories, "s1", *sorted(parcels(range(start, start + 10))))
        await heard(memories, "s2", *(f"Crate {number} is red" for number in range(60)))
        assert {*await search(memories, "parcel blue", "s1")} == parcels(range(10, 60))
        assert (await memories.stats(ADA)).short_term == 120


def summing(prompt: str) -> Any:
    """Learn each message, and summarize a session by its first and last line."""
    facts = re.findall(r"(?:user|tool): (.+)$", prompt, re.MULTILINE)
    earlier = re.search(r"<earlier>\n(.+)\n</earlier>", prompt, re.DOTALL)
    lines = earlier[1].split("\n") if earlier else []
    summary = f"{lines[0]}, {lines[-1]}." if lines else ""
    return {"facts": facts, "decisions": [], "summary": summary}


async def test_a_long_session_is_summed_up_again_and_again(store_uri):
    """Each 25 memories of a session become a summary, which supersedes the last one."""
    async with await opened(store_uri, llm=ScriptedLlm(summing), summary=None) as memories:
        await heard(memories, "s1", *(f"Parcel {number} is blue" for number in range(25)))
        assert not await listed(memories)
        await heard(memories, "s1", *(f"Parcel {number} is blue" for number in range(25, 50)))
        first = await only(memories)
        assert first.content == "Parcel 0 is blue, Parcel 24 is blue."
        assert (first.type, first.expires_at) == ("episodic", first.created_at + 90 * DAY)
        assert len(first.event_ids) == 50
        await heard(memories, "s1", "Parcel 50 is blue")
        second = await only(memories)
        assert second.content == f"{first.content}, Parcel 49 is blue."
        assert await listed(memories, **OWN) == parcels(range(51))
        await heard(memories, "s1", "Parcel 51 is blue")
        assert await only(memories) == second
        await memories.undo(ADA, second.id)
        assert await listed(memories) == {first.content}


@pytest.mark.parametrize("summary", [None, CompactionAwareSummary()], ids=["plain", "compaction"])
async def test_a_summary_is_as_trusted_as_its_least_source(summary):
    """The summary of a session with output of a tool has the origin "tool", whatever its last
    messages are.
    """
    async with await opened(llm=ScriptedLlm(summing), summary=summary) as memories:
        await heard(memories, "s1", "The parcels are blue")
        await heard(memories, "s1", "Parcel 3 is red", role="tool")
        await heard(memories, "s1", ended=True)
        assert (await only(memories)).origin == "tool"


async def test_what_changes_what_is_known_is_long_term():
    """A new value of a known slot is long-term; a slot of the session alone is short-term."""
    home = {"subject": "Ada", "attribute": "home"}
    mood = {"subject": "Ada", "attribute": "mood"}
    async with await opened() as memories:
        await heard(memories, "s0", {"text": "Ada lives in Paris", "importance": 0.9, **home})
        await heard(memories, "s1", {"text": "Ada lives in Rome", **home})
        assert await listed(memories) == {"Ada lives in Rome"}
        for text in ("Ada is tired", "Ada is awake"):
            await heard(memories, "s1", {"text": text, **mood})
        assert await listed(memories) == {"Ada lives in Rome"}
        assert await listed(memories, **OWN) == {"Ada is awake"}
        await heard(memories, "s2", {"text": "Ada is happy", **mood})
        assert await listed(memories) == {"Ada lives in Rome", "Ada is happy"}
        assert not await listed(memories, **OWN)


async def test_a_model_decides_about_short_term_memories_too():
    """A model's NOOP joins facts of two sessions, and a session's summary is long-term."""
    texts = ("Ada drinks tea", "Ada is drinking tea")

    def answer(prompt: str) -> Any:
        return {
            "facts": [
                {"text": text, "sources": [1]} for text in texts if f"user: {text}!" in prompt
            ],
            "decisions": [{"fact": "F1", "action": "NOOP", "memory": "M1"}],
            "summary": "Ada came by",
        }

    async with await opened(llm=ScriptedLlm(answer), summary=None) as memories:
        for session, text in enumerate(texts):
            await heard(memories, f"s{session}", f"{text}!", ended=True)
        lasting = await listed(memories)
        assert "Ada came by" in lasting
        assert lasting & {*texts}


async def test_only_trusted_memories_of_a_session_are_short_term():
    """Quarantined memories and memories without a session are never short-term."""
    async with await opened(quarantine=["tool"]) as memories:
        await heard(memories, "s1", {"text": "The code is 7", "origin": "tool"})
        assert await listed(memories, superseded="quarantined") == {"The code is 7"}
        await heard(memories, "", "Ada has a dog")
        assert await listed(memories) == {"Ada has a dog"}
        assert not await listed(memories, **OWN)


async def test_by_default_all_memories_are_long_term():
    """Without `short_term_hours` no session narrows or widens a search."""
    async with await opened(policy="kagent") as memories:
        await heard(memories, "s1", TEA)
        assert await listed(memories) == {TEA}
        assert await search(memories, "tea", "s2") == [TEA]
    async with await opened(policy="kagent", short_term_hours=2) as memories:
        await heard(memories, "s1", TEA)
        assert (await only(memories, **OWN)).expires_at == START + 2 * HOUR
    with pytest.raises(ConfigurationError, match="short_term_hours"):
        await opened(short_term_hours=-1)


async def test_short_term_memories_outlast_the_setting(store_uri):
    """Existing short-term memories are listed until they expire after the setting is
    switched off.
    """
    async with await opened(store_uri, short_term_hours=24, policy="archive") as memories:
        await heard(memories, "s1", TEA)
    async with await opened(store_uri, policy="archive") as memories:
        now = later(memories, hours=1)
        assert await listed(memories, **OWN) == {TEA}
        assert await search(memories, "tea", "s1") == await search(memories, "tea") == []
        assert await search(memories, "tea", "s1", as_of=now - HOUR / 2) == [TEA]
        later(memories, hours=24)
        assert not await listed(memories, **OWN)


async def test_forgetting_and_merging_know_them():
    """Short-term memories are forgotten by their session or tag, and never merged."""
    async with await opened() as memories:
        await heard(memories, "s1", TEA)
        await heard(memories, "s2", {"text": "Ada has a cat", "tags": ["pets"]})
        assert await memories.consolidate(ADA) == ()
        assert len(await memories.forget(ADA, session_id="s1")) == 1
        assert len(await memories.forget(ADA, tag="pets")) == 1
        await heard(memories, "s1", TEA)
        assert not await listed(memories, **OWN)
