"""A vector search whose model does not know the script of the query weighs less."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kagent_memory import Memories, Scope
from kagent_memory.retrieval.ranking import UNRELATED, disguised, trust
from kagent_memory.testing import HashEmbedder

ADA = Scope(tenant="", user="ada", app="desk")
NOTES = ["我每天早上喝绿茶。", "我女儿在学大提琴。", "服务器在法兰克福。", "会议改到星期四下午。"]


class EnglishOnly:
    """An embedder to whom all that is not ASCII is one unknown letter, told apart by length
    alone.
    """

    name = "english-only"

    async def embed(self, texts: Sequence[str], *, kind: Any) -> Any:
        folded = ["".join(char if char.isascii() else "?" for char in text) for text in texts]
        rows = np.asarray(await HashEmbedder(64).embed(folded, kind=kind), np.float32)
        return rows + np.array([[0.01 * (len(text) % 7)] * 64 for text in texts], np.float32)


@pytest.mark.parametrize("text", ["Where is my bicycle?", "Wo wohnt Zoë?", "4711", ""])
def test_latin_queries_are_not_probed(text: str) -> None:
    assert disguised(text) == ""


@pytest.mark.parametrize(
    "text", ["我早上喝什么", "Где живёт мама", "어머니는 어디에", "أين تعيش أمي"]
)
def test_a_disguise_keeps_the_script_and_none_of_the_letters(text: str) -> None:
    other = disguised(text)
    assert len(other) == len(text)
    assert all(one != two for one, two in zip(text, other, strict=True) if one.isalpha())


async def test_trust_falls_where_other_letters_make_no_difference() -> None:
    async def measured(embedder: Any) -> float:
        text = "我早上喝什么"
        one, other, first, second = await embedder.embed(
            [text, disguised(text), *UNRELATED], kind="query"
        )
        return trust(one, other, (first, second))

    assert await measured(EnglishOnly()) == pytest.approx(0.1)
    assert await measured(HashEmbedder(256)) > 0.7


async def test_an_embedder_that_cannot_read_a_query_does_no_harm() -> None:
    """Its vectors weigh less."""
    async with await Memories.open(
        "libsql:///:memory:", embedding=EnglishOnly(), llm=False, worker=False
    ) as memories:
        await memories.add(ADA, NOTES)
        for asked, wanted in (
            ("早上喝什么茶", 0),
            ("女儿学什么琴", 1),
            ("服务器在哪里", 2),
            ("会议是星期几", 3),
        ):
            hits = await memories.recall(ADA, asked, deliver=False)
            assert hits[0].memory.content == NOTES[wanted]
