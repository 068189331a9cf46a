"""Where large scopes are searched approximately, hardly anything is missed, nothing is wrong, and all is as of now."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from kagent_memory.errors import ConfigurationError
from kagent_memory.memories import Memories
from kagent_memory.records import Change, Filter, Memory, Scope, new_id
from kagent_memory.stores import open_store, sign_codes
from kagent_memory.stores.base import Batch
from kagent_memory.stores.sign_codes import SignCodes
from kagent_memory.stores.vector_index import CANDIDATES, ScopeVectors, search

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SCOPE = Scope("acme", "ada", "notes")
DIMENSIONS = 96  # a word and a half of signs
LIMIT = 5
COUNT = 2 * CANDIDATES * LIMIT  # the fewest vectors of which so many are searched for by their signs
ABOVE = 20

needs_counting = pytest.mark.skipif(not sign_codes.IS_COUNTING, reason="NumPy counts no bits before 2.0")


class Texts:
    """Vectors as an embedder makes them: many about the same topics, and perhaps all with much in common."""

    def __init__(self, seed: int = 0, common: float = 0.0):
        self.numbers = np.random.default_rng(seed)
        self.topics = self.numbers.normal(size=(40, DIMENSIONS)) + common * self.numbers.normal(size=DIMENSIONS)

    def vectors(self, count: int) -> np.ndarray:
        said = self.topics[self.numbers.integers(len(self.topics), size=count)]
        return (said + self.numbers.normal(size=said.shape)).astype(np.float16)


@pytest.fixture
def made():
    return Texts()


def held_of(rows: dict[str, np.ndarray]) -> ScopeVectors:
    held = ScopeVectors(DIMENSIONS)
    held.take(list(rows), np.array(list(rows.values())))
    return held


def loaded_anew(rows: dict[str, np.ndarray], centre: np.ndarray) -> ScopeVectors:
    """Whose signs are around the same mean."""
    held = held_of(rows)
    vectors = held._matrix[: len(rows)]
    held._codes = SignCodes(vectors)
    held._codes.centre = centre
    held._codes.put(range(len(rows)), vectors)
    return held


def asked(held, queries, *, limit=LIMIT, passing=None, above=ABOVE):
    return search(held, [query.astype(np.float32) for query in queries], limit, passing, approximate_above=above)


@needs_counting
@pytest.mark.parametrize(("limit", "least"), [(5, 0.85), (50, 0.99)])
@pytest.mark.parametrize("common", [0.0, 5.0])
def test_nearly_all_of_the_nearest_are_found_each_with_its_own_cosine(limit, least, common):
    made = Texts(common=common)
    held = held_of({f"m{number:04}": vector for number, vector in enumerate(made.vectors(5000))})
    queries = made.vectors(100)
    exact, found = (asked(held, queries, limit=limit, above=above) for above in (0, ABOVE))
    shared = 0
    for query, truth, near in zip(queries, exact, found, strict=True):
        assert len(near) == limit
        assert near == sorted(near, key=lambda hit: (hit[1], hit[0]), reverse=True)
        [every] = asked(held, [query], limit=5000, above=0)
        assert set(near) <= set(every)
        shared += len(set(near) & set(truth))
    assert shared / (100 * limit) > least, shared


@needs_counting
@pytest.mark.parametrize("seed", range(4))
def test_after_any_changes_it_answers_as_what_is_loaded_anew(seed):
    made, chance = Texts(seed), random.Random(seed)
    rows = {f"m{number:05}": vector for number, vector in enumerate(made.vectors(3 * COUNT))}
    held = held_of(rows)
    for turn in range(60):
        few = chance.sample(sorted(rows), chance.randint(0, 9))
        if chance.random() < 0.4:
            held.remove([*few, "nobody"])
            for gone in few:
                del rows[gone]
        else:
            ids = [*few, *(f"{chance.random()}" for _ in range(chance.choice((0, 1, 300))))]
            vectors = made.vectors(len(ids))
            rows |= dict(zip(ids, vectors, strict=True))
            held.take(ids, vectors)
        queries = [*made.vectors(2), *map(rows.__getitem__, chance.sample(sorted(rows), 1))]
        found = asked(held, queries)
        assert held._codes is not None
        assert found == asked(loaded_anew(rows, held._codes.centre), queries), turn


def test_scopes_that_are_not_above_it_and_those_of_who_did_not_choose_it_are_searched_exactly(made, monkeypatch):
    monkeypatch.setattr(SignCodes, "__init__", None)
    held = held_of({f"m{number:05}": vector for number, vector in enumerate(made.vectors(COUNT))})
    queries = made.vectors(3)
    assert asked(held, queries, above=COUNT) == asked(held, queries, above=0)
    assert asked(held, queries, limit=LIMIT + 1) == asked(held, queries, limit=LIMIT + 1, above=0)
    assert asked(held, queries, limit=0) == [[], [], []]


def test_where_numpy_counts_no_bits_all_are_compared(made, monkeypatch):
    held = held_of({f"m{number:05}": vector for number, vector in enumerate(made.vectors(3 * COUNT))})
    queries = made.vectors(20)
    exact = asked(held, queries, above=0)
    monkeypatch.setattr(sign_codes, "IS_COUNTING", False)
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    assert asked(held, queries) == exact


@pytest.mark.parametrize("share", [2, 97])
def test_where_readers_may_not_see_most_of_the_likely_ones_all_are_compared(made, share):
    held = held_of({f"m{number:05}": vector for number, vector in enumerate(made.vectors(9 * COUNT))})
    good = set(held.ids[::share])
    queries = made.vectors(20)

    def passing(ids):
        return good if ids is None else good.intersection(ids)

    exact, found = (asked(held, queries, passing=passing, above=above) for above in (0, ABOVE))
    assert all(len(near) == LIMIT and good.issuperset(dict(near)) for near in found)
    assert (found == exact) or share == 2


@needs_counting
async def test_whoever_writes_a_search_at_hand_is_as_of_now_and_all_else_is_exact(store_uri, made):
    chance, shared, told = random.Random(5), 0, 0
    async with (
        await open_store(store_uri, approximate_above=ABOVE) as here,
        await open_store(store_uri) as there,
    ):
        space = (await here.add_embedding_space("made", DIMENSIONS, None)).number
        ids: list[str] = []

        async def write(store, count):
            new = [Memory(id=new_id(), content=new_id(), created_at=NOW, updated_at=NOW) for _ in range(count)]
            known = chance.sample(ids, min(len(ids), 3))
            touched = [*(memory.id for memory in new), *known]
            vectors = dict(zip(touched, made.vectors(len(touched)).astype(np.float32), strict=True))
            changes = [Change(kind="add", memory=memory) for memory in new]
            await store.apply(SCOPE, Batch(changes=changes, vectors=vectors, space_number=space), now=NOW)
            ids.extend(memory.id for memory in new)

        await write(there, 3 * COUNT)
        for turn in range(24):
            if turn % 4 == 1:
                await write(chance.choice((here, there)), 2)
            elif turn % 4 == 3:
                gone = [ids.pop(chance.randrange(len(ids))) for _ in range(2)]
                await chance.choice((here, there)).forget(SCOPE, ids=gone, now=NOW)
            for _ in range(4):
                [query] = made.vectors(1).astype(np.float32)
                version = (await here.search_text(SCOPE, [], limit=0, now=NOW)).version
                by = {"limit": LIMIT, "version": version, "now": NOW}
                [exact] = await here.search_vector(SCOPE, space, [query], **by)
                [every] = await there.search_vector(SCOPE, space, [query], limit=len(ids), now=NOW)
                assert dict(exact) == pytest.approx(dict(every[:LIMIT]), abs=1.5e-6)
                if (found := await here.nearest_known(SCOPE, space, [query], **by)) is None:
                    continue
                [near], told = found[0], told + 1
                assert len(near) == LIMIT
                assert dict(near) == pytest.approx({id: dict(every)[id] for id, _ in near}, abs=1.5e-6)
                shared += len(dict(near).keys() & dict(exact).keys())
        [held] = [one for one, _ in here._cache._held._values.values()]
        assert held._codes is not None
    assert told >= 24
    assert shared > 0.97 * LIMIT * told


@needs_counting
async def test_what_expired_is_not_found_by_its_signs(store_uri, made):
    async with await open_store(store_uri, approximate_above=ABOVE) as store:
        space = (await store.add_embedding_space("made", DIMENSIONS, None)).number
        new = [
            Memory(
                id=new_id(),
                content=new_id(),
                created_at=NOW,
                updated_at=NOW,
                expires_at=NOW + timedelta(days=1) if number % 10 == 0 else None,
            )
            for number in range(9 * COUNT)
        ]
        for start in range(0, len(new), 600):
            some = new[start : start + 600]
            vectors = dict(zip([memory.id for memory in some], made.vectors(len(some)).astype(np.float32), strict=True))
            batch = Batch(
                changes=[Change(kind="add", memory=memory) for memory in some], vectors=vectors, space_number=space
            )
            await store.apply(SCOPE, batch, now=NOW)
        later, [query] = NOW + timedelta(days=2), made.vectors(1).astype(np.float32)
        for _ in range(3):
            version = (await store.search_text(SCOPE, [], limit=0, now=later)).version
            by = {"limit": LIMIT, "version": version, "now": later}
            [exact] = await store.search_vector(SCOPE, space, [query], **by)
            known = await store.nearest_known(SCOPE, space, [query], **by)
        assert known is not None
        assert len(known[0][0]) == LIMIT
        assert not {memory.id for memory in new[::10]} & dict(known[0][0]).keys()
        [filtered] = await store.search_vector(SCOPE, space, [query], limit=LIMIT, filter=Filter(), now=later)
        assert filtered == exact


async def test_the_setting_reaches_the_store_and_takes_no_number_below_none(tmp_path):
    for place in ("memory.db", "{tenant}.db"):
        uri = f"libsql:///{tmp_path}/{place}"
        async with await Memories.open(uri, llm=False, worker=False) as memories:
            assert memories.store._approximate_above == 0
        async with await Memories.open(f"{uri}?approximate_above=700", llm=False, worker=False) as memories:
            assert memories.store._approximate_above == 700
    for wrong in ("-1", "many"):
        with pytest.raises(ConfigurationError, match="approximate_above"):
            await Memories.open(f"libsql:///{tmp_path}/memory.db?approximate_above={wrong}")
