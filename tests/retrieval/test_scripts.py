"""A vector search whose model does not know the script of the query weighs less."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kagent_memory import Memories, Scope
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


async def test_letters_that_cannot_be_exchanged_are_searched_both_ways() -> None:
    """A query whose letters cannot be exchanged is embedded once, and searched in both ways."""
    async with await Memories.open(
        "libsql:///:memory:", embedding=HashEmbedder(64), llm=False, worker=False
    ) as memories:
        await memories.add(ADA, NOTES)
        answer = await memories.recall(ADA, "々ー")
        assert (answer.mode, answer.degraded) == ("hybrid", ())


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
