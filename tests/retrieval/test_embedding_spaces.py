"""Embedding costs nothing twice: what is kept, and what never is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from memories.opening import ADA, opened

from kagent_memory import Memories, Scope
from kagent_memory.errors import ModelUnavailable
from kagent_memory.retrieval.embedding_spaces import StoreEmbedder
from kagent_memory.testing import HashEmbedder

BOB = Scope("rival", "bob", "notes")
CODE = "The gate code is 4711."
QUESTION = "which code opens the gate?"


class Asked(HashEmbedder):
    """Counts how often each text is embedded; refuses "bad" and waits where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def embed(self, texts: Sequence[str], *, kind: Any) -> Any:
        self.texts += texts
        await self.goes_on.wait()
        if "bad" in texts:
            raise ModelUnavailable("away")
        return await super().embed(texts, kind=kind)


@pytest.fixture
def embedder() -> Asked:
    return Asked()


@pytest.fixture
async def memories(embedder: Asked) -> AsyncIterator[Memories]:
    async with await opened(embedding=embedder, max_memories=1) as memories:
        yield memories


@pytest.fixture
def vectors(memories: Memories) -> StoreEmbedder:
    assert memories.vectors is not None
    return memories.vectors


async def test_a_text_is_embedded_once_a_tenant(vectors: StoreEmbedder, embedder: Asked):
    """Vectors come in the order of their texts and cannot be written to."""
    _, [a, b, again] = await vectors.embed(["a", "b", "a"], kind="document", tenant="t")
    assert a is again
    assert (a != b).any()
    _, [c, kept] = await vectors.embed(["c", "b"], kind="document", tenant="t")
    assert kept is b
    assert c is not None
    assert [text for text in embedder.texts if len(text) == 1] == ["a", "b", "c"]
    await vectors.embed(["a"], kind="document", tenant="u")
    assert embedder.texts.count("a") == 2
    with pytest.raises(ValueError, match="read-only"):
        c[0] = 9


async def test_errors_are_not_kept(vectors: StoreEmbedder, embedder: Asked):
    """An embedder that failed is asked again."""
    for _ in range(2):
        with pytest.raises(ModelUnavailable):
            await vectors.embed(["bad", "good"], kind="document", tenant="t")
    assert embedder.texts.count("good") == 2


async def test_cache_mb_bounds_what_is_kept(embedder: Asked):
    """The vectors used least recently leave the cache first."""
    async with await opened(embedding=embedder, cache_mb=1) as memories:
        vectors: Any = memories.vectors
        for _ in range(2):
            await vectors.embed(["a"], kind="document", tenant="t")
        await vectors.embed([str(n) for n in range(2_000)], kind="document", tenant="t")
        await vectors.embed(["a"], kind="document", tenant="t")
    assert embedder.texts.count("a") == 2


async def test_one_text_is_embedded_once_by_all_verbs_of_a_tenant(
    memories: Memories, embedder: Asked
):
    """Documents and queries are embedded once for all users of a tenant."""
    for user in ("ada", "eve"):
        scope = Scope("acme", user, "notes")
        await memories.add(scope, [CODE])
        assert (await memories.recall(scope, QUESTION)).hits
    await memories.recall(BOB, QUESTION)
    assert (embedder.texts.count(CODE), embedder.texts.count(QUESTION)) == (1, 2)


@pytest.mark.parametrize("way", ["ids", "everything", "tenant", "prune", "under way"])
async def test_forgetting_leaves_no_vector_behind(
    memories: Memories, vectors: StoreEmbedder, embedder: Asked, way: str
):
    """Nor does one that comes in after the text was forgotten."""
    [id, _] = await memories.add(ADA, [CODE, "Ada likes tea."])
    match way:
        case "ids":
            await memories.forget(ADA, id)
        case "everything":
            await memories.forget(ADA, everything=True)
        case "tenant":
            await memories.forget_tenant("acme")
        case "prune":
            assert (await memories.prune()).evicted == 1
        case _:
            vectors.forget()
            embedder.goes_on.clear()
            late = asyncio.create_task(vectors.embed([CODE], kind="document", tenant="acme"))
            await asyncio.sleep(0.05)
            await memories.forget(ADA, id)
            embedder.goes_on.set()
            await late
    embedder.texts.clear()
    await vectors.embed([CODE], kind="document", tenant="acme")
    assert embedder.texts == [CODE]


async def test_a_check_asks_the_embedder_itself(memories: Memories, embedder: Asked):
    """A check asks the embedder, whatever is cached."""
    for _ in range(2):
        assert not [finding for finding in await memories.check() if finding.state == "bad"]
    assert embedder.texts.count("ping") == 2
