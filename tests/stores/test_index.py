"""The index of a scope always answers like one rebuilt from the database's current state."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memories.opening import ADA

from kagent_memory import StoreError
from kagent_memory.language.preferences import PREFERENCE_TERM
from kagent_memory.records import Filter, Memory, Scope
from kagent_memory.stores import Store, open_store
from kagent_memory.stores.index import Entry, ScopeIndex
from kagent_memory.stores.postings import packed
from kagent_memory.stores.sql import index_cache
from kagent_memory.stores.sql.index_reads import UNSEEN, SqlIndexReads, Stamp
from kagent_memory.stores.values import Batch, Erasure
from kagent_memory.testing.fixtures import (
    NOW,
    ScopedStore,
    a_memory,
    adding,
    changing,
    delivery,
    features_of,
    found_by,
    vector,
)

SLOW = Filter(types=("semantic",))


@pytest.fixture
async def pair(store_uri):
    """Two stores on one database, like two processes."""
    async with await open_store(store_uri) as first, await open_store(store_uri) as second:
        yield first, second


async def add(store: Store, *memories: Memory) -> None:
    await store.apply(ADA, Batch(changes=adding(*memories, explicit=True)), now=NOW)


async def search(store: Store, *terms: str, now: datetime = NOW) -> set[str]:
    return set(found_by(await store.memories.view(ADA, now=now), terms, 99).matches)


async def test_a_prune_of_another_process_is_seen_at_once(pair):
    """A prune by another process takes effect at once, both deletions and extensions."""
    reader, writer = pair
    soon = NOW + timedelta(days=1)
    popular, unpopular = (a_memory(text, ttl_days=1) for text in ("kept tea", "gone tea"))
    await add(writer, popular, unpopular)
    await writer.memories.count([delivery(ADA, popular.id, now=NOW)])
    assert await search(reader, "tea", now=soon) == set()
    await writer.memories.prune(now=soon, popular_after=1)
    assert await search(reader, "tea", now=soon) == {popular.id}


async def test_a_cancelled_load_leaves_no_vector_of_older_words(tmp_path, monkeypatch):
    """A vector loaded by a cancelled search is not used after its memory was reworded."""
    pending = list[Any]()

    async def cancelled(_, work, *arguments):
        if work.__name__ != "put":
            return work(*arguments)
        pending.append(partial(work, *arguments))
        raise asyncio.CancelledError

    async with await open_store(f"libsql:///{tmp_path}/memory.db") as store:
        home = ScopedStore(store, ADA)
        space, [row] = await home.space(), await home.write("tea")
        await home.embed(space, {row.id: (1, 0)})
        with monkeypatch.context() as patched:
            patched.setattr(index_cache, "run_in_thread", cancelled)
            with pytest.raises(asyncio.CancelledError):
                await home.nearest(space, 1, 0)
        vectors = {row.id: vector(0, 1)}
        change = changing(row, "update", content="coffee")
        await home.apply(change, vectors=vectors, space_number=space)
        await home.view()
        pending.pop()()
        assert await home.nearest(space, 1, 0) == [(row.id, 0.0)]


@pytest.mark.parametrize("step", ["changes", "passing"])
async def test_a_slow_search_of_a_scope_holds_up_no_other(pair, monkeypatch, step):
    """A slow database search of a scope does not block other searches of it."""
    store, _ = pair
    await add(store, a_memory("green tea"))
    await search(store, "tea")
    begun, answer, read = asyncio.Event(), asyncio.Event(), getattr(SqlIndexReads, step)

    async def slow(self, *arguments, **options):
        if not begun.is_set():
            begun.set()
            await answer.wait()
        return await read(self, *arguments, **options)

    monkeypatch.setattr(SqlIndexReads, step, slow)
    task = asyncio.create_task(store.memories.view(ADA, filter=SLOW, now=NOW))
    await begun.wait()
    await add(store, a_memory("black tea"))
    async with asyncio.timeout(5):
        assert len(await search(store, "tea")) == 2
    answer.set()
    assert (await task).text(["tea"], limit=9).matches.rows.size


async def test_the_cache_is_bounded_by_one_setting(monkeypatch):
    """`cache_mb` limits the cached indexes of recently searched scopes, and their vectors
    separately.
    """
    monkeypatch.setattr("kagent_memory.stores.index.SCOPE_BYTES", 2**20)
    async with await open_store("libsql:///:memory:", cache_mb=2) as store:
        for number in range(5):
            scope, changes = Scope("t", f"user {number}", "a"), adding(a_memory("green tea"))
            await store.apply(scope, Batch(changes=changes), now=NOW)
            await store.memories.view(scope, now=NOW)
        memories: Any = store.memories
        assert len(memories.indexes.cached) == 3


# -- what is kept of it in the database


@pytest.fixture
def loaded(monkeypatch):
    """Count the memories that indexes load one by one; every index is packed at once."""
    monkeypatch.setattr(index_cache, "MIN_PACKED", 1)
    monkeypatch.setattr(index_cache, "PACKED_SHARE", 10**9)
    taken, updated = Counter(), ScopeIndex.updated

    def counted(self, entries, erased=()):
        taken["memories"] += len(entries)
        return updated(self, entries, erased)

    monkeypatch.setattr(ScopeIndex, "updated", counted)
    return taken


async def stored(store) -> None:
    """Wait until the indexes being packed are stored."""
    while store.memories.indexes.packing:
        await asyncio.wait(store.memories.indexes.packing)


async def searched_anew(store, *terms: str, now: datetime = NOW) -> tuple[Any, ...]:
    """Return the results of a new process; its packed indexes are stored before it returns."""
    store.memories.indexes.drop()
    view = await store.memories.view(ADA, now=now)
    matches = found_by(view, terms, 9)
    await stored(store)
    return (
        dict(matches.matches),
        list(matches.matches),
        matches.documents,
        matches.average_length,
        matches.frequencies,
        features_of(view, list(matches.matches), 2),
    )


async def test_a_new_process_reads_the_packed_index_and_what_is_new(pair, loaded):
    """A process new to a scope loads the packed index, and only later memories one by one."""
    reader, writer = pair
    await add(
        writer,
        *(
            a_memory(f"tea number {number}", session_id="s", position=number)
            for number in range(60)
        ),
    )
    before = await searched_anew(writer, "tea", "7")
    loaded.clear()
    assert await searched_anew(reader, "tea", "7") == before
    assert loaded["memories"] == 0
    late = a_memory("tea number 7 again", session_id="s")
    await add(writer, late)
    assert late.id in (await searched_anew(reader, "tea", "7"))[0]
    assert loaded["memories"] == 1


def packed_index(store) -> tuple[Stamp, bytes]:
    cached = store.memories.indexes.cached.get(ADA.id)
    return cached.stamp, cached.index.packed()


async def kept_index(store) -> bytes:
    return (await store.memories.index_reads.changes(ADA, UNSEEN)).packed


@pytest.mark.parametrize("way", ["forget", "evict", "prune", "tenant"])
async def test_no_packed_index_outlives_what_is_erased(pair, loaded, way):
    """Erasing deletes the packed index, and one packed before the erasure is not stored."""
    reader, writer = pair
    soon = NOW + timedelta(days=1)
    quokka = a_memory("Quokka tea", author="Quokka", ttl_days=1)
    await add(writer, quokka, a_memory("black tea"))
    await searched_anew(writer, "tea")
    assert "Quokka" in ScopeIndex.unpacked(await kept_index(reader)).authors
    await search(reader, "tea")
    stamp, on_its_way = packed_index(reader)  # another process that packs what it read before
    match way:
        case "forget":
            await writer.forget(ADA, Erasure(ids=[quokka.id], now=NOW))
        case "evict":
            await writer.memories.evict(ADA, [quokka.id], keep=1, now=NOW)
        case "prune":
            await writer.memories.prune(now=soon, popular_after=1)
        case _:
            await writer.forget_tenant(ADA.tenant, limit=100, now=NOW)
            await add(writer, a_memory("green tea"))
    assert not await kept_index(reader)
    await reader.memories.keep_index(ADA, stamp._replace(version=10**6), on_its_way)
    assert not await kept_index(reader)
    for anew in (False, True):  # from what it has in memory, and as a process does that has nothing
        if anew:
            reader.memories.indexes.drop()
        [id] = await search(reader, "tea")
        assert id != quokka.id
        await stored(reader)
        index = ScopeIndex.unpacked(await kept_index(reader))
        assert (index.ids, index.authors) == ([id], [None])


async def test_closing_packs_what_is_new(tmp_path, loaded, monkeypatch):
    """Closing a store packs the indexes with enough unpacked memories."""
    monkeypatch.setattr(index_cache, "MIN_PACKED", 5)
    monkeypatch.setattr(index_cache, "PACKED_SHARE", 1)
    uri = f"libsql:///{tmp_path}/memory.db"
    async with await open_store(uri) as store:
        await add(store, *(a_memory(f"tea number {number}") for number in range(20)))
        await search(store, "tea")
        await stored(store)
        before = await kept_index(store)
        await add(store, *(a_memory(f"mocha number {number}") for number in range(9)))
        await search(store, "mocha")
        assert await kept_index(store) == before
    async with await open_store(uri) as store:
        loaded.clear()
        assert len(await search(store, "mocha")) == 9
        assert loaded["memories"] == 0


async def test_the_newest_packed_index_stays(pair, loaded):
    """An older packed index never replaces a newer one."""
    reader, writer = pair
    await add(writer, a_memory("green tea"))
    await search(reader, "tea")
    old = packed_index(reader)
    await add(writer, a_memory("black tea"))
    await searched_anew(writer, "tea")
    newest = await kept_index(reader)
    await reader.memories.keep_index(ADA, *old)
    assert await kept_index(reader) == newest


@pytest.mark.parametrize("failure", ["refused by the database", "too large"])
async def test_an_index_that_is_not_packed_stops_no_search(
    pair, loaded, monkeypatch, caplog, failure
):
    """A search answers even if its index is refused or too large to store, and the next packed
    index is complete.
    """

    def refuses(*_):
        raise StoreError("memory unavailable: read only")

    reader, writer = pair
    some = [a_memory(f"tea number {number}") for number in range(12)]
    with monkeypatch.context() as patch:
        if failure == "too large":
            patch.setattr(index_cache, "MAX_PACKED_BYTES", 0)
        else:
            patch.setattr("kagent_memory.stores.sql.row_codec.RowCodec.sealed_index", refuses)
        await add(reader, *some)
        assert len((await searched_anew(reader, "tea"))[0]) == 9
    assert ("read only" in caplog.text) == (failure != "too large")
    await add(reader, a_memory("late"))
    await search(reader, "late")
    await stored(reader)
    loaded.clear()
    assert len((await searched_anew(writer, "tea"))[0]) == 9
    assert loaded["memories"] == 0


@pytest.mark.parametrize(
    ("name", "other"), [("FORMAT", b"kagent_memory index 0\n"), ("zlib.crc32", lambda _: 0)]
)
async def test_an_index_of_another_format_is_packed_anew(pair, loaded, monkeypatch, name, other):
    """A packed index of another format or with a wrong checksum is replaced, not read."""
    reader, writer = pair
    await add(reader, *(a_memory(f"tea number {number}") for number in range(9)))
    before = await searched_anew(reader, "tea")
    monkeypatch.setattr(f"kagent_memory.stores.index.{name}", other)
    loaded.clear()
    assert await searched_anew(writer, "tea") == before
    assert loaded["memories"] == 9
    loaded.clear()
    assert await searched_anew(reader, "tea") == before
    assert loaded["memories"] == 0


def placed(id: str, *terms: str, number: int = 0) -> Entry:
    """Return an entry that differs from others in all indexed values."""
    return Entry(
        id=id,
        session_id=[None, "s", "t", "ö 🎉"][number % 4],
        position=None if number % 5 == 0 else number % 7,
        author=[None, "Ada", "April"][number % 3],
        created_at=NOW + timedelta(microseconds=number),
        happened_at=None if number % 3 else datetime(1931, 5, 6, 7, 8, 9, 10, UTC),
        chars=number * 1000,
        asks=number % 2 == 0,
        expires_at=None if number % 4 else NOW + timedelta(hours=number),
        active=number % 6 != 5,
        turn=number % 6 == 4,
        postings=packed(dict.fromkeys(terms, 1 + number * 100)),
    )


def answers_of(index: ScopeIndex, ids: list[str]) -> list[Any]:
    """Return all answers of an index."""
    answers: list[Any] = [index.ids]
    for now in (NOW, NOW + timedelta(hours=5)):
        for superseded in (False, True):
            visible = index.visible(now, superseded=superseded)
            answers += [visible_ids(index, now, superseded=superseded)]
            answers += [visible_ids(index, now, superseded=superseded, among=ids)]
            for terms in ("a", "b", "cd", "abcd", "z"):
                matches = index.text(terms, 3, visible)
                answers += [index.ids_of(matches.matches.rows), matches.matches.counts.tolist()]
                answers += [matches.matches.lengths.tolist(), matches.matches.terms]
                answers += [matches.documents, matches.average_length, matches.frequencies]
        visible = index.visible(now)
        answers += [index.ids_of(index.newest(limit, visible, None, NOW)) for limit in (1, 9)]
        view: Any = SimpleNamespace(index=index, current=visible)
        for id in ids:
            answers += [features_of(view, [id], reach) for reach in (0, 1, 3)]
    return answers


def is_alive(entry: Entry, now: datetime) -> bool:
    return entry.active and (entry.expires_at is None or entry.expires_at > now)


def visible_ids(index: ScopeIndex, now: datetime = NOW, **options: Any) -> list[str]:
    return index.ids_of(index.visible(now, **options))


WRITES = st.lists(
    st.tuples(
        st.integers(0, 15),
        st.sets(st.sampled_from([*"abcd", PREFERENCE_TERM])),
        st.integers(0, 30),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(WRITES, st.sets(st.integers(0, 15), max_size=2)), max_size=8))
def test_an_index_answers_as_one_made_anew(rounds):
    """After any writes and erasures, packed or not, an index equals one of the latest memories."""
    # some begin or end with zeros
    ids = [str(uuid.UUID(int=number << 120 | number)) for number in range(16)]
    index, latest = ScopeIndex(), dict[str, Entry]()
    for writes, erased in rounds:
        entries = [placed(ids[one], *terms, number=number) for one, terms, number in writes]
        forgotten = {ids[row] for row in erased}
        index = index.updated(entries).updated((), forgotten)
        latest |= {entry.id: entry for entry in entries}
        latest = {id: one for id, one in latest.items() if id not in forgotten}
        anew = ScopeIndex().updated([*latest.values()])
        assert answers_of(index, ids) == answers_of(anew, ids)
        again = ScopeIndex.unpacked(index.packed())
        assert answers_of(again, ids) == answers_of(anew, ids)
        if len(rounds) % 2:
            index = again
        for now in (NOW, NOW + timedelta(hours=5)):
            assert visible_ids(index, now) == sorted(
                id for id in latest if is_alive(latest[id], now)
            )
    alive = visible_ids(index, superseded=True)
    for term in "abcd":
        holding = {id for id in alive if packed({term: 1})[:8] in latest[id].postings}
        matches = index.text(term, 99, index.visible(NOW, superseded=True))
        assert {*index.ids_of(matches.matches.rows)} == holding
