"""`list` and `get`: orders, ties, pages that stay right while rows come and go, and what is
visible.
"""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import pytest

from ..errors import InvalidInput
from ..records import EVERYTHING, Filter, Memory, new_id
from ..stores.values import Order
from .fixtures import BEYOND_INT32, DAY, NOW, SECOND, ContractPart, ScopedStore, a_memory, changing

ORDERS: tuple[Order, ...] = get_args(Order)


async def a_shelf(home: ScopedStore) -> list[Memory]:
    """Store twelve memories, three of each time."""
    memories = [
        a_memory(
            f"memory {number}",
            created_at=NOW + (number % 4) * SECOND,
            tags=("x",) * (number % 2),
        )
        for number in range(12)
    ]
    await home.add(*memories)
    return [await home.get(memory.id) for memory in memories]


def in_order(memories: list[Memory], order: Order) -> list[str]:
    """Return the ids as the docstring of `list` orders them."""
    rising = sorted((memory.created_at, memory.id) for memory in memories)
    return [id for _, id in (rising if order == "oldest" else reversed(rising))]


async def pages(
    home: ScopedStore, limit: int, cursor: str | None = None, **query: Any
) -> list[list[str]]:
    """Return the ids of every page from the cursor to the end."""
    found: list[list[str]] = []
    while len(found) < 50:
        page = await home.store.memories.list(
            home.scope, limit=limit, cursor=cursor, now=home.now, **query
        )
        found.append([memory.id for memory in page.memories])
        if (cursor := page.cursor) is None:
            return found
    raise AssertionError("The pages have no end.")


class PagingContract(ContractPart):
    """Every visible row once, in order, whatever happens in between."""

    async def test_pages_hold_every_memory_once_and_in_order(self, home: ScopedStore) -> None:
        """In every order, with every size of page, under a filter too; a limit of 0 is an empty
        page.
        """
        shelf = await a_shelf(home)
        for filter, memories in ((EVERYTHING, shelf), (Filter(tags=("x",)), shelf[1::2])):
            for order, size in product(ORDERS, (1, 4, 5, 12, 13, BEYOND_INT32)):
                found = await pages(home, size, order=order, filter=filter)
                assert [id for page in found for id in page] == in_order(memories, order)
                assert all(len(page) == min(size, len(memories)) for page in found[:-1])
        assert await home.listed(limit=0) == ()

    @pytest.mark.parametrize("order", ORDERS)
    async def test_pages_stay_right_while_rows_come_and_go(
        self, home: ScopedStore, order: Order
    ) -> None:
        """Remaining memories come once; forgotten ones, the row of the cursor too, do not."""
        expected = in_order(await a_shelf(home), order)
        first = await home.store.memories.list(home.scope, order=order, limit=4, now=NOW)
        assert [memory.id for memory in first.memories] == expected[:4]
        gone = {expected[1], expected[3], expected[5]}
        await home.forget(*sorted(gone))
        newer = [a_memory(f"new {n}", created_at=NOW + n * SECOND) for n in range(6)]
        await home.add(*newer)
        rest = [id for page in await pages(home, 3, first.cursor, order=order) for id in page]
        assert [id for id in rest if id in expected] == [
            id for id in expected[4:] if id not in gone
        ]
        assert rest == in_order([await home.get(id) for id in rest], order)
        assert len(rest) == len(set(rest))

    async def test_a_foreign_cursor_is_invalid_input(self, home: ScopedStore) -> None:
        """Those of another order, and those of nobody."""
        await a_shelf(home)
        other = (await home.store.memories.list(home.scope, limit=2, now=NOW)).cursor
        for cursor in (
            other,
            "",
            "nonsense",
            "'; --",
            "WzFd",
            "e30=",
            "bnVsbA==",
            "é",
            "WyJuZXdlc3QiXQ==",
        ):
            with pytest.raises(InvalidInput):
                await home.listed(order="oldest", cursor=cursor)

    async def test_only_active_memories_are_visible_till_they_expire(
        self, home: ScopedStore
    ) -> None:
        """Expired, superseded, quarantined and short-term ones are invisible to every read; pinned
        never expire.
        """
        space = await home.space()
        described: tuple[tuple[str, int, dict[str, Any]], ...] = (
            ("kept", 9, {}),
            ("pinned", 1, {"pinned": True, "tags": ("x",)}),
            ("expired", 1, {}),
            ("superseded", 9, {}),
            ("quarantined", 9, {}),
            ("short_term", 9, {"state": "short_term"}),
        )
        memories = {
            name: a_memory(f"zebra {name}", session_id="s", ttl_days=days, **values)
            for name, days, values in described
        }
        await home.add(*memories.values())
        await home.apply(
            *(changing(memories[state], state=state) for state in ("superseded", "quarantined"))
        )
        ids = {name: memory.id for name, memory in memories.items()}
        rows = {ids[name]: (1.0, float(place)) for place, name in enumerate(ids)}
        last, end, seen = (
            home.at(NOW + DAY - SECOND),
            home.at(NOW + DAY),
            {ids["kept"], ids["pinned"]},
        )

        assert await last.visible(*ids.values()) == seen | {ids["expired"]}
        assert await end.visible(*ids.values()) == seen
        assert {*await end.unembedded(space)} - {ids["short_term"]} == seen
        assert await end.visible(*ids.values(), superseded=True) >= seen | {ids["superseded"]}
        await home.embed(space, rows)
        for filter, expected in ((EVERYTHING, seen), (Filter(tags=("x",)), {ids["pinned"]})):
            found = await end.text("zebra", filter=filter)
            assert (found.documents, set(found.matches)) == (len(expected), expected)
            assert {id for id, _ in await end.nearest(space, 1, 0, filter=filter)} == expected
            assert {memory.id for memory in await end.listed(filter=filter)} == expected
        assert {place.id for place in await end.features(*ids.values(), reach=9)} == seen
        stats = await end.stats()
        assert (stats.visible, stats.pinned, stats.expired) == (2, 1, 1)
        await end.change(await end.get(ids["pinned"]), "pin", pinned=False)
        assert await end.contents() == ["zebra kept"]

    async def test_get_gives_the_known_ones_among_any_ids(self, home: ScopedStore) -> None:
        """Thousands of unknown ids, and what is no id at all, are skipped."""
        _, memory = await home.write("one", "two")
        asked = [
            new_id(),
            "not a uuid",
            "",
            memory.id,
            memory.id,
            *(new_id() for _ in range(3_000)),
        ]
        assert await home.visible(*asked) == {memory.id}
        assert await home.visible() == set()
