"""Vectors that callers bring: kept by their width, of few widths, and never in each other's way."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest

from kagent_memory.errors import InvalidInput
from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.testing import HashEmbedder
from memories.opening import ADA, contents, opened

EVE = Scope("evil", "eve", "demo")


def unit(width: int, place: int = 0) -> np.ndarray:
    vector = np.zeros(width, np.float32)
    vector[place] = 1
    return vector


@pytest.fixture
async def memories(store_uri: str) -> AsyncIterator[Memories]:
    async with await opened(store_uri) as memories:
        yield memories


async def tables(memories: Memories) -> dict[str, int]:
    return {space.name: space.dimensions for space in await memories.store.memories.spaces.all()}


@pytest.mark.parametrize("width", [1, 65, 4160])
async def test_few_widths_are_taken_whoever_asks(memories: Memories, width: int):
    """Callers' vectors have a multiple of 64 dimensions, up to 4,096; each width is searched by
    itself.
    """
    for call in (
        memories.add(ADA, ["x"], embedding=[unit(width)]),
        memories.recall(ADA, "x", embedding=unit(width)),
    ):
        with pytest.raises(InvalidInput, match=r"a multiple of 64, up to 4,096"):
            await call
    with pytest.raises(InvalidInput, match="different widths"):
        await memories.add(ADA, ["x", "y"], embedding=[unit(128), unit(64)])
    for taken in (64, 4096):
        await memories.add(ADA, [f"of {taken}"], embedding=[unit(taken)])
    assert await tables(memories) == {"external-64": 64, "external-4096": 4096}
    for taken in (64, 4096):
        [hit] = await memories.recall(ADA, "", embedding=unit(taken))
        assert hit.memory.content == f"of {taken}"


async def test_a_search_makes_no_table(memories: Memories):
    """A search with a vector of a new width finds nothing and keeps nothing."""
    for width in (64, 768, 4096):
        assert not await memories.recall(EVE, "x", embedding=unit(width))
    assert await tables(memories) == {}


async def test_vectors_of_callers_are_searched_apart(store_uri: str):
    """A caller's vector finds what callers brought, never what the embedder embedded alike."""
    async with await opened(store_uri, embedding=HashEmbedder(64, "first")) as memories:
        await memories.add(ADA, ["The kettle is on the blue shelf"])
        await memories.add(ADA, ["Brought"], embedding=[unit(64, 7)])
        [like_text] = await HashEmbedder(64).embed(["The kettle"], kind="query")
        for vector in (unit(64, 7), like_text):
            assert contents(await memories.recall(ADA, "", embedding=vector)) == ["Brought"]
