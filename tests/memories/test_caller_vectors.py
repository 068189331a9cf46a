"""Vectors that callers bring: kept by their width, of few widths, and never in each other's way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import product

import numpy as np
import pytest

from kagent_memory.errors import InvalidInput
from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.stores.spaces import external_name
from kagent_memory.testing import HashEmbedder
from memories.opening import ADA, opened

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
    return {held.name: held.dimensions for held in await memories.store.memories.spaces.all()}


async def test_a_name_of_our_form_is_as_wide_as_it_says(memories: Memories):
    """A vector is kept under "external-" and its width, and under no other name of that form."""
    for name in (external_name(128), "external-064", "external-mine", "somebody's"):
        for attempt in (
            memories.add(EVE, ["x"], embedding=[unit(64)], embedding_space=name),
            memories.recall(EVE, "x", embedding=unit(64), embedding_space=name),
        ):
            with pytest.raises(InvalidInput, match="by their width"):
                await attempt
    assert await tables(memories) == {}
    [id] = await memories.add(EVE, ["x"], embedding=[unit(64)], embedding_space=external_name(64))
    assert await tables(memories) == {external_name(64): 64}
    assert [hit.memory.id for hit in await memories.recall(EVE, "", embedding=unit(64))] == [id]


@pytest.mark.parametrize("width", [1, 65, 4160])
async def test_few_widths_are_taken_whoever_asks(memories: Memories, width: int):
    """Callers' vectors have a multiple of 64 dimensions, up to 4,096; each width is searched by
    itself.
    """
    for name in (None, external_name(width)):
        for asked in (
            memories.add(ADA, ["x"], embedding=[unit(width)], embedding_space=name),
            memories.recall(ADA, "x", embedding=unit(width), embedding_space=name),
        ):
            with pytest.raises(InvalidInput, match=r"a multiple of 64, up to 4,096"):
                await asked
    for taken in (64, 4096):
        await memories.add(ADA, [f"of {taken}"], embedding=[unit(taken)])
    for taken in (64, 4096):
        [hit] = await memories.recall(ADA, "", embedding=unit(taken))
        assert hit.memory.content == f"of {taken}"


async def test_a_search_makes_no_table(memories: Memories):
    """A search with a vector of a new width finds nothing and keeps nothing."""
    for width in (64, 768, 4096):
        assert not await memories.recall(EVE, "x", embedding=unit(width))
    assert await tables(memories) == {}


async def test_vectors_go_into_any_space_and_are_searched_there(store_uri: str):
    """A caller brings vectors of either of two embedders, or of nobody, each searched alone."""
    first, second = HashEmbedder(64, "first"), HashEmbedder(64, "second")
    async with await opened(store_uri, embedding=first) as memories:
        await memories.add(ADA, ["The kettle is on the blue shelf"])
        [probe] = await second.embed(["probe"], kind="document")
        await memories.store.memories.spaces.add("second", 64, probe)
        brought = (("second", 5), ("first", 9), (external_name(64), 7))
        for name, place in brought:
            given = {"embedding": [unit(64, place)], "embedding_space": name}
            await memories.add(ADA, [f"of {name}"], **given)
        for (name, _), (other, place) in product(brought, brought):
            vector = {"embedding": unit(64, place), "embedding_space": name}
            found = await memories.recall(ADA, "", **vector, min_score=0.99)
            assert [hit.memory.content for hit in found] == [f"of {name}"] * (name == other)
        for asked in (
            memories.recall(ADA, "kettle", embedding_space="first"),
            memories.add(ADA, ["x"], embedding_space="first"),
        ):
            with pytest.raises(InvalidInput, match="goes with embedding="):
                await asked
        with pytest.raises(InvalidInput, match="No embedding space 'third'"):
            await memories.add(ADA, ["x"], embedding=[unit(64)], embedding_space="third")
        assert (await memories.stats(ADA)).visible == 4
