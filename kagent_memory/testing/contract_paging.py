"""`list`: the orders, their ties, and pages that stay right while rows come and go."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import pytest

from ..errors import InvalidInput
from ..records import Memory, Scope, new_id
from ..stores.base import Batch, Order, Store
from .fixtures import BEYOND_INT32, DAY, NOW, SECOND, ContractPart, a_memory, a_scope, add, changing, the

ORDERS: tuple[Order, ...] = get_args(Order)


async def a_shelf(store: Store, scope: Scope) -> list[Memory]:
    """Twelve stored memories with many ties in everything they can be ordered by."""
    memories = [
        a_memory(
            f"memory {number}",
            created_at=NOW + (number % 4) * SECOND,
            importance=(number % 3) / 2,
            ttl_days=(None, 5, 9)[number % 3],
        )
        for number in range(12)
    ]
    await add(store, scope, *memories)
    for number, memory in enumerate(memories):
        for _ in range(number % 3):
            await store.deliver(scope, retrieved=[], delivered=[memory.id], now=NOW)
    return [await the(store, scope, memory.id) for memory in memories]


def in_order(memories: list[Memory], order: Order) -> list[str]:
    """The ids as the docstring of `Store.list` orders them."""

    def key(memory: Memory) -> tuple[Any, str]:
        first: dict[Order, Any] = {
            "newest": memory.created_at,
            "oldest": memory.created_at,
            "delivered": memory.usage.delivered,
            "importance": memory.importance,
            "expires": memory.expires_at or NOW + 10_000 * DAY,
        }
        return first[order], memory.id

    return [memory.id for memory in sorted(memories, key=key, reverse=order not in ("oldest", "expires"))]


async def pages(store: Store, scope: Scope, order: Order, size: int) -> list[list[str]]:
    """The ids of every page to the end."""
    found: list[list[str]] = []
    cursor = None
    while len(found) < 50:
        page = await store.list(scope, order=order, limit=size, cursor=cursor, now=NOW)
        found.append([memory.id for memory in page.memories])
        if (cursor := page.cursor) is None:
            return found
    raise AssertionError("The pages have no end.")


class PagingContract(ContractPart):
    """Every row once, in order, whatever happens in between."""

    async def test_the_pages_hold_every_memory_once_and_in_order(self, store: Store) -> None:
        scope = a_scope()
        shelf = await a_shelf(store, scope)
        for order, size in product(ORDERS, (1, 4, 5, 12, 13, BEYOND_INT32)):
            expected = in_order(shelf, order)
            found = await pages(store, scope, order, size)
            assert [id for page in found for id in page] == expected
            assert all(len(page) == min(size, 12) for page in found[:-1])

    @pytest.mark.parametrize("order", ORDERS)
    async def test_pages_stay_right_while_rows_come_and_go(self, store: Store, order: Order) -> None:
        scope = a_scope()
        expected = in_order(await a_shelf(store, scope), order)
        first = await store.list(scope, order=order, limit=4, now=NOW)
        assert [memory.id for memory in first.memories] == expected[:4]
        gone = {expected[1], expected[3], expected[5]}
        await store.forget(scope, ids=sorted(gone), now=NOW)
        newer = [a_memory(f"new {n}", created_at=NOW + n * SECOND, importance=n / 6, ttl_days=n + 1) for n in range(6)]
        await add(store, scope, *newer)

        rest: list[str] = []
        cursor = first.cursor
        while cursor:
            page = await store.list(scope, order=order, limit=3, cursor=cursor, now=NOW)
            rest += [memory.id for memory in page.memories]
            cursor = page.cursor
        assert len(rest) == len(set(rest))
        assert [id for id in rest if id in expected] == [id for id in expected[4:] if id not in gone]
        now_there = [await the(store, scope, id) for id in rest]
        assert rest == in_order(now_there, order)

    async def test_a_page_of_nothing_is_empty(self, store: Store) -> None:
        scope = a_scope()
        assert (await store.list(scope, now=NOW)).memories == ()
        assert (await store.list(scope, now=NOW)).cursor is None
        await add(store, scope, a_memory("one"))
        assert (await store.list(scope, limit=0, now=NOW)).memories == ()
        full = await store.list(scope, limit=1, now=NOW)
        assert len(full.memories) == 1
        assert full.cursor is None or (await store.list(scope, limit=1, cursor=full.cursor, now=NOW)).memories == ()

    async def test_a_cursor_of_another_order_or_of_nobody_is_invalid_input(self, store: Store) -> None:
        scope = a_scope()
        await a_shelf(store, scope)
        other = (await store.list(scope, limit=2, now=NOW)).cursor
        for cursor in (other, "", "nonsense", "'; --", "WzFd", "e30=", "bnVsbA==", "é", "WyJuZXdlc3QiXQ=="):
            with pytest.raises(InvalidInput):
                await store.list(scope, order="importance", cursor=cursor, now=NOW)

    async def test_expired_superseded_and_quarantined_memories_are_invisible_at_once(self, store: Store) -> None:
        scope = a_scope()
        space_number = (await store.add_embedding_space("hash", 2, None)).number
        kept, expired, past, suspect = (a_memory(f"zebra {n}", ttl_days=n + 1, session_id="s") for n in (9, 0, 8, 7))
        await add(store, scope, kept, expired, past, suspect)
        changes = [changing(past, "supersede", state="superseded"), changing(suspect, state="quarantined")]
        await store.apply(scope, Batch(changes=changes), now=NOW)
        ids = [kept.id, expired.id, past.id, suspect.id]
        last_moment, end = NOW + DAY - SECOND, NOW + DAY

        assert set(await store.get(scope, ids, now=last_moment)) == {kept.id, expired.id}
        assert set(await store.get(scope, ids, now=end)) == {kept.id}
        assert set(await store.get(scope, ids, now=end, superseded=True)) >= {kept.id, past.id}
        assert [m.id for m in (await store.list(scope, now=end)).memories] == [kept.id]
        assert [m.id for m in await store.unembedded(scope, space_number, limit=9, now=end)] == [kept.id]
        assert [place.id for place in await store.view(scope, now=end).features(ids, reach=9)] == [kept.id]
        found = await store.view(scope, now=end).text(["zebra"], limit=9)
        assert (found.documents, set(found.matches)) == (1, {kept.id})
        stats = await store.stats(scope, now=end)
        assert (stats.visible, stats.expired) == (1, 1)

    async def test_get_gives_the_known_ones_among_any_ids(self, store: Store) -> None:
        scope = a_scope()
        ids = await add(store, scope, a_memory("one"), a_memory("two"))
        asked = [new_id(), "not a uuid", "", str(ids[1]), str(ids[1]), *(new_id() for _ in range(3_000))]
        assert set(await store.get(scope, asked, now=NOW)) == {ids[1]}
        assert await store.get(scope, [], now=NOW) == {}

    async def test_places_say_how_long_a_memory_is_and_whether_it_asks(self, store: Store) -> None:
        scope = a_scope()
        asked = {"Why? ": True, "なぜ？": True, "لماذا؟\n": True, "No.": False, "Why? Because": False, "🧠": False}
        ids = await add(store, scope, *(a_memory(content) for content in asked))
        places = {
            place.id: (place.chars, place.asks) for place in await store.view(scope, now=NOW).features([*map(str, ids)])
        }
        assert places == {id: (len(content), asks) for id, (content, asks) in zip(ids, asked.items(), strict=True)}

    async def test_places_say_whether_a_memory_names_a_time(self, store: Store) -> None:
        scope = a_scope()
        told = [
            ("We moved in last autumn", "ann", True),
            ("Seit Dienstag ist sie da", "ann", True),
            ("Built in 1987", None, True),
            ("April came along", "ann", True),
            ("April came back", "April", False),
            ("April came back on Friday", "April", True),
            ("She sat in the sun", "may", False),
            ("So it is", None, False),
        ]
        memories = [a_memory(content, author=author) for content, author, _ in told]
        await add(store, scope, *memories)
        places = await store.view(scope, now=NOW).features([memory.id for memory in memories])
        found = {place.id: place.names_a_time for place in places}
        assert [found[memory.id] for memory in memories] == [names for *_, names in told]
        last = await the(store, scope, memories[-1].id)
        reworded = changing(last, content="It is so since Monday")
        await store.apply(scope, Batch(changes=[reworded]), now=NOW)
        assert [place.names_a_time for place in await store.view(scope, now=NOW).features([last.id])] == [True]

    async def test_places_reach_to_the_neighbours_of_a_turn_in_its_session_only(self, store: Store) -> None:
        scope = a_scope()
        turns = [a_memory(f"turn {n}", session_id="s", author="ann", happened_at=NOW) for n in range(6)]
        others = [a_memory(f"other {n}", session_id="t") for n in range(6)]
        alone = a_memory("alone")
        await add(store, scope, *turns, *others, alone)
        near = await store.view(scope, now=NOW).features([turns[2].id, alone.id], reach=2)
        assert {place.id for place in near} == {turn.id for turn in turns[:5]} | {alone.id}
        assert len(near) == 6
        exact = await store.view(scope, now=NOW).features([turns[2].id])
        assert [(p.id, p.session_id, p.position, p.author, p.happened_at) for p in exact] == [
            (turns[2].id, "s", 2, "ann", NOW)
        ]
        place = exact[0]
        assert (place.type, place.origin, place.importance, place.created_at) == ("semantic", "user", 0.5, NOW)
