"""The index of a scope answers as if it were made anew from what the database holds at that moment."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagent_memory import ConfigurationError, Memories
from kagent_memory.records import Change, Filter, Memory, Scope, new_id
from kagent_memory.stores import MemoryStore, open_store
from kagent_memory.stores.base import Batch, RankFeatures
from kagent_memory.stores.libsql.vector_search import ScopeVectors
from kagent_memory.stores.postings import TAIL, packed
from kagent_memory.stores.sql.index_cache import Indexes
from kagent_memory.stores.text_index import Entry, ScopeIndex

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SCOPE, OTHER = Scope("t", "u", "a"), Scope("t", "v", "a")


@pytest.fixture
async def pair(store_uri):
    """Two stores of one database, as two processes have them."""
    async with await open_store(store_uri) as one, await open_store(store_uri) as other:
        yield one, other


def memory(text: str, **values: Any) -> Memory:
    return Memory(id=new_id(), content=text, created_at=NOW, updated_at=NOW, **values)


async def add(store: MemoryStore, *memories: Memory, scope: Scope = SCOPE) -> None:
    await store.apply(
        scope, Batch(changes=[Change(kind="add", memory=one, explicit=True) for one in memories]), now=NOW
    )


async def found(store: MemoryStore, *terms: str, scope: Scope = SCOPE, now: datetime = NOW) -> set[str]:
    return set((await store.search_text(scope, terms, limit=99, now=now)).matches)


async def test_what_another_process_adds_edits_and_forgets_is_seen_at_once(pair):
    here, there = pair
    first, second = memory("green tea"), memory("black tea", session_id="s")
    await add(there, first, second)
    assert await found(here, "tea") == {first.id, second.id}
    [stored] = (await there.get(SCOPE, [first.id], now=NOW)).values()
    edited = replace(stored, content="mocha", revision=stored.revision + 1)
    await there.apply(SCOPE, Batch(changes=[Change(kind="update", memory=edited, explicit=True)]), now=NOW)
    assert (await found(here, "tea"), await found(here, "mocha")) == ({second.id}, {first.id})
    await there.forget(SCOPE, ids=[second.id], now=NOW)
    assert await found(here, "tea") == set()
    assert await here.places(SCOPE, [second.id], now=NOW) == []


async def test_what_another_process_prunes_or_extends_is_seen_at_once(pair):
    here, there = pair
    soon = NOW + timedelta(days=1)
    kept, gone = (memory(text, expires_at=soon, ttl_days=1) for text in ("kept tea", "gone tea"))
    await add(there, kept, gone)
    await there.deliver(SCOPE, retrieved=[], delivered=[kept.id], now=NOW)
    assert await found(here, "tea", now=soon) == set()
    await there.prune(now=soon, popular_after=1)
    assert await found(here, "tea", now=soon) == {kept.id}


async def test_scopes_keep_indexes_of_their_own(pair):
    here, _ = pair
    mine, theirs = memory("tea"), memory("tea")
    await add(here, mine)
    await add(here, theirs, scope=OTHER)
    assert (await found(here, "tea"), await found(here, "tea", scope=OTHER)) == ({mine.id}, {theirs.id})


async def test_many_loads_one_row_at_a_time_answer_as_one_load_of_all(pair):
    here, there = pair
    for number in range(30):
        await add(there, memory(f"tea number {number} of {number % 3}", session_id="s"))
        await found(here, "tea")
    late = Indexes(max_bytes=2**20)
    ask = {"terms": ["tea", "1", "2"], "limit": 7, "filter": Filter(), "now": NOW}
    piecemeal = await here.search_text(SCOPE, **ask)
    here._indexes = late
    anew = await here.search_text(SCOPE, **ask)
    assert dict(piecemeal.matches) == dict(anew.matches)
    assert list(piecemeal.matches) == list(anew.matches)
    assert (piecemeal.documents, piecemeal.average_length, piecemeal.frequencies) == (
        anew.documents, anew.average_length, anew.frequencies,
    )  # fmt: skip


async def test_what_is_kept_in_memory_is_bounded_by_one_setting(tmp_path):
    async with await Memories.open(f"libsql:///{tmp_path}/memory.db?cache_mb=3", llm=False, worker=False) as memories:
        store = memories.store
        assert (store._indexes._kept._bound, store._cache._held._bound) == (3 * 2**20, 3 * 2**20)
    for wrong in ("0", "-1", "much"):
        with pytest.raises(ConfigurationError, match="cache_mb"):
            await Memories.open(f"libsql:///{tmp_path}/memory.db?cache_mb={wrong}")


async def test_only_the_scopes_searched_last_are_kept(pair):
    here, _ = pair
    here._indexes = Indexes(max_bytes=1)
    for scope in (SCOPE, OTHER):
        await add(here, memory("tea"), scope=scope)
        assert len(await found(here, "tea", scope=scope)) == 1
    assert len(here._indexes) == 1


@pytest.fixture
def weighings(monkeypatch):
    """How often an index or the vectors of a scope were weighed."""
    asked = Counter()
    for kind in (ScopeIndex, ScopeVectors):
        weigh = kind.size.fget

        def size(self, weigh=weigh, name=kind.__name__):
            asked[name] += 1
            return weigh(self)

        monkeypatch.setattr(kind, "size", property(size))
    return asked


async def test_a_search_costs_no_more_however_many_scopes_were_searched(pair, weighings):
    here, _ = pair
    scopes = [Scope("acme", f"user {number}", "app") for number in range(120)]
    generation = (await here.add_generation("hash", 2, None)).number
    near = [np.asarray([1, 0], np.float32)]
    costs = []
    for scope in scopes:
        await add(here, memory("tea"), scope=scope)
        weighings.clear()
        assert len(await found(here, "tea", scope=scope)) == 1
        await here.search_vector(scope, generation, near, limit=3, now=NOW)
        costs.append(weighings.total())
    assert len(here._indexes) == len(scopes)
    assert max(costs) == costs[0] <= 6


async def test_what_all_indexes_hold_is_known_whatever_comes_and_goes(pair):
    here, _ = pair
    here._indexes = Indexes(max_bytes=6000)
    dice, scopes = random.Random(7), [Scope("acme", f"user {number}", "app") for number in range(5)]
    for turn in range(150):
        scope = dice.choice(scopes)
        if dice.random() < 0.5:
            await add(here, memory(f"tea number {turn} {'and more ' * dice.randrange(20)}"), scope=scope)
        await found(here, "tea", scope=scope)
        if dice.random() < 0.1:
            here._indexes.drop(dice.choice([None, *scopes]))
        kept = [one.index.size for one in map(here._indexes._kept.get, here._indexes._kept)]
        assert here._indexes.size == sum(kept)
        assert here._indexes.size <= 6000 or len(kept) == 1
    here._indexes.drop()
    assert (here._indexes.size, len(here._indexes)) == (0, 0)


def entry(id: str, *terms: str, active: bool = True) -> Entry:
    place = RankFeatures(id, None, None, None, "semantic", "user", 0.5, NOW, None)
    return Entry(place, active, None, packed(dict.fromkeys(terms, 1)))


@given(st.lists(st.tuples(st.integers(0, 5), st.sets(st.sampled_from("abcd"))), max_size=40), st.integers(1, 9))
def test_an_index_holds_what_each_memory_said_last(writes, step):
    ids = [new_id() for _ in range(6)]
    index, last = ScopeIndex(), {}
    for start in range(0, len(writes), step):
        index.load([entry(ids[number], *terms) for number, terms in writes[start : start + step]])
        last |= {ids[number]: terms for number, terms in writes[start : start + step]}
    visible = index.visible(NOW)
    assert set(index.ids(visible)) == set(last)
    for term in "abcd":
        assert set(index.search([term], visible, 99).matches) == {id for id, terms in last.items() if term in terms}


def test_terms_are_found_in_the_sorted_part_and_in_the_tail():
    index = ScopeIndex()
    index.load([entry(new_id(), *(f"w{number}" for number in range(TAIL + 1)))])
    late = new_id()
    index.load([entry(late, "w7", "fresh")])
    visible = index.visible(NOW)
    assert index.search(["w7"], visible, 9).frequencies == {"w7": 2}
    assert list(index.search(["fresh"], visible, 9).matches) == [late]


def test_an_index_that_is_mostly_dead_says_so():
    index, id = ScopeIndex(), new_id()
    for _ in range(502):
        assert not index.worn
        index.load([entry(id, "a")])
    assert index.worn
