"""The vector leg: exact within the scope, against numpy; small whole numbers keep every store's arithmetic exact."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ..errors import InvalidInput
from ..records import Filter, Vector
from ..stores.base import Batch, Store
from .fixtures import (
    BEYOND_INT32,
    DAY,
    NOW,
    ContractPart,
    a_memory,
    a_scope,
    add,
    add_texts,
    adding,
    changing,
    embed,
    examples,
    vector,
)

rows = st.lists(st.integers(-3, 3), min_size=3, max_size=3).filter(any)


def nearest(stored: Mapping[str, Vector], query: Vector, limit: int) -> list[tuple[str, float]]:
    """Ids and cosines in the order that the docstring of `View.nearest` promises."""
    wanted = query.astype(np.float64)

    def cosine(row: Vector) -> float:
        exact = row.astype(np.float64)
        return round(float(exact @ wanted / (np.linalg.norm(exact) * np.linalg.norm(wanted))), 6)

    found = [(id, cosine(row)) for id, row in stored.items()]
    return sorted(found, key=lambda hit: (hit[1], hit[0]), reverse=True)[:limit]


class VectorSearchContract(ContractPart):
    """The k nearest, whoever else is near."""

    @examples
    @given(
        stored=st.lists(rows, max_size=9),
        queries=st.lists(rows, max_size=3),
        limit=st.sampled_from([0, 1, 3, BEYOND_INT32]),
    )
    async def test_it_agrees_with_numpy_to_the_last_tie(
        self, store: Store, stored: list[list[int]], queries: list[list[int]], limit: int
    ) -> None:
        scope = a_scope()
        space_number = (await store.add_embedding_space("hash", 3, None)).number
        memories = [a_memory(f"row {number}") for number in range(len(stored))]
        vectors = {memory.id: vector(*row) for memory, row in zip(memories, stored, strict=True)}
        await store.apply(scope, Batch(changes=adding(*memories), vectors=vectors, space_number=space_number), now=NOW)
        asked = [vector(*query) for query in queries]
        found = await store.view(scope, now=NOW).nearest(space_number, asked, limit=limit)
        assert found == [nearest(vectors, query, limit) for query in asked]

    async def test_a_thousand_closer_memories_of_others_take_no_place(self, store: Store) -> None:
        space_number = (await store.add_embedding_space("hash", 3, None)).number
        for _ in range(10):
            crowd = [a_memory(f"near {number}") for number in range(100)]
            near = {memory.id: vector(1, 0, 0) for memory in crowd}
            await store.apply(
                a_scope(), Batch(changes=adding(*crowd), vectors=near, space_number=space_number), now=NOW
            )
        scope = a_scope()
        mine = {a_memory(f"far {n}").id: vector(-1, n, 3) for n in range(7)}
        memories = [a_memory(f"far {n}", id=id) for n, id in enumerate(mine)]
        await store.apply(scope, Batch(changes=adding(*memories), vectors=mine, space_number=space_number), now=NOW)
        for limit in (1, 5, 7, 50):
            found = await store.view(scope, now=NOW).nearest(space_number, [vector(1, 0, 0)], limit=limit)
            assert found == [nearest(mine, vector(1, 0, 0), limit)]

    async def test_the_limit_counts_after_filter_expiry_and_supersession(self, store: Store) -> None:
        scope = a_scope()
        space_number = (await store.add_embedding_space("hash", 3, None)).number
        memories = [
            a_memory(f"row {n}", tags=("y",) if n % 4 == 3 else ("x",), ttl_days=1 if n % 4 == 1 else None)
            for n in range(40)
        ]
        vectors = {memory.id: vector(40 - number, number, 1) for number, memory in enumerate(memories)}
        await store.apply(scope, Batch(changes=adding(*memories), vectors=vectors, space_number=space_number), now=NOW)
        past = [changing(memory, "supersede", state="superseded") for memory in memories[2::4]]
        await store.apply(scope, Batch(changes=past), now=NOW)
        visible = {memory.id: vectors[memory.id] for memory in memories[0::4]}
        found = await store.view(scope, filter=Filter(tags=("x",)), now=NOW + DAY).nearest(
            space_number, [vector(1, 0, 0)], limit=10
        )
        assert found == [nearest(visible, vector(1, 0, 0), 10)]

    async def test_the_vectors_of_two_embedding_spaces_never_mix(self, store: Store) -> None:
        scope = a_scope()
        first, second = await store.add_embedding_space("one", 3, None), await store.add_embedding_space("two", 3, None)
        a, b = await add_texts(store, scope, "a", "b")
        await embed(store, scope, first, {a: (1, 0, 0)})
        await embed(store, scope, second, {a: (0, 1, 0), b: (1, 0, 0)})
        query = [vector(1, 0, 0)]
        assert await store.view(scope, now=NOW).nearest(first.number, query, limit=9) == [[(a, 1.0)]]
        assert await store.view(scope, now=NOW).nearest(second.number, query, limit=9) == [[(b, 1.0), (a, 0.0)]]

    async def test_all_answers_of_a_view_go_together(self, store: Store) -> None:
        scope = a_scope()
        space = await store.add_embedding_space("hash", 3, None)
        kept, gone = await add_texts(store, scope, "zebra", "yak")
        await embed(store, scope, space, {kept: (1, 0, 0), gone: (0, 1, 0)})
        for left in ({kept, gone}, {kept}):
            view = store.view(scope, now=NOW)
            await view.text(["zebra"], limit=9)
            [near] = await view.nearest(space.number, [vector(1, 0, 0)], limit=9)
            places = await view.features([kept, gone])
            assert {id for id, _ in near} == {place.id for place in places} == left
            await store.forget(scope, ids=[gone], now=NOW)

    async def test_a_new_vector_replaces_the_old_one(self, store: Store) -> None:
        scope = a_scope()
        space = await store.add_embedding_space("hash", 3, None)
        (id,) = await add_texts(store, scope, "turned")
        await embed(store, scope, space, {id: (1, 0, 0)})
        assert await store.view(scope, now=NOW).nearest(space.number, [vector(1, 0, 0)], limit=9) == [[(id, 1.0)]]
        await embed(store, scope, space, {id: (-1, 0, 0)})
        found = await store.view(scope, now=NOW).nearest(space.number, [vector(1, 0, 0)], limit=9)
        assert found == [[(id, -1.0)]]

    async def test_the_scopes_that_lack_a_vector_are_told(self, store: Store) -> None:
        whole, part, empty, gone, other = scopes = [a_scope() for _ in range(5)]
        space = await store.add_embedding_space("hash", 3, None)
        memories = {scope: [a_memory("tea"), a_memory("cocoa")] for scope in (whole, part, gone, other)}
        for scope, some in memories.items():
            await add(store, scope, *some)
        await embed(store, whole, space, {one.id: (1, 0, 0) for one in memories[whole]})
        await embed(store, part, space, {memories[part][0].id: (1, 0, 0)})
        await embed(store, gone, space, {memories[gone][0].id: (1, 0, 0)})
        await store.forget(gone, ids=[memories[gone][1].id], now=NOW)
        lacking = await store.lacking_vectors(scopes, space.number, now=NOW)
        assert sorted(scope.user for scope in lacking) == sorted((part.user, other.user))
        assert list(await store.lacking_vectors([whole, empty], space.number, now=NOW)) == []
        assert list(await store.lacking_vectors([], space.number, now=NOW)) == []
        with pytest.raises(InvalidInput):
            await store.lacking_vectors(scopes, space.number + 1, now=NOW)

    async def test_changed_content_loses_its_vectors_and_other_changes_keep_them(self, store: Store) -> None:
        scope = a_scope()
        space = await store.add_embedding_space("hash", 3, None)
        number, query = space.number, [vector(1, 0, 0)]
        memory = a_memory("old words")
        await add(store, scope, memory)
        await embed(store, scope, space, {memory.id: (1, 0, 0)})
        pinned = changing(memory, "pin", pinned=True)
        await store.apply(scope, Batch(changes=[pinned]), now=NOW)
        assert await store.view(scope, now=NOW).nearest(number, query, limit=9) == [[(memory.id, 1.0)]]
        reworded = changing(pinned.memory, content="new words")
        await store.apply(scope, Batch(changes=[reworded]), now=NOW)
        assert await store.view(scope, now=NOW).nearest(number, query, limit=9) == [[]]
        assert [m.id for m in await store.unembedded(scope, number, limit=9, now=NOW)] == [memory.id]
        with_vector = Batch(
            changes=[changing(reworded.memory, content="newer words")],
            vectors={memory.id: vector(0, 0, 1)},
            space_number=number,
        )
        await store.apply(scope, with_vector, now=NOW)
        assert await store.view(scope, now=NOW).nearest(number, query, limit=9) == [[(memory.id, 0.0)]]

    async def test_a_query_that_does_not_fit_is_invalid_input(self, store: Store) -> None:
        space_number = (await store.add_embedding_space("hash", 3, None)).number
        for bad in ((1,), (1, 2, 3, 4), (), (0, 0, 0), (float("nan"), 1, 1), (float("inf"), 1, 1)):
            with pytest.raises(InvalidInput):
                await store.view(a_scope(), now=NOW).nearest(space_number, [vector(1, 0, 0), vector(*bad)], limit=9)

    @pytest.mark.parametrize("size", [1e-300, 1e-45, 1e-5, 2.0**-40, 2.0**17, 7e4, 1e300])
    async def test_the_size_of_a_vector_changes_nothing(self, store: Store, size: float) -> None:
        scope = a_scope()
        space_number = (await store.add_embedding_space("hash", 3, None)).number
        directions = [np.array(row, np.float64) for row in ((1, 2, 3), (3, -2, 1), (-1, -2, -3), (0, 0, 1), (1, 0, 0))]
        memories = [a_memory(f"row {number}") for number in range(len(directions))]
        stored: dict[str, Any] = {memory.id: row * size for memory, row in zip(memories, directions, strict=True)}
        expected = {memory.id: row.astype(np.float32) for memory, row in zip(memories, directions, strict=True)}
        batch = Batch(changes=adding(*memories), vectors=stored, space_number=space_number)
        await store.apply(scope, batch, now=NOW)
        queries: list[Any] = [directions[0] * size, directions[1] / size, directions[3]]
        for place, found in zip(
            (0, 1, 3), await store.view(scope, now=NOW).nearest(space_number, queries, limit=9), strict=True
        ):
            wanted = nearest(expected, directions[place].astype(np.float32), 9)
            assert [id for id, _ in found] == [id for id, _ in wanted]
            exact = math.frexp(size)[0] == 0.5  # another size has digits that half precision does not keep
            error = 0 if exact else 1e-3
            assert [cosine for _, cosine in found] == pytest.approx([cosine for _, cosine in wanted], abs=error)

    async def test_an_unknown_embedding_space_is_invalid_input(self, store: Store) -> None:
        scope, memory = a_scope(), a_memory("here")
        batch = Batch(changes=adding(memory), vectors={memory.id: vector(1, 0, 0)}, space_number=77)
        for asked in (
            store.view(scope, now=NOW).nearest(77, [vector(1, 0, 0)], limit=9),
            store.unembedded(scope, 77, limit=9, now=NOW),
            store.apply(scope, batch, now=NOW),
        ):
            with pytest.raises(InvalidInput):
                await asked
        assert await store.version(scope) == 0

    @pytest.mark.parametrize("dimensions", [1, 768, 2000, 4000, 4048, 4049, 16_000])
    async def test_vectors_of_any_usual_width_are_kept_and_found(self, store: Store, dimensions: int) -> None:
        scope = a_scope()
        space_number = (await store.add_embedding_space(f"wide {dimensions}", dimensions, None)).number
        near, far = np.ones(dimensions, dtype=np.float32), np.ones(dimensions, dtype=np.float32)
        far[: dimensions // 2 + 1] = -1
        memories = [a_memory("near"), a_memory("far"), *(a_memory(f"crowd {number}") for number in range(40))]
        vectors = {memories[0].id: near, memories[1].id: far}
        for number, memory in enumerate(memories[2:]):
            vectors[memory.id] = near.copy()
            vectors[memory.id][: 1 + number * dimensions // 80] = 0.5
        await store.apply(scope, Batch(changes=adding(*memories), vectors=vectors, space_number=space_number), now=NOW)
        for query, limit in ((near, 2), (far, 42)):
            [found] = await store.view(scope, now=NOW).nearest(space_number, [query], limit=limit)
            assert [score for _, score in found] == pytest.approx(
                [score for _, score in nearest(vectors, query, limit)], abs=2e-6
            )
            if dimensions > 1:
                assert found[0][0] == nearest(vectors, query, 1)[0][0]
        gone = await store.forget(scope, ids=[memories[0].id], now=NOW)
        [found] = await store.view(scope, now=NOW).nearest(space_number, [near], limit=99)
        assert {id for id, _ in found} == set(vectors).difference(gone)

    async def test_what_has_no_vector_yet_is_given_oldest_first(self, store: Store) -> None:
        scope = a_scope()
        space = await store.add_embedding_space("hash", 3, None)
        oldest, middle, newest = await add_texts(store, scope, "a", "b", "c")
        await embed(store, scope, space, {middle: (1, 0, 0)})
        for limit, expected in ((9, [oldest, newest]), (1, [oldest]), (0, [])):
            missing = await store.unembedded(scope, space.number, limit=limit, now=NOW)
            assert [memory.id for memory in missing] == expected

    async def test_an_embedding_space_is_made_once_and_keeps_its_probe(self, store: Store) -> None:
        one = await store.add_embedding_space("hash", 3, vector(1, 2, 3))
        again = await store.add_embedding_space("hash", 3, vector(1, 2, 3))
        wider = await store.add_embedding_space("hash", 4, None)
        hostile = await store.add_embedding_space("'; DROP TABLE x; --", 3, None)
        assert one.number == again.number
        assert len({one.number, wider.number, hostile.number}) == 3
        kept = list(await store.embedding_spaces())
        assert [(g.number, g.name, g.dimensions) for g in kept] == [
            (g.number, g.name, g.dimensions) for g in (one, wider, hostile)
        ]
        assert kept[0].probe is not None
        assert kept[0].probe.tolist() == [1, 2, 3]
        assert kept[1].probe is None
