"""Contract of search: exact term statistics and exact nearest vectors of one scope."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ..errors import ConfigurationError, InvalidInput
from ..language.tokenizer import index_terms, query_terms
from ..records import Memory, Vector
from ..stores.columns import NONE, ticks
from ..stores.values import Whole
from ..stores.view import View
from .fixtures import (
    BEYOND_INT32,
    HOSTILE,
    NOW,
    ContractPart,
    ScopedStore,
    a_memory,
    adding,
    changing,
    examples,
    found_by,
    texts,
    vector,
)

WORDS = ("zebra", "yak", "lynx", "otter", "heron", "ibex")
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)


def assert_found(view: View, memories: Sequence[Memory], terms: Sequence[str], limit: int) -> None:
    """Assert what the docstring of `View.text` promises for a view of these memories."""
    indexed = {memory.id: index_terms(memory.content, memory.author) for memory in memories}
    lengths = {id: sum(counts.values()) for id, counts in indexed.items()}
    frequencies = {
        term: n for term in terms if (n := sum(term in counts for counts in indexed.values()))
    }
    weights = {
        id: sum(
            (Fraction(1, frequencies[term]) for term in frequencies if term in counts), Fraction()
        )
        for id, counts in indexed.items()
    }
    best = sorted(
        (id for id in indexed if weights[id]), key=lambda id: (weights[id], id), reverse=True
    )[:limit]
    matches = found_by(view, terms, limit)
    assert matches.documents == len(memories)
    assert matches.average_length == pytest.approx(sum(lengths.values()) / max(1, len(memories)))
    assert dict(matches.frequencies) == frequencies
    assert matches.matches == {
        id: (lengths[id], {term: indexed[id][term] for term in frequencies if term in indexed[id]})
        for id in best
    }


class TextSearchContract(ContractPart):
    """Term frequencies and lengths count this scope only, and the rarest terms come first."""

    @examples
    @given(
        contents=st.lists(sentences, max_size=8, unique=True),
        terms=st.lists(st.sampled_from([*WORDS, "gnu"]), max_size=4, unique=True),
        limit=st.sampled_from([0, 1, 2, 3, BEYOND_INT32]),
    )
    async def test_the_counts_and_the_cut_are_exact(
        self, home: ScopedStore, contents: list[str], terms: list[str], limit: int
    ) -> None:
        """For any memories and terms the rarest terms win and equal weights tie; without terms only
        the counts are returned.
        """
        home, memories = home.elsewhere(), [a_memory(content) for content in contents]
        await home.add(*memories)
        assert_found(await home.view(), memories, terms, limit)

    @examples
    @given(
        content=texts.filter(bool),
        author=texts,
        terms=st.lists(texts | st.sampled_from(HOSTILE)),
    )
    async def test_any_text_is_found_by_its_own_words(
        self, home: ScopedStore, content: str, author: str, terms: list[str]
    ) -> None:
        """Any text is found by its own words, and any text may be a search term."""
        home, memory = home.elsewhere(), a_memory(content, author=author)
        await home.add(memory)
        for asked in (
            list(index_terms(content, author)),
            query_terms(content),
            list(dict.fromkeys(terms)),
        ):
            assert_found(await home.view(), [memory], asked, 9)

    async def test_features_tell_what_ranking_needs(self, home: ScopedStore) -> None:
        """Features hold the length of a text, whether it is a question and whether it names a time,
        also after a change.
        """
        cases = [
            ("لماذا؟\n", None, True, False),
            ("Why? Because", None, False, False),
            ("Seit Dienstag ist sie da", "ann", False, True),
        ]
        memories = [a_memory(content, author=author) for content, author, *_ in cases]
        await home.add(*memories)
        places = await home.features(*(memory.id for memory in memories))
        for memory, (content, _, *expected) in zip(memories, cases, strict=True):
            place = places[memory.id]
            assert (place["chars"], place["asks"]) == (len(content), expected[0]), content
            assert place["names_a_time"] == expected[1], content
        await home.change(memories[1], content="It is so since Monday")
        [place] = (await home.features(memories[1].id)).values()
        assert place["names_a_time"]

    async def test_features_reach_to_the_neighbours_of_a_turn(self, home: ScopedStore) -> None:
        """Features include the neighbours of a turn in its session, each once."""
        turns = await home.write(
            *(f"turn {n}" for n in range(6)), session_id="s", author="ann", happened_at=NOW
        )
        await home.write(*(f"other {n}" for n in range(6)), session_id="t")
        [alone] = await home.write("alone")
        features = await home.features(turns[2].id, alone.id, reach=2)
        assert sorted(features) == sorted([*(turn.id for turn in turns[:5]), alone.id])
        place = (await home.features(turns[2].id))[turns[2].id]
        assert (place["position"], place["author"]) == (2, "ann")
        times = ticks(NOW, NONE), ticks(turns[2].created_at, NONE)
        assert (place["happened"], place["created"]) == times


rows = st.lists(st.integers(-3, 3), min_size=3, max_size=3).filter(any)


def nearest(stored: Mapping[str, Vector], query: Vector, limit: int) -> list[tuple[str, float]]:
    """Return ids and cosines in the order that the docstring of `View.nearest` defines."""
    target = query.astype(np.float64)

    def cosine(row: Vector) -> float:
        exact = row.astype(np.float64)
        return round(float(exact @ target / (np.linalg.norm(exact) * np.linalg.norm(target))), 6)

    cosines = [(id, cosine(row)) for id, row in stored.items()]
    return sorted(cosines, key=lambda hit: (hit[1], hit[0]), reverse=True)[:limit]


async def add_rows(home: ScopedStore, space: int, *stored: Any, **values: Any) -> dict[str, Any]:
    """Add a memory for each of these vectors and return the vectors by memory id."""
    memories = [a_memory(f"row {number}", **values) for number in range(len(stored))]
    vectors = {memory.id: row for memory, row in zip(memories, stored, strict=True)}
    await home.apply(*adding(*memories), vectors=vectors, space_number=space)
    return vectors


class VectorSearchContract(ContractPart):
    """A search returns exactly the k nearest vectors of the scope."""

    @examples
    @given(
        stored=st.lists(rows, max_size=9),
        queries=st.lists(rows, max_size=3),
        limit=st.sampled_from([0, 1, 3, BEYOND_INT32]),
    )
    async def test_it_agrees_with_numpy_to_the_last_tie(
        self, home: ScopedStore, stored: list[list[int]], queries: list[list[int]], limit: int
    ) -> None:
        """The result equals that of numpy, ties included, for any vectors, queries and limit."""
        home, space = home.elsewhere(), await home.space(3)
        vectors = await add_rows(home, space, *(vector(*row) for row in stored))
        vectors_asked = [vector(*query) for query in queries]
        hits = await (await home.view()).nearest(space, vectors_asked, limit=limit)
        assert hits == [nearest(vectors, query, limit) for query in vectors_asked]

    async def test_a_thousand_memories_of_others_take_no_place(self, home: ScopedStore) -> None:
        """Closer vectors and equal words in other scopes change neither hits nor counts."""
        space = await home.space(3)
        for _ in range(10):
            await add_rows(home.elsewhere(), space, *[vector(1, 0, 0)] * 100)
        mine = await add_rows(home, space, *(vector(-1, n, 3) for n in range(7)))
        for limit in (1, 5, 7, 50):
            assert await home.nearest(space, 1, 0, 0, limit=limit) == nearest(
                mine, vector(1, 0, 0), limit
            )
        assert_found(await home.view(), await home.listed(), ["row", "3"], 9)

    async def test_a_memory_has_one_vector_in_each_space(self, home: ScopedStore) -> None:
        """Vectors of two spaces never mix, a new vector replaces the old one, and memories without
        one are listed oldest first.
        """
        first, second = await home.space(2, "one"), await home.space(2, "two")
        a, b, c = (memory.id for memory in await home.write("a", "b", "c"))
        for space, rows, hits in (
            (first, {a: (1, 0)}, [(a, 1.0)]),
            (second, {a: (0, 1), b: (1, 0)}, [(b, 1.0), (a, 0.0)]),
            (first, {a: (-1, 0)}, [(a, -1.0)]),
        ):
            await home.embed(space, rows)
            assert await home.nearest(space, 1, 0) == hits
        for limit, expected in ((9, [b, c]), (1, [b]), (0, [])):
            assert await home.unembedded(first, limit=limit) == expected

    async def test_the_scopes_that_lack_a_vector_are_told(self, home: ScopedStore) -> None:
        """Scopes with a visible memory without a vector are listed in order; forgotten memories do
        not count.
        """
        whole, part, erased, other, empty = scopes = [home.elsewhere() for _ in range(5)]
        space = await home.space(3)
        for scope, embedded in ((whole, 2), (part, 1), (erased, 1), (other, 0)):
            memories = await scope.write("tea", "cocoa")
            await scope.embed(space, {memory.id: (1, 0, 0) for memory in memories[:embedded]})
        await erased.forget(*await erased.unembedded(space))
        for some, expected in ((scopes, [part, other]), ([whole, empty], []), ([], [])):
            counts = await home.store.memories.lacking_vectors(
                [part.scope for part in some], space, now=home.now
            )
            assert list(counts) == sorted(
                (part.scope for part in expected), key=lambda scope: scope.user
            )

    async def test_what_has_changed_since_a_time_is_told(self, home: ScopedStore) -> None:
        """What was changed or added since a time is named, and what was there then may have been
        different.
        """
        edited, same = await home.write("old words", "the same words")
        then, later = home.now + timedelta(hours=1), home.at(home.now + timedelta(hours=2))
        await later.change(edited, content="new words")
        added = a_memory("other words", now=later.now)
        await later.add(added)
        changed = await home.store.memories.changed_since(home.scope, then)
        assert {added.id} < changed.keys()
        assert changed[edited.id]
        assert changed.get(same.id, True)

    async def test_of_a_memory_restored_twice_the_last_vector_counts(
        self, home: ScopedStore
    ) -> None:
        """A memory may come twice in one call to a store that restores; its last vectors stay."""
        space, memory = await home.space(3), a_memory("the tea is green")
        twice = [Whole(memory, vectors={space: vector(*row)}) for row in ((1, 0, 0), (0, 1, 0))]
        try:
            outcomes = await home.store.memories.restore(home.scope, twice, now=home.now)
        except ConfigurationError:  # it restores nothing
            assert await home.nearest(space, 0, 1, 0) == []
        else:
            assert [*outcomes] == ["added", "present"]
            assert await home.nearest(space, 0, 1, 0) == [(memory.id, 1.0)]

    async def test_changed_content_loses_its_vectors(self, home: ScopedStore) -> None:
        """Changing the content drops its vectors unless the batch brings new ones; other changes
        keep them.
        """
        space, other = await home.space(3), await home.space(name="other")
        [memory] = await home.write("old words")
        await home.embed(space, {memory.id: (1, 0, 0)})
        await home.embed(other, {memory.id: (1, 0)})
        pinned = await home.change(memory, "pin", pinned=True)
        assert await home.nearest(space, 1, 0, 0) == [(memory.id, 1.0)]
        reworded = await home.change(pinned, content="new words")
        assert await home.nearest(space, 1, 0, 0) == []
        assert await home.unembedded(space) == await home.unembedded(other) == [memory.id]
        change = changing(reworded, content="newer words")
        await home.apply(change, vectors={memory.id: vector(0, 0, 1)}, space_number=space)
        assert await home.nearest(space, 1, 0, 0) == [(memory.id, 0.0)]

    async def test_a_query_that_does_not_fit_is_invalid_input(self, home: ScopedStore) -> None:
        """A query vector of another width, of length zero or of an unknown space raises
        InvalidInput.
        """
        space = await home.space(3)
        for bad in ((1,), (1, 2, 3, 4), (), (0, 0, 0), (float("nan"), 1, 1), (float("inf"), 1, 1)):
            with pytest.raises(InvalidInput):
                await (await home.view()).nearest(space, [vector(1, 0, 0), vector(*bad)], limit=9)
        for query in (
            home.nearest(77, 1, 0, 0),
            home.unembedded(77),
            home.store.memories.vectors(home.scope, 77, []),
            home.store.memories.lacking_vectors([home.scope], 77, now=home.now),
        ):
            with pytest.raises(InvalidInput):
                await query

    @pytest.mark.parametrize(
        ("dimensions", "size"),
        [
            *((dimensions, 1) for dimensions in (1, 768, 2000, 4000, 4048, 4049, 16_000)),
            *((3, size) for size in (1e-300, 1e-45, 1e-5, 2.0**-40, 2.0**17, 7e4, 1e300)),
        ],
    )
    async def test_vectors_of_any_width_and_size_are_found(
        self, home: ScopedStore, dimensions: int, size: float
    ) -> None:
        """Vectors of any width and length are found exactly; only their direction counts."""
        space = await home.space(dimensions)
        generator = np.random.default_rng(dimensions)
        rows: Any = generator.choice([-1, 0.5, 1], (20, dimensions))
        vectors = await add_rows(home, space, *(rows * size))
        exact = dict(zip(vectors, rows.astype(np.float32), strict=True))
        for query, sized, limit in ((rows[4], rows[4] * size, 2), (-rows[0], -rows[0] / size, 20)):
            [hits] = await (await home.view()).nearest(space, [sized], limit=limit)
            expected = [cosine for _, cosine in nearest(exact, query, limit)]
            # another size has digits that half precision does not keep
            tolerance = 2e-6 if math.frexp(size)[0] == 0.5 else 1e-3
            assert [cosine for _, cosine in hits] == pytest.approx(expected, abs=tolerance)
        [forgotten] = await home.forget(next(iter(vectors)))
        [hits] = await (await home.view()).nearest(space, [rows[1] * size], limit=99)
        assert {id for id, _ in hits} == set(vectors) - {forgotten}

    async def test_an_embedding_space_is_made_once(self, home: ScopedStore) -> None:
        """An embedding space is created once for a name and width, however many callers ask at
        once, and keeps its probe.
        """
        add = home.store.memories.spaces.add
        keys = (("hash", 3, vector(1, 2, 3)), ("hash", 4, None), ("'; DROP TABLE x; --", 3, None))
        created = await asyncio.gather(*(add(*key) for key in (*keys, *keys)))
        numbers = [space.number for space in created]
        assert numbers[:3] == numbers[3:]
        spaces = {
            space.number: (
                space.name,
                space.dimensions,
                space.probe is None or space.probe.tolist(),
            )
            for space in await home.store.memories.spaces.all()
        }
        assert spaces == {
            numbers[0]: ("hash", 3, [1, 2, 3]),
            numbers[1]: ("hash", 4, True),
            numbers[2]: (keys[2][0], 3, True),
        }
