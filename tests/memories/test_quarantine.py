"""A quarantined memory is found by nobody and changes nothing until it is confirmed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kagent_memory import (
    ConfigurationError,
    Conflict,
    Fact,
    Filter,
    InvalidInput,
    Memories,
    Memory,
    Message,
    NotFound,
)
from kagent_memory.testing import HashEmbedder, ScriptedLlm
from memories import opening
from memories.opening import ADA, DAY, contents, later, listed

WAITING = Filter(superseded="quarantined")
CLAIM = "The warehouse code is Xylophone"


opened = partial(opening.opened, quarantine=["tool"])


async def quarantined(memories: Memories) -> list[Memory]:
    return list((await memories.list(ADA, filter=WAITING)).memories)


async def ingested(
    memories: Memories, session: str, *messages: Message, ended: bool = False
) -> None:
    await memories.remember(ADA, messages, session, ended=ended)
    await memories.work(until_idle=True)


async def visible(memories: Memories) -> set[str]:
    """Return everything that any search or listing of what stands gives."""
    told = await listed(memories) | await listed(memories, superseded="only")
    for filter in (Filter(), Filter(superseded=True), WAITING, Filter(origins=("tool",))):
        for query in (CLAIM, "warehouse code?"):
            told |= {*contents(await memories.recall(ADA, query, filter=filter, limit=50))}
    return told


async def test_what_a_tool_says_is_found_once_it_is_confirmed(uri):
    """Quarantine hides a memory from every search until it is confirmed; an undo puts it back."""
    door = "The code is on the door"
    async with await opened(uri, embedding=HashEmbedder()) as memories:
        own, claim = await memories.add(ADA, [door, Fact(CLAIM, origin="tool", ttl_days=2)])
        assert await visible(memories) == {door}
        assert [memory.id for memory in await quarantined(memories)] == [claim]
        stats = await memories.stats(ADA)
        assert (stats.visible, stats.superseded, stats.quarantined) == (1, 0, 1)
        for wrong in (own, "01a20526-5a7b-7b4e-aa68-863bb7cf2dd3", "nonsense"):
            for verb in (memories.confirm, memories.reject):
                with pytest.raises(NotFound, match="quarantine"):
                    await verb(ADA, wrong)
        now = later(memories, days=1)
        let_in = await memories.confirm(ADA, claim, who="ops")
        assert (let_in.state, let_in.expires_at) == ("active", now + 2 * DAY)
        assert await memories.get(ADA, claim) == let_in
        hit = (await memories.recall(ADA, CLAIM)).hits[0]
        assert (hit.memory.id, round(hit.cosine or 0, 2)) == (claim, 1.0)
        [revision] = await memories.history(ADA, claim)
        assert (revision.kind, revision.who) == ("confirm", "ops")
        with pytest.raises(NotFound):
            await memories.confirm(ADA, claim)
        await memories.undo(ADA, claim)
        assert await visible(memories) == {door}
        assert await memories.reject(ADA, claim, who="ops") == (claim,)
        assert await quarantined(memories) == []
        assert [
            (receipt.memories, receipt.who) for receipt in await memories.receipts(tenant="acme")
        ] == [(1, "ops")]


async def test_nothing_unconfirmed_changes_what_is_trusted():
    """A quarantined memory replaces no trusted one, and is not confirmed beside one that says the
    same.
    """
    async with await opened() as memories:
        [trusted] = await memories.add(ADA, ["Ada pays by card"])
        with pytest.raises(InvalidInput, match="confirmed"):
            await memories.add(ADA, [Fact("Ada pays cash", origin="tool")], replaces=trusted)
        [claim] = await memories.add(ADA, [Fact(CLAIM, origin="tool")])
        await memories.add(ADA, [CLAIM])
        with pytest.raises(Conflict, match="already"):
            await memories.confirm(ADA, claim)
        assert len(await quarantined(memories)) == 1


@pytest.mark.parametrize("llm", [False, True])
async def test_an_agent_that_repeats_a_tool_is_trusted_no_more(llm: bool):
    """Neither word for word, nor as facts of a model that names the agent as their source, nor in a
    summary.
    """
    heard = "Oslo: sunny, 23 degrees, AcmeBank recommended"
    repeated, own = "It is sunny and 23 degrees in Oslo.", "I booked a table for Friday."

    def answer(prompt: str) -> Any:
        sources = [1, 3, 4]
        texts = ("The user goes to Oslo.", repeated, "A table is booked for Friday.")
        facts = [
            {"text": text, "sources": [number]} for text, number in zip(texts, sources, strict=True)
        ]
        if "they said" in prompt:
            facts = [{"text": "Sunny with 23 degrees.", "sources": [1]}]
        return {
            "facts": facts,
            "summary": "A talk about Oslo.",
            "decisions": [],
        }

    async with await opened(llm=ScriptedLlm(answer) if llm else False) as memories:
        first = [
            Message(text="I go to Oslo. What is the weather there?", event_id="e1"),
            Message(text=heard, role="tool", event_id="e2"),
            Message(text=repeated, role="agent", event_id="e3"),
            Message(text=own, role="agent", event_id="e4"),
        ]
        again = Message(text="As they said, sunny, 23 degrees.", role="agent", event_id="e5")
        await ingested(memories, "s1", *first, ended=True)
        await ingested(memories, "s1", again)
        trusted = await listed(memories)
        waiting = await listed(memories, superseded="quarantined")
        if llm:
            assert trusted == {"The user goes to Oslo.", "A table is booked for Friday."}
            assert waiting == {repeated, "A talk about Oslo.", "Sunny with 23 degrees."}
        else:
            assert trusted == {first[0].text, own}
            assert waiting == {heard, repeated, again.text}


async def test_transcripts_are_quarantined_without_a_model():
    """Transcripts go through it and no model is asked about it."""
    prompts: list[str] = []

    def answer(prompt: str) -> Any:
        prompts.append(prompt)
        facts = [
            {"text": text, "subject": "warehouse", "attribute": "code", "sources": [number]}
            for number, text in enumerate(
                ("The warehouse code is Apple", "The warehouse code is Xylophone"), 1
            )
            if text in prompt
        ]
        return {"facts": facts, "decisions": [], "summary": ""}

    async with await opened(llm=ScriptedLlm(answer)) as memories:
        for number, (role, text) in enumerate(
            (("user", "Apple"), ("tool", "Xylophone"), ("tool", "Xylophone"))
        ):
            turn = Message(text=f"The warehouse code is {text}", role=role, event_id=f"e{number}")  # pyright: ignore[reportArgumentType] one of the roles
            await ingested(memories, f"s{number}", turn)
        assert await visible(memories) == {"The warehouse code is Apple"}
        rows = await quarantined(memories)
        assert [memory.content for memory in rows] == [CLAIM]
        assert len(prompts) == 3  # one an extraction, none to decide about what waits
        await memories.reject(ADA, rows[0].id)
        await ingested(memories, "s1", Message(text=CLAIM, role="tool", event_id="e1"))
        assert await quarantined(memories) == []


@pytest.mark.parametrize("value", ["web", "tool,nonsense", ["tools"], 3], ids=repr)
async def test_an_unknown_origin_is_refused(value):
    """A quarantine that names an origin which does not exist is refused at open."""
    with pytest.raises(ConfigurationError, match="quarantine"):
        await opened(quarantine=value)


async def test_by_default_nothing_waits_in_quarantine():
    """The setting is read from the uri and by default nothing waits."""
    async with await opening.opened("libsql:///:memory:?quarantine=tool,import") as memories:
        assert memories.settings.quarantine == ("tool", "import")
        await memories.add(ADA, [Fact("One", origin="import"), Fact("Two", origin="agent")])
        assert (await memories.stats(ADA)).quarantined == 1
    async with await opened(quarantine=()) as memories:
        await memories.add(ADA, [Fact(CLAIM, origin="tool")])
        assert (await memories.stats(ADA)).quarantined == 0
