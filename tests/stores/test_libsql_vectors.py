"""The scan of libSQL vectors is exact, whatever was kept in memory from calls before."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from kagent_memory.stores import vector_index
from kagent_memory.stores.libsql.vector_search import ScopeVectors, VectorCache, search

DIMENSIONS = 16
KEY = (b"scope", 1)


class Table:
    """A vector table in miniature: ids may be set, set anew and removed."""

    def __init__(self):
        self.rows, self.seq, self.loaded, self.counted = {}, 0, 0, 0

    def set(self, memory_id, vector):
        self.seq += 1
        self.rows[memory_id] = (self.seq, np.asarray(vector, np.float16))

    def load(self, after, limit):
        found = sorted((seq, id, vector.tobytes()) for id, (seq, vector) in self.rows.items() if seq > after)[:limit]
        self.loaded += len(found)
        ids, vectors = [id for _, id, _ in found], b"".join(vector for _, _, vector in found)
        return found[-1][0] if found else after, ids, vectors

    def count(self):
        self.counted += 1
        return len(self.rows)

    def nearest(self, query, limit, good):
        exact = np.asarray(query, np.float16).astype(np.float64)
        scored = [
            (round(float(row @ exact / np.linalg.norm(row) / np.linalg.norm(exact)), 6), id)
            for id, (_, half) in self.rows.items()
            for row in [half.astype(np.float64)]
            if id in good
        ]
        return [(id, cosine) for cosine, id in sorted(scored, reverse=True)[:limit]]


@pytest.fixture
def table():
    numbers = np.random.default_rng(7)
    made = Table()
    for number in range(1200):
        made.set(f"m{number:04}", numbers.normal(size=DIMENSIONS))
    for number in range(1200, 1260):  # many at the same place
        made.set(f"m{number:04}", made.rows["m0003"][1])
    return made


def current(cache, table, version):
    return cache.current(KEY, DIMENSIONS, version=version, loader=table.load, count=table.count)


def passing(good):
    return lambda ids: good if ids is None else good & set(ids)


def test_a_second_call_loads_only_what_was_set_since_even_when_the_version_stood_still(table):
    cache = VectorCache(max_bytes=2**26)
    current(cache, table, 1)
    table.loaded = table.counted = 0
    table.set("m0003", -table.rows["m0003"][1])
    table.set("new", np.ones(DIMENSIONS))
    held = current(cache, table, 1)
    assert (table.loaded, table.counted) == (2, 0)
    query = np.ones(DIMENSIONS, np.float32)
    assert search(held, [query], 2000, passing(set(table.rows))) == [table.nearest(query, 2000, set(table.rows))]


def test_what_was_removed_and_perhaps_replaced_by_as_much_is_noticed(table):
    cache = VectorCache(max_bytes=2**26)
    current(cache, table, 1)
    del table.rows["m0007"], table.rows["m1259"]
    table.set("new", np.ones(DIMENSIONS))
    table.set("newer", np.ones(DIMENSIONS))
    assert set(current(cache, table, 2).ids) == set(table.rows)


def test_the_scopes_searched_longest_ago_make_room(table):
    one = ScopeVectors(DIMENSIONS)
    one.load(table.load)
    cache = VectorCache(max_bytes=one.size * 2)
    for number in range(5):
        cache.current((b"%d" % number, 1), DIMENSIONS, version=1, loader=table.load, count=table.count)
    assert (len(cache), cache._held.currsize) == (2, 2 * one.size)
    table.loaded = 0
    cache.current((b"4", 1), DIMENSIONS, version=1, loader=table.load, count=table.count)
    assert table.loaded == 0
    cache.drop()
    assert (len(cache), cache._held.currsize) == (0, 0)


def test_a_scope_that_is_larger_than_all_that_may_be_kept_is_kept_alone(table):
    cache = VectorCache(max_bytes=1)
    for number in range(3):
        cache.current((b"%d" % number, 1), DIMENSIONS, version=1, loader=table.load, count=table.count)
    assert len(cache) == 1
    assert cache.known((b"2", 1)) is not None


def test_threads_share_the_cache(table):
    one = ScopeVectors(DIMENSIONS)
    one.load(table.load)
    cache = VectorCache(max_bytes=one.size * 4)

    def work(seed):
        dice = random.Random(seed)
        for _ in range(2000):
            key = (b"%d" % dice.randrange(9), 1)
            cache.keep(key, one)
            cache.known(key)
            if dice.random() < 0.3:
                cache.drop(key)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert cache._held.currsize == len(cache) * one.size <= 4 * one.size


@pytest.mark.parametrize("order", ["<", ">"])
def test_every_half_that_is_a_number_is_the_same_in_single_precision(order):
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)].reshape(-1, 2).astype(f"{order}f2")
    singles = vector_index.widened(halves, np.empty(halves.shape, np.float32))
    assert singles.tobytes() == halves.astype(np.float32).tobytes()
