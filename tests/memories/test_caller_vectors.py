"""Vectors that callers bring: kept by their width, never in each other's way, and of a few widths a
tenant.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from kagent_memory.errors import InvalidInput
from kagent_memory.memories import Memories
from kagent_memory.memories.caller_vectors import MAX_WIDTHS
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


@pytest.mark.parametrize("width", [1, 769])
async def test_a_name_of_our_form_is_as_wide_as_it_says_whoever_asks(
    memories: Memories, width: int
):
    """A vector is kept under "external-" and its width, and under no other name of that form."""
    for name in (
        external_name(768),
        external_name(width + 1),
        "external-0768",
        "external-mine",
        "somebody's",
    ):
        for attempt in (
            memories.add(EVE, ["x"], embedding=[unit(width)], embedding_space=name),
            memories.recall(EVE, "x", embedding=unit(width), embedding_space=name),
        ):
            with pytest.raises(InvalidInput, match="by their width"):
                await attempt
    assert await tables(memories) == {}
    [id] = await memories.add(
        EVE, ["x"], embedding=[unit(width)], embedding_space=external_name(width)
    )
    assert await tables(memories) == {external_name(width): width}
    assert [hit.memory.id for hit in await memories.recall(EVE, "", embedding=unit(width))] == [id]


async def test_another_width_is_a_slip_or_a_beginning(memories: Memories):
    """A scope that holds one width is told of a slip and may begin another."""
    await memories.add(ADA, ["three"], embedding=[unit(3)])
    for asked in (
        memories.add(ADA, ["x"], embedding=[unit(4)]),
        memories.recall(ADA, "x", embedding=unit(4)),
    ):
        with pytest.raises(InvalidInput, match="those here have 3"):
            await asked
    await memories.add(ADA, ["four"], embedding=[unit(4)], embedding_space=external_name(4))
    for width, text in ((3, "three"), (4, "four")):
        assert [
            hit.memory.content for hit in await memories.recall(ADA, "", embedding=unit(width))
        ] == [text]


async def test_a_tenant_makes_a_few_tables_and_no_more(memories: Memories):
    """One tenant makes a few tables and no more and takes none from others."""
    widths = range(2, 2 + MAX_WIDTHS + 4)

    async def brought(tenant: str, width: int) -> bool:
        # a scope each: another user of the tenant is no way around
        scope = Scope(tenant, f"user {width}", "demo")
        try:
            await memories.add(scope, ["x"], embedding=[unit(width)])
        except InvalidInput as error:
            return "find no room" not in str(error)
        return True

    assert sum(await asyncio.gather(*(brought("evil", width) for width in widths))) == MAX_WIDTHS
    assert len(await tables(memories)) == MAX_WIDTHS
    assert await brought("evil", 768)  # kagent's door stays open
    assert await brought("acme", 100)
    assert not await brought("evil", 100)
    kept = [held for held in (await tables(memories)).values() if held not in (100, 768)]
    assert all([await brought("evil", width) for width in kept])


async def test_an_unused_width_makes_room_at_the_prune(memories: Memories):
    """A width that a tenant no longer uses makes room at the prune."""
    for width in range(2, 2 + MAX_WIDTHS):
        await memories.add(Scope("evil", str(width), "demo"), ["x"], embedding=[unit(width)])
    other = Scope("evil", "late", "demo")
    with pytest.raises(InvalidInput, match="prune makes room"):
        await memories.add(other, ["x"], embedding=[unit(50)])
    await memories.forget(Scope("evil", "3", "demo"), everything=True)
    await memories.prune()
    await memories.add(other, ["x"], embedding=[unit(50)])
    with pytest.raises(InvalidInput, match="prune makes room"):
        await memories.add(other, ["x"], embedding=[unit(51)], embedding_space=external_name(51))


async def test_a_search_makes_no_table(memories: Memories):
    """A search with a vector of a new width finds nothing and keeps nothing."""
    for width in (3, 768, 4000):
        assert not await memories.recall(EVE, "x", embedding=unit(width))
        assert not await memories.parts.caller_vectors.nearest(EVE, unit(width), limit=5)
    assert await tables(memories) == {}


async def test_vectors_go_into_any_space_and_are_searched_there(store_uri: str):
    """A store that two embedders filled one after the other, and a caller that brings vectors of
    either.
    """
    first, second = HashEmbedder(64, "first"), HashEmbedder(64, "second")
    async with await opened(store_uri, embedding=first) as memories:
        await memories.add(ADA, ["The kettle is on the blue shelf"])
        probe = (await second.embed(["probe"], kind="document"))[0]
        await memories.store.memories.spaces.add("second", 64, probe)
        [other] = await memories.add(
            ADA, ["of the second"], embedding=[unit(64, 5)], embedding_space="second"
        )
        [brought] = await memories.add(
            ADA, ["of the first"], embedding=[unit(64, 9)], embedding_space="first"
        )
        [own] = await memories.add(
            ADA, ["of nobody"], embedding=[unit(64, 5)], embedding_space=external_name(64)
        )

        async def nearest(place: int, name: str | None) -> dict[str, float | None]:
            found = await memories.recall(
                ADA, "", embedding=unit(64, place), embedding_space=name, min_score=0.99
            )
            return {hit.memory.id: hit.cosine for hit in found}

        assert await nearest(5, "second") == {other: 1.0}
        assert await nearest(9, "first") == {brought: 1.0}
        assert await nearest(9, "second") == {}
        assert await nearest(5, None) == {own: 1.0}
        # by the embedder itself: its own space, by name or without one
        for name in ("first", None):
            assert (
                await memories.recall(ADA, "Where is the kettle?", embedding_space=name)
            ).mode == "hybrid"
        await memories.add(ADA, ["The ladder is red"], embedding_space="first")
        for unfit in ("second", "third", external_name(64), ""):
            for asked in (
                memories.recall(ADA, "kettle", embedding_space=unfit),
                memories.add(ADA, ["x"], embedding_space=unfit),
            ):
                with pytest.raises(InvalidInput, match="bring them with embedding="):
                    await asked
        with pytest.raises(InvalidInput, match=r"the embedders' are first \(64\), second \(64\)"):
            await memories.add(ADA, ["x"], embedding=[unit(64)], embedding_space="third")
        with pytest.raises(InvalidInput, match="holds vectors of 3 dimensions"):
            await memories.recall(ADA, "x", embedding=unit(3), embedding_space="second")
        assert (await memories.stats(ADA)).visible == 5
