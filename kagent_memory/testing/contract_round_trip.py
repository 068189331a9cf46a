"""What goes in comes out: any text, any JSON, every field, every time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from ..language.tokenizer import index_terms, query_terms
from ..records import Memory, new_id
from ..stores.base import Batch, Store
from .fixtures import (
    DAY,
    HOSTILE,
    NOW,
    ContractPart,
    a_job,
    a_memory,
    a_scope,
    add,
    adding,
    changing,
    contents,
    examples,
    the,
)

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
times = st.datetimes(datetime(100, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


class SetBack(tzinfo):
    """Where a clock is being set back: it shows each time twice, an hour apart, and Python takes both for equal."""

    @override
    def utcoffset(self, dt: datetime | None) -> timedelta:
        return timedelta(hours=-dt.fold if dt else 0)

    @override
    def dst(self, dt: datetime | None) -> timedelta:
        return timedelta(0)

    @override
    def tzname(self, dt: datetime | None) -> str:
        return "set back"


def same_json(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: true is not 1, and 1 is 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        left, right = cast_map(one), cast_map(other)
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        rows = list(zip(cast_list(one), cast_list(other), strict=False))
        return len(cast_list(one)) == len(cast_list(other)) and all(same_json(a, b) for a, b in rows)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float) or isinstance(other, float):
        return isinstance(one, (int, float)) and isinstance(other, (int, float)) and float(one) == float(other)
    return bool(one == other)


def cast_map(value: Any) -> dict[str, Any]:
    """The value, known to be a mapping."""
    return value


def cast_list(value: Any) -> list[Any]:
    """The value, known to be a list."""
    return list(value)


class RoundTripContract(ContractPart):
    """Nothing is lost, cut, folded or reordered on its way."""

    @examples
    @given(content=texts.filter(bool), name=texts, labels=st.lists(texts, max_size=3, unique=True))
    async def test_any_text_comes_back_as_it_was(
        self, store: Store, content: str, name: str, labels: list[str]
    ) -> None:
        scope = a_scope()
        memory = a_memory(content, author=name, subject=name, attribute=name, topics=tuple(labels), tags=tuple(labels))
        await add(store, scope, memory)
        assert await the(store, scope, memory.id) == memory

    @examples
    @given(metadata=st.dictionaries(texts, json_values, max_size=4))
    async def test_any_json_metadata_comes_back_as_it_was(self, store: Store, metadata: dict[str, Any]) -> None:
        scope = a_scope()
        memory = a_memory("plain", metadata=metadata)
        await add(store, scope, memory)
        stored = (await the(store, scope, memory.id)).metadata
        assert same_json(dict(stored), metadata), stored

    @examples
    @given(happened_at=times, importance=st.floats(0, 1))
    async def test_any_time_and_importance_come_back_to_the_last_digit(
        self, store: Store, happened_at: datetime, importance: float
    ) -> None:
        scope = a_scope()
        memory = a_memory("once", happened_at=happened_at, valid_from=happened_at, importance=importance)
        await add(store, scope, memory)
        stored = await the(store, scope, memory.id)
        assert stored == memory
        assert stored.happened_at is not None
        assert stored.happened_at.utcoffset() == timedelta(0)

    async def test_every_field_comes_back(self, store: Store) -> None:
        scope = a_scope()
        memory = full_memory()
        await add(store, scope, memory)
        assert await the(store, scope, memory.id) == replace(memory, position=0)
        assert (await store.list(scope, now=NOW)).memories == (replace(memory, position=0),)

    async def test_memories_of_one_batch_share_nothing_that_only_looks_equal(self, store: Store) -> None:
        scope = a_scope()
        plain, whole = a_memory("plain"), full_memory()
        others = [
            replace(a_memory(f"other in {name}"), **{name: getattr(whole, name)})
            for name in ("topics", "importance", "author", "event_ids", "subject", "happened_at", "ttl_days", "pinned")
        ]
        labels: list[dict[str, Any]] = [{"a": 1}, {"a": True}, {"a": {}}]
        labelled = [a_memory(f"labelled {label}", metadata=label) for label in labels]
        same = [a_memory(f"{number} of a kind") for number in range(3)]
        memories = [plain, *others, whole, *labelled, *same]
        await add(store, scope, *memories)
        for memory in memories:
            stored = await the(store, scope, memory.id)
            assert stored == (replace(memory, position=0) if memory is whole else memory)
            assert same_json(dict(stored.metadata), dict(memory.metadata)), stored

    async def test_times_of_another_zone_come_back_as_the_same_moment_in_utc(self, store: Store) -> None:
        scope = a_scope()
        there = NOW.astimezone(timezone(timedelta(hours=5, minutes=45)))
        memory = a_memory("elsewhere", now=there, happened_at=there)
        await store.apply(scope, Batch(changes=adding(memory)), now=there)
        stored = await the(store, scope, memory.id, now=there)
        assert (stored.created_at, stored.happened_at) == (NOW, NOW)
        assert stored.created_at.utcoffset() == timedelta(0)

    async def test_times_that_a_clock_shows_twice_stay_an_hour_apart(self, store: Store) -> None:
        scope = a_scope()
        first = NOW.replace(tzinfo=SetBack())
        memories = [a_memory(f"clock {at.fold}", happened_at=at) for at in (first, first.replace(fold=1))]
        await add(store, scope, *memories)
        stored = [(await the(store, scope, memory.id)).happened_at for memory in memories]
        assert stored == [NOW, NOW + timedelta(hours=1)]

    async def test_hostile_text_is_only_text(self, store: Store) -> None:
        for text in HOSTILE:
            scope = a_scope()
            memory = a_memory(
                text, session_id=text, event_ids=(text,), author=text, tags=(text,), metadata={text: text}
            )
            await store.apply(scope, Batch(changes=adding(memory), taken=[(text, text)]), now=NOW)
            await store.enqueue([a_job(scope, session_id=text, key=text, payload={text: [text]}, provider=text)])

            assert await the(store, scope, memory.id) == replace(memory, position=0)
            assert await store.taken(scope, text, [text]) == {text}
            assert [dict(job.payload) for job in await store.jobs(scope=scope)] == [{text: [text]}]
            terms = list(query_terms(text))
            counts = _counts(memory, terms)
            found = await store.view(scope, now=NOW).text(terms, limit=9)
            assert dict(found.matches) == ({memory.id: (found.average_length, counts)} if counts else {})
            nothing = await store.view(scope, now=NOW).text([text], limit=9)
            assert set(nothing.matches) == ({memory.id} if text in index_terms(text, text) else set())
            assert await store.get(scope, [text], now=NOW) == {}

    async def test_a_very_long_text_comes_back_and_is_found_by_its_words(self, store: Store) -> None:
        scope = a_scope()
        content = " ".join(f"word{number}" for number in range(2_000)) + " " + "x" * 100_000
        memory = a_memory(content)
        await add(store, scope, memory)
        assert (await the(store, scope, memory.id)).content == content
        terms = list(query_terms("word1999"))
        assert memory.id in (await store.view(scope, now=NOW).text(terms, limit=1)).matches

    async def test_entries_of_a_session_keep_their_order_over_several_calls(self, store: Store) -> None:
        scope = a_scope()
        for call in range(3):
            spoken = [a_memory(f"turn {call}.{turn}", session_id="s") for turn in range(3)]
            await add(store, scope, *spoken, a_memory(f"aside {call}", session_id="other"))
        memories = (await store.list(scope, now=NOW)).memories
        said = sorted((m for m in memories if m.session_id == "s"), key=lambda m: m.position or 0)
        assert [m.position for m in said] == list(range(9))
        assert [m.content for m in said] == [f"turn {call}.{turn}" for call in range(3) for turn in range(3)]
        assert sorted(m.position or 0 for m in memories if m.session_id == "other") == [0, 1, 2]

    async def test_a_memory_without_a_session_has_no_position(self, store: Store) -> None:
        scope = a_scope()
        (id,) = await add(store, scope, a_memory("alone"))
        assert id is not None
        assert (await the(store, scope, id)).position is None

    async def test_an_edit_comes_back_whole_and_is_found_by_its_new_words_only(self, store: Store) -> None:
        scope = a_scope()
        memory = a_memory("alpha", ttl_days=3, session_id="s", metadata={"a": 1})
        await add(store, scope, memory)
        stored = await the(store, scope, memory.id)
        later = NOW + DAY
        change = changing(stored, now=later, content="omega", importance=1.0, metadata={"b": None}, tags=("x",))
        await store.apply(scope, Batch(changes=[change]), now=later)
        assert await the(store, scope, memory.id) == change.memory
        found = await store.view(scope, now=NOW).text(["alpha", "omega"], limit=9)
        assert dict(found.frequencies) == {"omega": 1}
        assert await contents(store, scope) == ["omega"]


def full_memory() -> Memory:
    """A memory with every field set to something else than its default."""
    return a_memory(
        "Ann's favourite tea is green",
        ttl_days=40,
        type="procedural",
        topics=("tea", "ann"),
        tags=("b", "a"),
        importance=0.1 + 0.2,
        is_error=True,
        origin="tool",
        author="barista",
        category="drinks",
        session_id="s-1",
        event_ids=("e2", "e1"),
        subject="ann",
        attribute="favourite tea",
        metadata={"nested": {"list": [1, 2.5, None, True, "x"]}, "n": 2**53 + 1},
        happened_at=NOW - DAY,
        valid_from=NOW - 2 * DAY,
        valid_to=NOW + DAY,
        pinned=True,
        verbatim=True,
        links=(new_id(NOW), new_id(NOW)),
    )


def _counts(memory: Memory, terms: list[str]) -> dict[str, int]:
    indexed = index_terms(memory.content, memory.author)
    return {term: indexed[term] for term in terms if term in indexed}
