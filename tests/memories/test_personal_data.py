"""The setting `pii`: personal data before any model, embedder, queue or disk, by every way in."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from adk.scripted import APP, USER

from kagent_memory import Memories
from kagent_memory.errors import InvalidInput
from kagent_memory.records import DROPPED, Fact, Message, Scope
from kagent_memory.testing import HashEmbedder, ScriptedLlm
from kagent_memory.testing.fixtures import vector
from memories.opening import listed, opened

SCOPE = Scope("", USER, APP)
MAIL, CARD = "ada.canary@example.com", "4111 1111 1111 1111"
SAID = [
    Message(text=f"Write to me at {MAIL} please.", event_id="e1"),
    Message(text="I drink oolong tea.", event_id="e2"),
]


def bytes_left(folder: Path) -> list[Path]:
    """Return the files of a folder that hold the address."""
    return [file for file in folder.iterdir() if b"ada.canary" in file.read_bytes()]


async def test_masked_before_anything_else_sees_it(file_uri: str, tmp_path: Path):
    """With `pii="mask"` no model, embedder or file sees an address, whatever brought it."""
    llm, embedder = ScriptedLlm(lambda prompt: {"facts": []}), HashEmbedder(64)
    async with await Memories.open(file_uri, embedding=embedder, llm=llm, pii="mask") as memories:
        fact = Fact(
            f"Mail {MAIL}", topics=(MAIL,), tags=(MAIL,), subject=MAIL, metadata={"to": [MAIL]}
        )
        (id,) = await memories.add(SCOPE, [fact])
        stored = await memories.get(SCOPE, id)
        assert stored.content == "Mail [pii: email]"
        assert (stored.topics, stored.tags, stored.metadata) == (
            ("[pii: email]",),
            ("[pii: email]",),
            {"to": ["[pii: email]"]},
        )
        why = f"{MAIL} with password=hunter2hunter2"
        await memories.edit(SCOPE, id, content=f"Write {MAIL} or call 555-123-4567", why=why)
        [edit] = await memories.history(SCOPE, id)
        assert ("[pii: email]" in edit.why, "hunter2" in edit.why) == (True, False)
        assert (await memories.get(SCOPE, id)).content == "Write [pii: email] or call [pii: phone]"
        await memories.remember(SCOPE, SAID, "s1", ended=True)
        assert await memories.drain(60)
        assert (await memories.recall(SCOPE, f"Who is {MAIL}?"))[0].memory.id == id
    assert MAIL not in repr((embedder.calls, llm.prompts))
    assert any("[pii: email]" in text for text in llm.prompts)
    assert not bytes_left(tmp_path)


@pytest.mark.parametrize("policy", ["drop", "refuse"])
async def test_a_message_that_holds_it_is_not_saved_and_the_others_are(
    file_uri: str, policy: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """A message that holds some is left out of its session; `refuse` warns of it."""
    async with await opened(file_uri, worker=True, pii=policy) as memories:
        with caplog.at_level(logging.WARNING):
            await memories.remember(SCOPE, SAID, "s1", ended=True)
        assert await memories.drain(60)
        assert await listed(memories, SCOPE) == {"I drink oolong tea."}
        assert len(await memories.recall(SCOPE, f"tea for {MAIL}")) == 1
    warned = [record.message for record in caplog.records if "not saved" in record.message]
    assert len(warned) == (policy == "refuse")
    assert MAIL not in caplog.text
    assert not bytes_left(tmp_path)


async def test_dropped_items_leave_their_place(file_uri: str):
    """Dropped items leave their place and the others are stored."""
    async with await opened(file_uri, pii="drop") as memories:
        first, dropped, last = await memories.add(SCOPE, ["one", f"two {CARD}", "three"])
        assert dropped == DROPPED
        assert [(await memories.get(SCOPE, id)).content for id in (first, last)] == ["one", "three"]
        assert await memories.add(SCOPE, [MAIL]) == [DROPPED]
        zeros = [0.0] * 63
        vectors = [vector(1, *zeros), vector(*zeros, 1), vector(1, *zeros[1:], 1)]
        ids = await memories.add(SCOPE, ["four", MAIL, "five"], embedding=vectors)
        hits = await memories.recall(SCOPE, "", embedding=vectors[2], limit=1)
        assert hits[0].memory.id == ids[2]
        with pytest.raises(InvalidInput, match="2 vectors for 3"):
            await memories.add(SCOPE, ["six", MAIL, "seven"], embedding=vectors[:2])
        assert await listed(memories, SCOPE) == {"five", "four", "one", "three"}
        with pytest.raises(InvalidInput, match="email"):
            await memories.edit(SCOPE, first, content=MAIL)


async def test_refused_whole_and_nothing_is_written(file_uri: str):
    """With `pii="refuse"` an item that holds some refuses the whole call, without quoting it."""
    async with await opened(file_uri, pii={"mode": "refuse", "kinds": "email,card"}) as memories:
        for item in (
            MAIL,
            f"card {CARD}",
            Fact("fine", tags=(MAIL,)),
            Fact("fine", metadata={"a": {"b": [MAIL]}}),
        ):
            with pytest.raises(InvalidInput, match=r"personal data \((email|card)\)") as refused:
                await memories.add(SCOPE, ["innocent", item])
            assert MAIL not in str(refused.value)
        assert not await listed(memories, SCOPE)
        await memories.add(SCOPE, ["the server is 203.0.113.7"])
        assert await listed(memories, SCOPE) == {"the server is 203.0.113.7"}
