"""Contract of `list` and `get`: order, stable pages, visibility and filters."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import pytest

from ..errors import InvalidInput
from ..records import EVERYTHING, Filter, Memory, new_id
from ..stores.decisions import is_visible, matches_filter
from ..stores.values import Order
from .contract_round_trip import same_json
from .contract_search import assert_found
from .fixtures import (
    BEYOND_INT32,
    DAY,
    NOW,
    SECOND,
    ContractPart,
    ScopedStore,
    a_memory,
    adding,
    changing,
    vector,
)

ORDERS: tuple[Order, ...] = get_args(Order)


async def a_shelf(home: ScopedStore) -> list[Memory]:
    """Store twelve memories, three for each time."""
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
    """Return the ids in the order that the docstring of `list` defines."""
    rising = sorted((memory.created_at, memory.id) for memory in memories)
    return [id for _, id in (rising if order == "oldest" else reversed(rising))]


async def pages(
    home: ScopedStore, limit: int, cursor: str | None = None, **query: Any
) -> list[list[str]]:
    """Return the ids of all pages from the cursor to the end."""
    listed: list[list[str]] = []
    while len(listed) < 50:
        page = await home.store.memories.list(
            home.scope, limit=limit, cursor=cursor, now=home.now, **query
        )
        listed.append([memory.id for memory in page.memories])
        if (cursor := page.cursor) is None:
            return listed
    raise AssertionError("The pages have no end.")


class PagingContract(ContractPart):
    """A list returns every visible row once and in order, whatever changes meanwhile."""

    async def test_pages_hold_every_memory_once_and_in_order(self, home: ScopedStore) -> None:
        """Pages return every memory once and in order, for every order, page size and filter; a
        limit of 0 gives an empty page.
        """
        shelf = await a_shelf(home)
        for filter, memories in ((EVERYTHING, shelf), (Filter(tags=("x",)), shelf[1::2])):
            for order, size in product(ORDERS, (1, 4, 5, 12, 13, BEYOND_INT32)):
                listed = await pages(home, size, order=order, filter=filter)
                assert [id for page in listed for id in page] == in_order(memories, order)
                assert all(len(page) == min(size, len(memories)) for page in listed[:-1])
        assert await home.listed(limit=0) == ()

    @pytest.mark.parametrize("order", ORDERS)
    async def test_pages_stay_right_while_rows_come_and_go(
        self, home: ScopedStore, order: Order
    ) -> None:
        """Later pages skip memories forgotten meanwhile, the row of the cursor included, and repeat
        none.
        """
        expected = in_order(await a_shelf(home), order)
        first = await home.store.memories.list(home.scope, order=order, limit=4, now=NOW)
        assert [memory.id for memory in first.memories] == expected[:4]
        hidden = {expected[1], expected[3], expected[5]}
        await home.forget(*sorted(hidden))
        newer = [a_memory(f"new {n}", created_at=NOW + n * SECOND) for n in range(6)]
        await home.add(*newer)
        rest = [id for page in await pages(home, 3, first.cursor, order=order) for id in page]
        assert [id for id in rest if id in expected] == [
            id for id in expected[4:] if id not in hidden
        ]
        assert rest == in_order([await home.get(id) for id in rest], order)
        assert len(rest) == len(set(rest))

    async def test_a_foreign_cursor_is_invalid_input(self, home: ScopedStore) -> None:
        """A cursor of another order or an invented one raises InvalidInput."""
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
        """Expired, superseded, quarantined and short-term memories are invisible to every read;
        pinned ones never expire.
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
        last, end, listed = (
            home.at(NOW + DAY - SECOND),
            home.at(NOW + DAY),
            {ids["kept"], ids["pinned"]},
        )

        assert await last.visible(*ids.values()) == listed | {ids["expired"]}
        assert await end.visible(*ids.values()) == listed
        assert {*await end.unembedded(space)} == listed | {ids["short_term"]}
        assert await end.visible(*ids.values(), superseded=True) >= listed | {ids["superseded"]}
        await home.embed(space, rows)
        for filter, expected in ((EVERYTHING, listed), (Filter(tags=("x",)), {ids["pinned"]})):
            matches = await end.text("zebra", filter=filter)
            assert (matches.documents, set(matches.matches)) == (len(expected), expected)
            assert {id for id, _ in await end.nearest(space, 1, 0, filter=filter)} == expected
            assert {memory.id for memory in await end.listed(filter=filter)} == expected
        assert set(await end.features(*ids.values(), reach=9)) == listed
        stats = await end.stats()
        assert (stats.visible, stats.pinned, stats.expired) == (2, 1, 1)
        await end.change(await end.get(ids["pinned"]), "pin", pinned=False)
        assert await end.contents() == ["zebra kept"]

    async def test_get_gives_the_known_ones_among_any_ids(self, home: ScopedStore) -> None:
        """`get` skips unknown ids, thousands of them, and texts that are no id."""
        _, memory = await home.write("one", "two")
        questions = [
            new_id(),
            "not a uuid",
            "",
            memory.id,
            memory.id,
            *(new_id() for _ in range(3_000)),
        ]
        assert await home.visible(*questions) == {memory.id}
        assert await home.visible() == set()


METADATA_VALUES: tuple[Any, ...] = (
    True, False, 1, 0, 1.5, -1, 2**53, 2**53 + 1, 1e300, "1", "true", "", "null", "A", "a", "é",
    "e\u0301", None,
)  # fmt: skip
FILTERS = (
    Filter(),
    Filter(types=("episodic",)),
    Filter(types=("episodic", "reflective")),
    *(Filter(topics=topics) for topics in (("ann", "unknown"), ("%",))),
    *(Filter(tags=tags) for tags in (("x",), ("y", "x"), ("it's",), ("x", "unknown"))),
    Filter(origins=("tool",)),
    Filter(origins=("tool", "user")),
    *(Filter(session_id=session) for session in ("s", "")),
    *(Filter(author=author) for author in ("ann", "%", "", "nobody")),
    *(Filter(category=category) for category in ("billing", "%", "it's", "", "nothing")),
    *(Filter(min_importance=least) for least in (0.25, 0.0)),
    *(Filter(created_after=NOW + DAY, created_before=end) for end in (None, NOW + 2 * DAY)),
    Filter(created_before=NOW + DAY),
    Filter(happened_after=NOW - DAY),
    Filter(happened_before=NOW - DAY),
    Filter(happened_after=NOW.replace(year=476), happened_before=NOW.replace(year=1453)),
    Filter(metadata={"k": 1.0, "z": "a"}),
    Filter(superseded=True, tags=("x",)),
    Filter(
        types=("episodic", "procedural"),
        topics=("tea",),
        tags=("x",),
        origins=("user", "agent"),
        metadata={"k": 1},
        session_id="s",
        min_importance=0.1,
        created_after=NOW,
        created_before=NOW + 9 * DAY,
        happened_after=NOW - 9 * DAY,
        happened_before=NOW,
    ),
)


def passes(memory: Memory, filter: Filter) -> bool:
    """Return True if a list with this filter returns the memory."""
    return is_visible(memory, NOW, filter.superseded) and matches_filter(filter, memory)


def a_crowd() -> list[Memory]:
    """Return memories that differ in every field of a filter."""
    return [
        a_memory(
            f"zebra {number}",
            type=("semantic", "episodic", "procedural", "reflective")[number % 4],
            topics=((), ("tea",), ("tea", "ann"), ("ann", "%"))[number % 4],
            tags=((), ("x",), ("x", "y"), ("y", "X", "it's"))[number // 4 % 4],
            origin=("user", "agent", "tool", "import")[number // 2 % 4],
            metadata=({}, {"k": 1, "z": "a"}, {"k": True}, {"k": None}, {"j": 1})[number % 5],
            session_id=(None, "s", "S", "t")[number // 3 % 4],
            author=(None, "ann", "Ann", "an", "%")[number % 5],
            category=(None, "billing", "Billing", "%", "it's")[number // 3 % 5],
            importance=(0.0, 0.25, 0.5, 1.0)[number % 4],
            created_at=NOW + (number % 3) * DAY,
            happened_at=(None, NOW - 2 * DAY, NOW - DAY, NOW)[number % 4],
            state="superseded" if number > 40 else "active",
        )
        for number in range(45)
    ]


class FilterContract(ContractPart):
    """All fields of a filter must match, for every kind of read."""

    async def test_a_filter_holds_on_every_way_to_a_memory(self, home: ScopedStore) -> None:
        """`list` and both searches of a view return, and count, exactly the memories that match."""
        crowd, space = a_crowd(), await home.space()
        rows = {memory.id: vector(1, number) for number, memory in enumerate(crowd)}
        await home.apply(*adding(*crowd), vectors=rows, space_number=space)
        for filter in FILTERS:
            expected = [memory for memory in crowd if passes(memory, filter)]
            ids = {memory.id for memory in expected}
            assert {memory.id for memory in await home.listed(filter=filter, limit=99)} == ids, (
                filter
            )
            view = await home.view(filter)
            assert_found(view, expected, ["zebra", "7"], 99)
            [nearest] = await view.nearest(space, [vector(1, 1)], limit=99)
            assert {id for id, _ in nearest} == ids, filter
            for limit in (1, 3):
                assert (
                    await home.nearest(space, 1, 1, limit=limit, filter=filter) == nearest[:limit]
                ), filter

    async def test_metadata_is_compared_as_json(self, home: ScopedStore) -> None:
        """Metadata is compared as JSON: true is not 1, null is not absent, and a list or object
        equals no plain value.
        """
        values = [*METADATA_VALUES, [1], {"k": 1}, {}, [None]]
        await home.add(
            *(a_memory(f"value {n}", metadata={"k": value}) for n, value in enumerate(values))
        )
        await home.write("absent", metadata={"other": {"k": 1}})
        for value in (*METADATA_VALUES, 1.0, 2, "unknown"):
            expected = {f"value {n}" for n, other in enumerate(values) if same_json(other, value)}
            assert set(await home.contents(filter=Filter(metadata={"k": value}))) == expected, value
