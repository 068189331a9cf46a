"""Filters: each alone, all together, and the same in `list` and both legs of the search."""

from __future__ import annotations

from typing import Any

from ..records import Filter, Memory
from ..stores.filter_match import is_visible, matches_filter
from .contract_round_trip import same_json
from .contract_text import assert_found
from .fixtures import DAY, NOW, ContractPart, ScopedStore, a_memory, adding, vector

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
    *(
        Filter(metadata=pairs)
        for pairs in ({"k": 1}, {"k": True}, {"k": None}, {"nowhere": None}, {"k": 1.0, "z": "a"})
    ),
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


def passes(memory: Memory, wanted: Filter) -> bool:
    """Return True if a list with this filter has the memory."""
    return is_visible(memory, NOW, wanted.superseded) and matches_filter(wanted, memory)


def a_crowd() -> list[Memory]:
    """Return memories that differ in everything a filter looks at."""
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
    """Every field that is set must hold, on every way to a memory."""

    async def test_a_filter_holds_on_every_way_to_a_memory(self, home: ScopedStore) -> None:
        """`list` and both searches of a view give exactly what passes, and count that alone."""
        crowd, space = a_crowd(), await home.space()
        rows = {memory.id: vector(1, number) for number, memory in enumerate(crowd)}
        await home.apply(*adding(*crowd), vectors=rows, space_number=space)
        for wanted in FILTERS:
            expected = [memory for memory in crowd if passes(memory, wanted)]
            ids = {memory.id for memory in expected}
            assert {memory.id for memory in await home.listed(filter=wanted, limit=99)} == ids, (
                wanted
            )
            view = home.view(wanted)
            await assert_found(view, expected, ["zebra", "7"], 99)
            [near] = await view.nearest(space, [vector(1, 1)], limit=99)
            assert {id for id, _ in near} == ids, wanted
            for limit in (1, 3):
                assert (
                    await home.nearest(space, 1, 1, limit=limit, filter=wanted) == near[:limit]
                ), wanted

    async def test_metadata_is_compared_as_json(self, home: ScopedStore) -> None:
        """True is not 1, null is not absent, and lists and objects equal no plain value."""
        values = [*METADATA_VALUES, [1], {"k": 1}, {}, [None]]
        await home.add(
            *(a_memory(f"value {n}", metadata={"k": value}) for n, value in enumerate(values))
        )
        await home.write("absent", metadata={"other": {"k": 1}})
        for value in (*METADATA_VALUES, 1.0, 2, "unknown"):
            expected = {f"value {n}" for n, one in enumerate(values) if same_json(one, value)}
            assert set(await home.contents(filter=Filter(metadata={"k": value}))) == expected, value
