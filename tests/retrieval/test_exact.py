"""Memories with an identifier or name of the query come first, whatever the embedder says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from memories.opening import ADA, opened

from kagent_memory.testing import HashEmbedder

CAUSES = (
    "a full disk",
    "an expired certificate",
    "a lost lease",
    "a wrong flag",
    "a slow resolver",
)
FIXES = ("a restart", "a rollback", "a larger volume", "a new key")
LOOK_ALIKES = [
    f"Ticket ERR-{10000 + n} was {CAUSES[n % 5]} on host h{n % 17}, fixed by {FIXES[n % 4]}."
    for n in range(200)
]
OTHERS = {
    "LH 4711": "The flight LH 4711 leaves at noon.",
    "v1.10.2": "The rollback went to v1.10.2 in the end.",
    "feature/login": "The branch feature/login waits for a review.",
    "Miró": "The poster in the hall is by Miró.",
    "O'Brien": "The keys are with O'Brien.",
    "“Blue Harbour”": "The customer calls it Blue Harbour.",
}


class NearlyConstant:
    """An embedder to whom everything is near everything."""

    name = "nearly-constant"

    async def embed(self, texts: Sequence[str], **_: Any) -> Any:
        rows = np.ones((len(texts), 64), np.float32)
        rows[:, 0] += [1e-2 * (sum(text.encode()) % 23) for text in texts]
        return rows


@pytest.mark.parametrize("embedder", [None, HashEmbedder(256), NearlyConstant()])
async def test_what_holds_an_identifier_stands_before_look_alikes(embedder: Any):
    """With any embedder, alone and inside a sentence."""
    async with await opened(embedding=embedder) as memories:
        await memories.add(ADA, [*LOOK_ALIKES, *OTHERS.values()])
        targets = {f"ERR-{10000 + n}": LOOK_ALIKES[n] for n in range(0, 200, 10)} | OTHERS
        for name, wanted in targets.items():
            for query in (
                name,
                f"How did we solve ticket {name} last time on the production host?",
            ):
                hits = await memories.recall(ADA, query, deliver=False)
                assert hits[0].memory.content == wanted, query


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


async def test_letters_that_cannot_be_exchanged_are_searched_both_ways():
    """A query whose letters cannot be exchanged is embedded once, and searched in both ways."""
    async with await opened(embedding=HashEmbedder(64)) as memories:
        await memories.add(ADA, NOTES)
        answer = await memories.recall(ADA, "々ー")
        assert (answer.mode, answer.degraded) == ("hybrid", ())


async def test_an_embedder_that_cannot_read_a_query_does_no_harm():
    """Its vectors weigh less."""
    async with await opened(embedding=EnglishOnly()) as memories:
        await memories.add(ADA, NOTES)
        queries = ("早上喝什么茶", "女儿学什么琴", "服务器在哪里", "会议是星期几")
        for query, note in zip(queries, NOTES, strict=True):
            assert (await memories.recall(ADA, query))[0].memory.content == note
