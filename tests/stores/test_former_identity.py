"""Rows that version 0.1.0 wrote, whose content hash also looked past what tells two facts apart."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kagent_memory.language import tokenizer as text
from kagent_memory.memories import Memories
from kagent_memory.records import Scope

SCOPE = Scope("acme", "ada", "desk")


@pytest.fixture
async def memories(store_uri: str) -> AsyncIterator[Memories]:
    options = {"llm": False, "worker": False, "prune_every_hours": 0}
    async with await Memories.open(store_uri, **options) as opened:
        yield opened


async def added_by_0_1_0(memories: Memories, monkeypatch: pytest.MonkeyPatch, content: str) -> str:
    def former(content: str, **_: object) -> bytes:
        return text.former_identity(content)

    with monkeypatch.context() as patched:
        patched.setattr(text, "identity", former)
        (id,) = await memories.add(SCOPE, [content])
    return id


async def contents(memories: Memories) -> list[str]:
    return sorted(memory.content for memory in (await memories.list(SCOPE)).memories)


async def test_a_former_row_is_met_by_what_says_the_same_and_by_nothing_else(
    memories: Memories, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = await added_by_0_1_0(memories, monkeypatch, "The sensor draws 5 mW.")
    assert await memories.add(SCOPE, ["the sensor  draws 5 mW"]) == [former]
    (other,) = await memories.add(SCOPE, ["The sensor draws 5 MW."])
    assert other != former
    assert await memories.add(SCOPE, ["The sensor draws 5 MW"]) == [other]
    assert await contents(memories) == ["The sensor draws 5 MW.", "The sensor draws 5 mW."]


async def test_a_former_row_is_edited_and_pinned_as_any_other(
    memories: Memories, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = await added_by_0_1_0(memories, monkeypatch, "Likes tea.")
    await memories.pin(SCOPE, former)
    assert await memories.add(SCOPE, ["likes tea"]) == [former]
    await memories.edit(SCOPE, former, content="Likes cocoa.")
    (tea,) = await memories.add(SCOPE, ["likes tea"])
    assert tea != former
    assert await contents(memories) == ["Likes cocoa.", "likes tea"]


async def test_near_spellings_are_explicit_saves_of_their_own(memories: Memories) -> None:
    pairs = [("5 MW", "5 mW"), ("105", "10⁵"), ("Ak9X", "aK9x"), ("C", "C++"), ("10 mb", "10 MB"), ("H₂O", "H2O")]
    for one, other in pairs:
        first, second = [(await memories.add(SCOPE, [f"Note {text}"]))[0] for text in (one, other)]
        assert first != second
        assert (await memories.get(SCOPE, second)).content == f"Note {other}"
