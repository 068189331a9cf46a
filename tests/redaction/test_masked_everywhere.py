"""Masking beyond the text: our own tokens and keys, invisible characters, names, and tables that
are misspelt.
"""

from __future__ import annotations

import pytest
from memories.opening import ADA, contents, listed, opened

from kagent_memory import Fact, Filter, Message
from kagent_memory.redaction import redact
from kagent_memory.redaction.personal_data import PersonalData

GITHUB = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
OWN_TOKEN = "kmem_" + "Zk3vQ9_x-T7hWb2LrJ5nYc8MdF1sGa4EuP6oVi0KyRt"


def test_our_own_tokens_and_keys_are_masked():
    """A token of our server and the setting that holds encryption keys are secrets too."""
    assert redact(f"use {OWN_TOKEN} for it") == "use [secret: kagent memory token] for it"
    key = "bWFkZS11cC1rZXktZm9yLXRoaXMtdGVzdC0wMTIzNDU="
    assert key not in redact(f"KAGENT_MEMORY_ENCRYPTION_KEYS=k1:{key}")
    assert redact("kmem_tables is a name") == "kmem_tables is a name"


@pytest.mark.parametrize("hidden", ["\u200b", "\u2060", "\ufeff", "\u00ad", "\u200d"])
def test_an_invisible_character_hides_no_key(hidden: str):
    """A zero-width character inside a key does not keep it from being masked."""
    broken = GITHUB[:2] + hidden + GITHUB[2:12] + hidden + GITHUB[12:]
    assert redact(f"caf\u00e9 {broken} end") == redact(f"caf\u00e9 {GITHUB} end")
    assert redact(f"a{hidden}b c{hidden}d") == f"a{hidden}b c{hidden}d"


@pytest.mark.parametrize(
    "text", ["see chapter 7.1.2.3", "Section 10.2.3.4 says so", "\u00a7 1.2.3.4", "Kapitel 7.1.2.3"]
)
def test_the_number_of_a_chapter_is_no_address(text: str):
    """The number of a chapter or section is no IP address; others stay addresses."""
    assert PersonalData(("ip",)).mask(text) == text
    assert PersonalData(("ip",)).mask("it runs on 7.1.2.3") == "it runs on [pii: ip]"


async def test_a_session_id_that_holds_a_secret_is_masked(uri: str):
    """Two sessions named by secrets stay two; their names find them, and stand nowhere."""
    first, second = f"chat {GITHUB}", f"chat {GITHUB[:-1]}Z"
    async with await opened(uri) as memories:
        for session, text in ((first, "Tea at five"), (second, "Coffee at six")):
            await memories.add(ADA, [Fact(text=text, session_id=session)])
            await memories.remember(ADA, [Message(text=f"{text}, please", event_id=text)], session)
        assert GITHUB not in str(await memories.list(ADA)) + str(await memories.jobs())
        assert await listed(memories, session_id=first) == {"Tea at five"}
        hits = await memories.recall(ADA, "tea coffee", filter=Filter(session_id=second))
        assert contents(hits) == ["Coffee at six"]
        await memories.work(until_idle=True)
        assert len(await memories.forget(ADA, session_id=first)) == 2
        assert await listed(memories) == {"Coffee at six", "Coffee at six, please"}
        await memories.remember(
            ADA, [Message(text="Tea at five, please", event_id="Tea at five")], first
        )
        assert not await memories.jobs()


async def test_author_who_and_why_are_masked(uri: str):
    """A secret in a name or reason is masked as one in a text, in memories and their history."""
    async with await opened(uri) as memories:
        (id,) = await memories.add(
            ADA, [Fact(text="Tea at five", author=f"bot {GITHUB}")], who=f"cli {GITHUB}"
        )
        await memories.remember(ADA, [Message(text="I live in Oslo", author=GITHUB)], "s1")
        history = str(await memories.history(ADA, id))
        assert GITHUB not in str(await memories.get(ADA, id)) + history + str(await memories.jobs())
        await memories.edit(ADA, id, content="Tea at six", who=GITHUB)
        await memories.undo(ADA, id, who=GITHUB)
        await memories.edit(ADA, id, content="Tea at seven", who=f"cli {GITHUB}", why=GITHUB)
        assert GITHUB not in (history := str(await memories.history(ADA, id)))
        assert "cli [secret: github" in history
