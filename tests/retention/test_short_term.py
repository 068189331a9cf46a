"""What is learnt from a session is the session's own until it proves important or is met again;
then it stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kagent_memory import ConfigurationError, Fact, Filter, Memories, Message, NotFound, Scope
from kagent_memory.ingestion.extraction import Transcript
from kagent_memory.records import Memory
from kagent_memory.testing import FrozenClock, HashEmbedder, ScriptedLlm

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCOPE = Scope("", "ada", "notes")
OWN = Filter(superseded="short_term")
TEA = "Ada drinks green tea at work"
HOUR = timedelta(hours=1)


@pytest.fixture
def uri(store_uri: str) -> str:
    """A new store on each database; row security has tests of its own."""
    return store_uri


class Said:
    """A provider that takes each message for a fact: JSON is the fact's fields, other text is its
    text.
    """

    name = "said"

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        found: list[Fact] = []
        for message in transcript.messages:
            fields: dict[str, Any] = {"text": message.text}
            if message.text.startswith("{"):
                fields = json.loads(message.text)
            found.append(Fact(**fields, event_ids=(message.event_id,)))
        return found


async def opened(uri: str = "libsql:///:memory:", **more: Any) -> Memories:
    given = {
        "embedding": None,
        "llm": False,
        "summary": Said(),
        "worker": False,
        "policy": "tiers",
        "clock": FrozenClock(START),
    }
    return await Memories.open(uri, **{**given, **more})


_numbers = iter(range(10**9))


async def heard(
    memories: Memories, session: str, *texts: str | dict[str, Any], scope: Scope = SCOPE
) -> None:
    """What is said in a session, and ingested."""
    said = [
        Message(
            text=text if isinstance(text, str) else json.dumps(text), event_id=f"e{next(_numbers)}"
        )
        for text in texts
    ]
    await memories.remember(scope, said, session)
    await memories.work(until_idle=True)
    assert not await memories.jobs(state="dead")


async def found(
    memories: Memories, query: str, session: str | None = None, **options: Any
) -> list[str]:
    hits = await memories.recall(SCOPE, query, session_id=session, limit=100, **options)
    return [hit.memory.content for hit in hits]


async def texts(memories: Memories, filter: Filter = Filter()) -> set[str]:
    return {one.content for one in (await memories.list(SCOPE, filter=filter, limit=500)).memories}


async def only(memories: Memories, filter: Filter = OWN) -> Memory:
    [one] = (await memories.list(SCOPE, filter=filter)).memories
    return one


async def test_it_is_found_in_its_session_only_and_ends_with_its_hours(uri):
    async with await opened(uri, embedding=HashEmbedder()) as memories:
        [lasting] = await memories.add(SCOPE, ["Ada lives in Paris"])
        await heard(memories, "s1", TEA)
        held = await only(memories)
        assert (held.state, held.session_id, held.expires_at) == (
            "short_term",
            "s1",
            memories.parts.clock() + 24 * HOUR,
        )
        hit = (await memories.recall(SCOPE, TEA, session_id="s1"))[0]
        assert (hit.memory.id, hit.memory.state, hit.scope) == (held.id, "short_term", SCOPE)
        assert hit.cosine is not None
        assert hit.cosine > 0.99
        for session in (None, "s2", "S1", "s1 ", ""):
            for filter in (Filter(), Filter(superseded=True), OWN, Filter(session_id="s1")):
                assert TEA not in await found(memories, "green tea", session, filter=filter)
        assert await texts(memories) == {"Ada lives in Paris"}
        assert (await memories.facets(SCOPE)).total == 1
        stats = await memories.stats(SCOPE)
        assert (stats.visible, stats.short_term, stats.superseded, stats.quarantined) == (
            1,
            1,
            0,
            0,
        )
        assert (await memories.get(SCOPE, held.id)).content == TEA
        explained = await memories.recall(SCOPE, TEA, explain=True)
        assert (held.id, "short_term") in {
            (out.memory_id, out.reason) for out in explained.left_out
        }
        explained = await memories.recall(SCOPE, TEA, explain=True, session_id="s1")
        assert held.id not in {out.memory_id for out in explained.left_out}
        assert {hit.memory.id for hit in await memories.recall(SCOPE, "Ada", session_id="s1")} == {
            lasting,
            held.id,
        }
        memories.parts.clock.now += 24 * HOUR
        assert TEA not in await found(memories, "green tea", "s1")
        with pytest.raises(NotFound):
            await memories.get(SCOPE, held.id)
        assert [
            (one.memory_id, one.reason) for one in (await memories.prune(dry_run=True)).gone
        ] == [(held.id, "expired")]
        assert (await memories.prune()).deleted == 1
        assert await memories.store.memories.kept(SCOPE, Filter()) == [lasting]


async def test_the_important_and_the_repeated_become_long_term(uri):
    """What is important or met again in another session becomes long term."""
    async with await opened(uri, embedding=HashEmbedder()) as memories:
        vital = "Ada is allergic to penicillin"
        await heard(
            memories,
            "s1",
            TEA,
            {"text": vital, "importance": 0.7},
            {"text": "A bus was late", "importance": 0.69},
        )
        assert await texts(memories) == {vital}
        first = next(
            one for one in (await memories.list(SCOPE, filter=OWN)).memories if one.content == TEA
        )
        await heard(memories, "s1", TEA)  # the same session again is no repetition
        assert await texts(memories, OWN) == {TEA, "A bus was late"}
        assert (await memories.get(SCOPE, first.id)).expires_at == first.expires_at
        memories.parts.clock.now += HOUR
        await heard(memories, "s2", f"{TEA}.")
        assert await texts(memories) == {vital, TEA}
        lasting = await memories.get(SCOPE, first.id)
        assert (lasting.state, lasting.session_id) == ("active", "s1")
        assert lasting.expires_at == memories.parts.clock() + timedelta(days=90)
        assert [one.kind for one in await memories.history(SCOPE, first.id)] == ["promote"]
        assert TEA in await found(memories, "green tea")
        assert (await memories.recall(SCOPE, TEA))[0].cosine > 0.99
        await memories.undo(SCOPE, first.id)
        assert TEA not in await found(memories, "green tea")
        assert TEA in await found(memories, "green tea", "s1")
        memories.parts.clock.now += 24 * HOUR
        assert (await memories.prune()).deleted == 2


async def test_what_somebody_saves_edits_or_pins_becomes_long_term(uri):
    async with await opened(uri) as memories:
        await heard(memories, "s1", TEA, "Ada has a cat", "Ada plays chess", "Ada owns a boat")
        ids = {one.content: one.id for one in (await memories.list(SCOPE, filter=OWN)).memories}
        assert await memories.add(SCOPE, [Fact(TEA, tags=("drinks",)), "Ada likes rain"]) != []
        saved = await memories.get(SCOPE, ids[TEA])
        assert (saved.state, saved.tags, saved.explicit) == ("active", ("drinks",), True)
        assert saved.expires_at == memories.parts.clock() + timedelta(days=90)
        assert [
            (one.kind, one.before and one.before.state)
            for one in await memories.history(SCOPE, saved.id)
        ] == [("promote", "short_term")]
        await memories.edit(SCOPE, ids["Ada has a cat"], content="Ada has two cats")
        await memories.pin(SCOPE, ids["Ada plays chess"])
        [newer] = await memories.add(SCOPE, ["Ada sold her boat"], replaces=ids["Ada owns a boat"])
        assert await texts(memories) == {
            TEA,
            "Ada has two cats",
            "Ada plays chess",
            "Ada sold her boat",
            "Ada likes rain",
        }
        assert await texts(memories, OWN) == set()
        assert (
            await memories.get(SCOPE, ids["Ada owns a boat"], superseded=True)
        ).superseded_by == newer
        memories.parts.clock.now += 25 * HOUR
        assert await found(memories, "cats") == ["Ada has two cats"]
        await memories.undo(SCOPE, saved.id)
        assert TEA not in await texts(memories)
        await memories.add(SCOPE, [TEA])  # what has expired comes back too
        assert TEA in await texts(memories)


async def test_a_promoted_memory_joins_its_long_term_equal():
    """What is promoted becomes the long term memory that says the same."""
    async with await opened() as memories:
        [other] = await memories.add(SCOPE, ["Ada drinks coffee"])
        await heard(memories, "s1", TEA)
        held = await only(memories)
        await memories.edit(SCOPE, other, content=TEA)
        pinned = await memories.pin(SCOPE, held.id)
        assert (pinned.id, pinned.pinned, pinned.state) == (other, True, "active")
        assert (await memories.get(SCOPE, held.id, superseded=True)).superseded_by == other
        assert (await only(memories, Filter())).id == other
        await memories.undo(SCOPE, held.id)
        assert (await only(memories)).id == held.id
    async with await opened() as memories:
        [expired] = await memories.add(SCOPE, [Fact(TEA, ttl_days=1)])
        memories.parts.clock.now += 24 * HOUR
        await heard(memories, "s1", TEA)
        assert await texts(memories, OWN) == {TEA}
        await heard(memories, "s2", TEA)
        assert (await only(memories, Filter())).id == expired
        assert await texts(memories, OWN) == set()


async def test_a_session_keeps_the_newest_50():
    """Without a model a session keeps its newest 50 short-term memories, each session its own."""
    async with await opened() as memories:
        for number in range(6):
            memories.parts.clock.now += timedelta(minutes=1)
            await heard(
                memories, "s1", *(f"Parcel {number * 10 + place} is blue" for place in range(10))
            )
        await heard(memories, "s2", *(f"Crate {number} is red" for number in range(60)))
        assert await texts(memories, OWN) == {
            *(f"Parcel {number} is blue" for number in range(10, 60)),
            *(f"Crate {number} is red" for number in range(10, 60)),
        }
        assert len(await found(memories, "parcel blue", "s1")) == 50
        assert (await memories.stats(SCOPE)).short_term == 100


def summing(prompt: str) -> Any:
    """A model that sums up what it is shown in its first and last line."""
    lines = re.findall(r"^- \[[\d-]+\] (.+)$", prompt, re.MULTILINE)
    return {"decisions": [], "groups": [], "summary": f"{lines[0]}, {lines[-1]}." if lines else ""}


async def test_the_oldest_of_a_full_session_become_a_summary(uri, monkeypatch):
    """With a model what is too much in a session is summed up for good; its sources are its
    history.
    """
    monkeypatch.setattr("kagent_memory.ingestion.consolidation.consolidator.MAX_SHORT_TERM", 10)
    monkeypatch.setattr("kagent_memory.ingestion.consolidation.short_term.MAX_SHORT_TERM", 10)
    async with await opened(uri, llm=ScriptedLlm(summing)) as memories:
        await heard(memories, "s1", *(f"Parcel {number} is blue" for number in range(10)))
        assert await texts(memories) == set()
        memories.parts.clock.now += timedelta(minutes=1)
        await heard(memories, "s1", "Parcel 10 is blue")
        assert await texts(memories, OWN) == {f"Parcel {number} is blue" for number in range(6, 11)}
        summary = await only(memories, Filter())
        assert (summary.content, summary.type) == (
            "Parcel 0 is blue, Parcel 5 is blue.",
            "episodic",
        )
        assert summary.expires_at == memories.parts.clock() + timedelta(days=90)
        former = (await memories.list(SCOPE, filter=Filter(superseded="only"))).memories
        assert {one.content for one in former} == {
            f"Parcel {number} is blue" for number in range(6)
        }
        assert {one.superseded_by for one in former} == {summary.id}
        assert set(summary.event_ids) == {id for one in former for id in one.event_ids}
        await memories.undo(SCOPE, summary.id)
        assert await texts(memories) == set()
        assert len(await texts(memories, OWN)) == 11


async def test_what_tools_said_in_a_session_is_summed_up_alone(monkeypatch):
    """A summary is as trusted as the least trusted of its sources."""
    monkeypatch.setattr("kagent_memory.ingestion.consolidation.consolidator.MAX_SHORT_TERM", 0)
    monkeypatch.setattr("kagent_memory.ingestion.consolidation.short_term.MAX_SHORT_TERM", 0)
    async with await opened(llm=ScriptedLlm(summing)) as memories:
        said = [
            {"text": f"Parcel {number} is blue", "origin": ("user", "tool")[number % 2]}
            for number in range(12)
        ]
        await heard(memories, "s1", *said)
        made = (await memories.list(SCOPE)).memories
        assert {(one.content, one.origin) for one in made} == {
            ("Parcel 0 is blue, Parcel 10 is blue.", "user"),
            ("Parcel 1 is blue, Parcel 11 is blue.", "tool"),
        }


async def test_a_session_that_ends_leaves_a_summary_with_its_sources():
    """Its own, or one of its short-term memories where the provider writes none."""
    async with await opened(llm=ScriptedLlm(summing)) as memories:
        await heard(memories, "s1", *(f"Parcel {number} is blue" for number in range(5)))
        await memories.remember(SCOPE, [], "s1", ended=True)
        await memories.work(until_idle=True)
        assert await texts(memories) == {"Parcel 0 is blue, Parcel 4 is blue."}

    def answer(prompt: str) -> Any:
        said = re.findall(r"user: (.+)$", prompt, re.MULTILINE)
        return {
            "facts": said,
            "decisions": [],
            "summary": "Parcels came" if "session is over" in prompt else "",
        }

    async with await opened(llm=ScriptedLlm(answer), summary=None) as memories:
        for event, ended in (("e1", False), ("e2", True)):
            await memories.remember(
                SCOPE, [Message(text=f"It is {event}!", event_id=event)], "s1", ended=ended
            )
            await memories.work(until_idle=True)
        summary = await only(memories, Filter())
        assert (summary.content, set(summary.event_ids)) == ("Parcels came", {"e1", "e2"})
        assert await texts(memories, OWN) == {"It is e1!", "It is e2!"}


async def test_what_changes_what_is_known_is_long_term():
    """What changes what is known is long term and what a session says of itself is not."""
    async with await opened() as memories:
        home = {"subject": "Ada", "attribute": "home"}
        await heard(memories, "s0", {"text": "Ada lives in Paris", "importance": 0.9, **home})
        memories.parts.clock.now += timedelta(minutes=1)
        await heard(memories, "s1", {"text": "Ada lives in Rome", **home})
        assert await texts(memories) == {"Ada lives in Rome"}
        mood = {"subject": "Ada", "attribute": "mood"}
        for number, text in enumerate(("Ada is tired", "Ada is awake")):
            memories.parts.clock.now += timedelta(minutes=number + 1)
            await heard(memories, "s1", {"text": text, **mood})
        assert await texts(memories) == {"Ada lives in Rome"}
        assert await texts(memories, OWN) == {"Ada is awake"}
        memories.parts.clock.now += timedelta(minutes=1)
        # another session speaks of it too
        await heard(memories, "s2", {"text": "Ada is happy", **mood})
        assert await texts(memories) == {"Ada lives in Rome", "Ada is happy"}
        assert await texts(memories, OWN) == set()
        memories.parts.clock.now += 25 * HOUR
        assert (await memories.prune()).deleted == 2
        assert await texts(memories) == {"Ada lives in Rome", "Ada is happy"}


async def test_a_model_decides_about_short_term_memories_too():
    """A model decides about short term memories too and its summary is long term."""

    def answer(prompt: str) -> Any:
        said = [
            line for line in ("Ada drinks tea", "Ada is drinking tea") if f"user: {line}!" in prompt
        ]
        facts = [{"text": text, "sources": [1]} for text in said]
        return {
            "facts": facts,
            "decisions": [{"fact": "F1", "action": "NOOP", "memory": "M1"}],
            "summary": "Ada came by",
        }

    async with await opened(llm=ScriptedLlm(answer), summary=None) as memories:
        for session, text in (("s1", "Ada drinks tea!"), ("s2", "Ada is drinking tea!")):
            await memories.remember(
                SCOPE, [Message(text=text, event_id=f"m{session}")], session, ended=True
            )
            await memories.work(until_idle=True)
        assert "Ada came by" in await texts(memories)
        lasting = await texts(memories)
        assert lasting & {"Ada drinks tea", "Ada is drinking tea"}, lasting


async def test_only_trusted_memories_of_a_session_are_short_term():
    """What is in quarantine or of no session is no short term memory."""
    async with await opened(quarantine=["tool"]) as memories:
        await heard(memories, "s1", {"text": "The code is 7", "origin": "tool"})
        assert await texts(memories, Filter(superseded="quarantined")) == {"The code is 7"}
        await heard(memories, "", "Ada has a dog")
        assert await texts(memories) == {"Ada has a dog"}
        assert await texts(memories, OWN) == set()


async def test_by_default_all_memories_are_long_term():
    """By default all is long term and no session narrows or widens a search."""
    async with await opened(policy="kagent") as memories:
        assert memories.settings.short_term_hours == 0
        await heard(memories, "s1", TEA)
        assert await texts(memories) == {TEA}
        assert await found(memories, "tea", "s2") == [TEA]
    async with await opened(policy="kagent", short_term_hours=2) as memories:
        await heard(memories, "s1", TEA)
        assert (await only(memories)).expires_at == memories.parts.clock() + 2 * HOUR
    with pytest.raises(ConfigurationError, match="short_term_hours"):
        await opened(short_term_hours=-1)


async def test_short_term_memories_outlast_the_setting(uri, tmp_path):
    """What a session kept is found in it when no more is kept for sessions alone."""
    clock = FrozenClock(START)
    async with await opened(uri, clock=clock, policy="archive", short_term_hours=24) as memories:
        await heard(memories, "s1", TEA)
        held = await only(memories)
        path = tmp_path / "all.jsonl"
        path.write_text("".join([f"{line}\n" async for line in memories.export()]))
    async with (
        await opened(uri, clock=clock, policy="archive") as memories,
        await opened(policy="archive", clock=clock) as other,
    ):
        assert (await other.import_(path)).added == 1
        clock.now += HOUR
        for one in (memories, other):
            assert one.settings.short_term_hours == 0
            assert await found(one, "tea", "s1") == [TEA]
            assert await found(one, "tea", "s2") == await found(one, "tea") == []
            past = await one.recall(SCOPE, "tea", session_id="s1", as_of=clock.now - HOUR / 2)
            assert [hit.memory.content for hit in past] == [TEA]
            assert (await one.get(SCOPE, held.id)).state == "short_term"
        clock.now += 24 * HOUR
        assert await found(memories, "tea", "s1") == []


async def test_forgetting_and_merging_know_them():
    async with await opened(llm=False) as memories:
        await heard(
            memories,
            "s1",
            TEA,
            {"text": "Ada has a cat", "tags": ["pets"], "author": "ada"},
            "Ada plays chess",
        )
        await heard(memories, "s2", "Ada owns a boat")
        ids = {one.content: one.id for one in (await memories.list(SCOPE, filter=OWN)).memories}
        assert await memories.consolidate(SCOPE) == ()
        assert set(await memories.forget(SCOPE, tag="pets")) == {ids["Ada has a cat"]}
        assert set(await memories.forget(SCOPE, filter=OWN, dry_run=True)) == set(ids.values()) - {
            ids["Ada has a cat"]
        }
        assert (await memories.forget(SCOPE, ids[TEA])).ids == (ids[TEA],)
        await memories.remember(SCOPE, [Message(text=TEA, event_id="later")], "s1")
        await memories.work(until_idle=True)
        assert TEA not in await texts(memories, OWN)
        assert set(await memories.forget(SCOPE, session_id="s1")) == {ids["Ada plays chess"]}
        assert await texts(memories, OWN) == {"Ada owns a boat"}
        await memories.forget(SCOPE, everything=True)
        assert (await memories.stats(SCOPE)).short_term == 0
        assert (await memories.audit()).is_clean
