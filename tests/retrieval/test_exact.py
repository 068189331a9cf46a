"""What holds an identifier or name of the query comes first, whatever the embedder says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kagent_memory import Memories, Scope
from kagent_memory.testing import HashEmbedder

ADA = Scope(tenant="", user="ada", app="desk")
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
    for n in range(500)
]
OTHERS = {
    "LH 4711": "The flight LH 4711 leaves at noon.",
    "v1.10.2": "The rollback went to v1.10.2 in the end.",
    "feature/login": "The branch feature/login waits for a review.",
    "Miró": "The poster in the hall is by Miró.",
    "“Blue Harbour”": "The customer calls it Blue Harbour.",
}


class NearlyConstant:
    """An embedder to whom everything is near everything."""

    name = "nearly-constant"

    async def embed(self, texts: Sequence[str], **_: Any) -> Any:
        rows = np.ones((len(texts), 64), np.float32)
        rows[:, 0] += [1e-4 * (sum(text.encode()) % 97) for text in texts]
        return rows


@pytest.mark.parametrize(
    "embedder", [None, HashEmbedder(256), NearlyConstant()], ids=["words", "hash", "constant"]
)
async def test_what_holds_an_identifier_stands_before_look_alikes(embedder: Any) -> None:
    """With any embedder, alone and inside a sentence."""
    async with await Memories.open(
        "libsql:///:memory:", embedding=embedder, llm=False, worker=False
    ) as memories:
        await memories.add(ADA, [*LOOK_ALIKES[:250], *OTHERS.values()])
        await memories.add(ADA, LOOK_ALIKES[250:])
        asked = {f"ERR-{10000 + n}": LOOK_ALIKES[n] for n in range(0, 500, 10)} | OTHERS
        missed = list[str]()
        for name, wanted in asked.items():
            for query in (
                name,
                f"How did we solve ticket {name} last time on the production host?",
            ):
                hits = await memories.recall(ADA, query, limit=3, deliver=False)
                if not hits or hits.hits[0].memory.content != wanted:
                    missed.append(query)
        assert missed == []
