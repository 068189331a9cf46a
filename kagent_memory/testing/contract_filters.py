"""Filters: each alone, all together, and the same in `list` and both legs of the search."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ..records import Filter, Memory
from ..stores.base import Batch, Store
from .contract_round_trip import same_json, texts
from .fixtures import (
    DAY,
    HOSTILE,
    NOW,
    ContractPart,
    a_memory,
    a_scope,
    add,
    adding,
    changing,
    contents,
    examples,
    vector,
)

METADATA_VALUES: tuple[Any, ...] = (
    True, False, 1, 0, 1.5, -1, 2**53, 2**53 + 1, 1e300, "1", "true", "", "null", "A", "a", "é", "e\u0301", None,
)  # fmt: skip


def passes(memory: Memory, wanted: Filter) -> bool:
    """What the docstring of `Filter` says, in Python."""
    return all(
        (
            wanted.superseded or memory.state == "active",
            not wanted.types or memory.type in wanted.types,
            not wanted.topics or bool(set(wanted.topics) & set(memory.topics)),
            set(wanted.tags) <= set(memory.tags),
            not wanted.origins or memory.origin in wanted.origins,
            all(key in memory.metadata and same_json(memory.metadata[key], v) for key, v in wanted.metadata.items()),
            wanted.session_id is None or memory.session_id == wanted.session_id,
            wanted.author is None or memory.author == wanted.author,
            wanted.category is None or memory.category == wanted.category,
            wanted.min_importance is None or memory.importance >= wanted.min_importance,
            _between(memory.created_at, wanted.created_after, wanted.created_before),
            _between(memory.happened_at, wanted.happened_after, wanted.happened_before),
        )
    )


def _between(at: datetime | None, after: datetime | None, before: datetime | None) -> bool:
    if after is None and before is None:
        return True
    return at is not None and (after is None or at >= after) and (before is None or at < before)


def a_crowd() -> list[Memory]:
    """Memories that differ in everything a filter looks at."""
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
        )
        for number in range(40)
    ]


FILTERS: dict[str, Filter] = {
    "nothing": Filter(),
    "one type": Filter(types=("episodic",)),
    "any of two types": Filter(types=("episodic", "reflective")),
    "any of the topics": Filter(topics=("ann", "unknown")),
    "a hostile topic": Filter(topics=("%",)),
    "one tag": Filter(tags=("x",)),
    "all of the tags": Filter(tags=("y", "x")),
    "a tag with a quote": Filter(tags=("it's",)),
    "no such tag": Filter(tags=("x", "unknown")),
    "one origin": Filter(origins=("tool",)),
    "two origins": Filter(origins=("tool", "user")),
    "a session": Filter(session_id="s"),
    "the empty session": Filter(session_id=""),
    "an author": Filter(author="ann"),
    "a hostile author": Filter(author="%"),
    "the empty author": Filter(author=""),
    "an author of nothing": Filter(author="nobody"),
    "a category": Filter(category="billing"),
    "a hostile category": Filter(category="%"),
    "a category with a quote": Filter(category="it's", types=("semantic", "episodic")),
    "the empty category": Filter(category=""),
    "a category of nothing": Filter(category="nothing"),
    "importance from": Filter(min_importance=0.25),
    "importance zero": Filter(min_importance=0.0),
    "created from": Filter(created_after=NOW + DAY),
    "created before": Filter(created_before=NOW + DAY),
    "created within": Filter(created_after=NOW + DAY, created_before=NOW + 2 * DAY),
    "happened from": Filter(happened_after=NOW - DAY),
    "happened before": Filter(happened_before=NOW - DAY),
    "long ago": Filter(happened_after=NOW.replace(year=476), happened_before=NOW.replace(year=1453)),
    "metadata one": Filter(metadata={"k": 1}),
    "metadata true": Filter(metadata={"k": True}),
    "metadata null": Filter(metadata={"k": None}),
    "metadata absent": Filter(metadata={"nowhere": None}),
    "metadata both": Filter(metadata={"k": 1.0, "z": "a"}),
    "all at once": Filter(
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
}


class FilterContract(ContractPart):
    """Every field that is set must hold, on every way to a memory."""

    async def test_list_and_both_searches_give_exactly_what_passes(self, store: Store) -> None:
        scope, crowd = a_scope(), a_crowd()
        space_number = (await store.add_embedding_space("hash", 2, None)).number
        rows = {memory.id: vector(1, number) for number, memory in enumerate(crowd)}
        await store.apply(scope, Batch(changes=adding(*crowd), vectors=rows, space_number=space_number), now=NOW)
        for name, wanted in FILTERS.items():
            expected = {memory.id for memory in crowd if passes(memory, wanted)}
            listed = (await store.list(scope, filter=wanted, limit=99, now=NOW)).memories
            near = await store.view(scope, filter=wanted, now=NOW).nearest(space_number, [vector(1, 1)], limit=99)
            found = await store.view(scope, filter=wanted, now=NOW).text(["zebra"], limit=99)
            assert {memory.id for memory in listed} == expected, name
            assert {id for id, _ in near[0]} == expected, name
            assert set(found.matches) == expected, name
            assert (found.documents, found.frequencies.get("zebra", 0)) == (len(expected), len(expected)), name

    @pytest.mark.parametrize("name", ["one tag", "metadata absent", "all at once"])
    async def test_a_view_that_searched_by_words_finds_the_same_by_vectors(self, store: Store, name: str) -> None:
        scope, crowd, wanted = a_scope(), a_crowd(), FILTERS[name]
        space_number = (await store.add_embedding_space("hash", 2, None)).number
        rows = {memory.id: vector(1, number) for number, memory in enumerate(crowd)}
        await store.apply(scope, Batch(changes=adding(*crowd), vectors=rows, space_number=space_number), now=NOW)
        view = store.view(scope, filter=wanted, now=NOW)
        await view.text([], limit=0)
        for limit in (1, 3, 99):
            queries = [vector(1, 1), vector(-1, 2)]
            alone = await store.view(scope, filter=wanted, now=NOW).nearest(space_number, queries, limit=limit)
            assert alone == await view.nearest(space_number, queries, limit=limit)

    async def test_filters_page_like_everything_else(self, store: Store) -> None:
        scope, crowd, wanted = a_scope(), a_crowd(), FILTERS["one tag"]
        await add(store, scope, *crowd)
        whole = (await store.list(scope, filter=wanted, limit=99, now=NOW)).memories
        first = await store.list(scope, filter=wanted, limit=7, now=NOW)
        second = await store.list(scope, filter=wanted, limit=99, cursor=first.cursor, now=NOW)
        assert first.memories + second.memories == whole

    async def test_metadata_is_compared_as_json_true_is_not_1_and_null_is_not_absent(self, store: Store) -> None:
        scope = a_scope()
        memories = [a_memory(f"value {n}", metadata={"k": value}) for n, value in enumerate(METADATA_VALUES)]
        nested = [a_memory(f"nested {n}", metadata={"k": value}) for n, value in enumerate(([1], {"k": 1}, {}, [None]))]
        await add(store, scope, *memories, *nested, a_memory("absent", metadata={"other": {"k": 1}}))
        for value in (*METADATA_VALUES, 1.0, 2, "unknown"):
            found = await contents(store, scope, filter=Filter(metadata={"k": value}))
            expected = [f"value {n}" for n, one in enumerate(METADATA_VALUES) if same_json(one, value)]
            assert sorted(found) == sorted(expected), value

    async def test_any_text_is_a_metadata_key_a_tag_a_topic_and_a_session(self, store: Store) -> None:
        for text in (*HOSTILE, "", "a.b", "$", "$.k", "k[0]", '"', "{}", "K"):
            scope = a_scope()
            memory = a_memory("has it", metadata={text: text}, tags=(text,), topics=(text,), session_id=text)
            await add(store, scope, memory, a_memory("has not", metadata={"k": "v"}, tags=("k",), topics=("k",)))
            for wanted in (
                Filter(metadata={text: text}),
                Filter(tags=(text,)),
                Filter(topics=(text,)),
                Filter(session_id=text),
            ):
                assert await contents(store, scope, filter=wanted) == ["has it"], wanted

    @examples
    @given(data=st.data(), keys=st.lists(texts, min_size=1, max_size=2, unique=True))
    async def test_metadata_filters_agree_with_json_equality(
        self, store: Store, data: st.DataObject, keys: list[str]
    ) -> None:
        scope = a_scope()
        scalars = st.sampled_from(METADATA_VALUES)
        stored = data.draw(st.lists(st.dictionaries(st.sampled_from(keys), scalars), max_size=6))
        wanted = Filter(metadata=data.draw(st.dictionaries(st.sampled_from(keys), scalars, max_size=2)))
        memories = [a_memory(f"row {number}", metadata=metadata) for number, metadata in enumerate(stored)]
        await add(store, scope, *memories)
        found = await contents(store, scope, filter=wanted)
        assert sorted(found) == sorted(memory.content for memory in memories if passes(memory, wanted))

    async def test_superseded_memories_are_listed_only_when_asked_for(self, store: Store) -> None:
        scope = a_scope()
        old, new = a_memory("old", tags=("x",)), a_memory("new", tags=("x",))
        await add(store, scope, old, new)
        gone = changing(old, "supersede", state="superseded", superseded_by=new.id)
        await store.apply(scope, Batch(changes=[gone]), now=NOW)
        for wanted, expected in product((Filter(tags=("x",)), Filter()), ((False, ["new"]), (True, ["new", "old"]))):
            asked = replace(wanted, superseded=expected[0])
            assert sorted(await contents(store, scope, filter=asked)) == expected[1]
