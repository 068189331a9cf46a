"""Contract of round trips: values come back unchanged, and only in their own scope."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ..errors import NotFound
from ..language.tokenizer import query_terms
from ..records import Filter, Memory, Scope, new_id
from .contract_search import assert_found
from .fixtures import (
    DAY,
    HOSTILE,
    NOW,
    ContractPart,
    ScopedStore,
    a_memory,
    adding,
    changing,
    examples,
    texts,
    vector,
)

numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
zones = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45))])
times = st.datetimes(datetime(100, 1, 1), datetime(9000, 1, 1), timezones=zones)  # noqa: DTZ001


def same_json(value: Any, other: Any) -> bool:
    """Return True if two JSON values are equal: true is not 1, but 1 is 1.0."""
    return _exact(value) == _exact(other)


def _exact(value: Any) -> Any:
    def number(text: str) -> tuple[Decimal]:
        return (Decimal(text),)

    return json.loads(json.dumps(value), parse_float=number, parse_int=number)


def full_memory() -> Memory:
    """Return a memory in which no field has its default."""
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
        session_id="é" * 512,
        position=0,
        event_ids=("e2", "é" * 512),
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


class RoundTripContract(ContractPart):
    """Values are stored without loss, truncation, folding or reordering."""

    @examples
    @given(
        content=texts.filter(bool),
        name=texts,
        labels=st.lists(texts, max_size=3, unique=True),
        metadata=st.dictionaries(texts, json_values, max_size=4),
        at=times,
    )
    async def test_any_value_comes_back_as_it_was(
        self,
        home: ScopedStore,
        content: str,
        name: str,
        labels: list[str],
        metadata: dict[str, Any],
        at: datetime,
    ) -> None:
        """Any text or JSON comes back unchanged from every field that takes it, and times of any
        zone in UTC.
        """
        home, words = home.elsewhere(), tuple(labels)
        values: dict[str, Any] = {
            "author": name,
            "subject": name,
            "attribute": name,
            "topics": words,
            "tags": words,
            "happened_at": at,
            "valid_from": at,
        }
        memory = a_memory(content, now=at, metadata=metadata, **values)
        await home.at(at).add(memory)
        stored = await home.get(memory.id)
        assert replace(stored, metadata=metadata) == memory
        assert same_json(dict(stored.metadata), metadata), stored
        for time in (stored.created_at, stored.happened_at, stored.valid_from):
            assert time is not None
            assert time.utcoffset() == timedelta(0)

    async def test_both_times_of_a_repeated_hour_stay_apart(self, home: ScopedStore) -> None:
        """When clocks are put back, two times of a zone look the same, an hour apart."""
        night = datetime(2025, 10, 26, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
        memories = [
            a_memory(f"tea {fold}", happened_at=night.replace(fold=fold)) for fold in (0, 1)
        ]
        await home.add(*memories)
        stored = [(await home.get(memory.id)).happened_at for memory in memories]
        assert stored == [datetime(2025, 10, 26, hour, 30, tzinfo=UTC) for hour in (0, 1)]

    @examples
    @given(importance=st.floats(0, 1))
    async def test_numbers_keep_their_last_digit(
        self, home: ScopedStore, importance: float
    ) -> None:
        """Any fraction comes back unchanged."""
        home, memory = home.elsewhere(), a_memory("once", importance=importance)
        await home.add(memory)
        assert await home.get(memory.id) == memory

    async def test_every_field_of_every_memory_comes_back(self, home: ScopedStore) -> None:
        """The memories of one batch keep their own values, also where these look equal, and keys of
        1,024 bytes are not cut.
        """
        labels: list[dict[str, Any]] = [{"a": 1}, {"a": True}, {"a": {}}]
        memories = [
            a_memory("plain"),
            full_memory(),
            *(a_memory(f"labelled {label}", metadata=label) for label in labels),
            *(a_memory(f"{number} of a kind", importance=0.3) for number in range(3)),
        ]
        await home.add(*memories)
        for memory in memories:
            stored = await home.get(memory.id)
            assert stored == memory
            assert same_json(dict(stored.metadata), dict(memory.metadata)), stored
        assert {memory.id: memory for memory in await home.listed()} == {
            memory.id: memory for memory in memories
        }

    async def test_hostile_text_is_only_text(self, home: ScopedStore) -> None:
        """Any text may be part of a scope, content, key, label, event, term or payload, and finds
        its memory.
        """
        for text in (*HOSTILE, "a.b", "$", "$.k", "k[0]", '"', "{}", "K"):
            home = home.elsewhere(Scope(text, text, text))
            names: dict[str, Any] = {"session_id": text, "author": text, "metadata": {text: text}}
            memory = a_memory(
                text, event_ids=(text,), tags=(text,), topics=(text,), position=0, **names
            )
            await home.apply(*adding(memory), taken=[(text, text)])
            another = a_memory("another", metadata={"k": "v"}, tags=("k",), topics=("k",))
            await home.add(another)
            await home.enqueue(session_id=text, key=text, payload={text: [text]}, provider=text)

            assert await home.get(memory.id) == memory
            assert await home.taken(text, text) == {text}
            assert list(await home.store.scopes(tenant=text)) == [home.scope]
            assert [dict(job.payload) for job in await home.jobs()] == [{text: [text]}]
            for terms in (query_terms(text), [text]):
                assert_found(await home.view(), [memory, another], terms, 9)
            assert await home.visible(text) == set()
            filters = (
                Filter(metadata={text: text}),
                Filter(tags=(text,), topics=(text,)),
                Filter(session_id=text),
            )
            for filter in filters:
                assert await home.contents(filter=filter) == [text], filter

    async def test_a_very_long_text_is_kept_and_found(self, home: ScopedStore) -> None:
        """A long text comes back whole and is found by its last word and by hundreds of words at
        once.
        """
        words = " ".join(f"word{number}" for number in range(800))
        [memory] = await home.write(f"{words} {'x' * 100_000}")
        assert len(memory.content) > 100_000
        for query in ("word799", words):
            assert memory.id in (await home.text(*query_terms(query), limit=1)).matches

    async def test_a_session_keeps_its_order(self, home: ScopedStore) -> None:
        """Positions in a session increase over several calls; without a session there is no
        position.
        """
        for call in range(3):
            spoken = [a_memory(f"turn {3 * call + turn}", session_id="s") for turn in range(3)]
            await home.add(
                *spoken, a_memory(f"aside {call}", session_id="other"), a_memory(f"alone {call}")
            )
        for memory in await home.listed():
            kind, _, place = memory.content.partition(" ")
            assert memory.position == (None if kind == "alone" else int(place))


HOME = Scope(tenant="acme", user="ann", app="notes")
PAIRS = {
    "tenant": (HOME, Scope("other", "ann", "notes")),
    "user": (HOME, Scope("acme", "bob", "notes")),
    "app": (HOME, Scope("acme", "ann", "other")),
    "longer": (HOME, Scope("acme-corp", "ann", "notes")),
    "case": (HOME, Scope("Acme", "ann", "notes")),
    "trailing space": (HOME, Scope("acme", "ann ", "notes")),
    "swapped": (HOME, Scope("ann", "acme", "notes")),
    "any": (HOME, Scope("%", "%", "%")),
    "one letter": (HOME, Scope("acm_", "an_", "note_")),
    "empty": (HOME, Scope("", "", "")),
    "separator": (Scope("a::b", "c", "d"), Scope("a", "b::c", "d")),
    "joined": (Scope("ab", "c", ""), Scope("a", "bc", "")),
    "composed": (Scope("t", "\u00e9", "d"), Scope("t", "e\u0301", "d")),
    "very long": (Scope("t" * 1023 + "a", "u", "d"), Scope("t" * 1023 + "b", "u", "d")),
}


class IsolationContract(ContractPart):
    """Every method that takes a scope stays in it (invariant 1)."""

    @pytest.mark.parametrize("pair", PAIRS)
    async def test_no_verb_reaches_into_another_scope(self, home: ScopedStore, pair: str) -> None:
        """No read returns memories of another scope, and no write changes them."""
        home, other = map(home.elsewhere, PAIRS[pair])
        space, unused = await home.space(), await home.space(name="unused")
        memory = a_memory("the tea is green", session_id="s", event_ids=("e",))
        rows = {memory.id: vector(1, 0)}
        await home.apply(*adding(memory), vectors=rows, space_number=space, taken=[("s", "e")])
        await home.change(memory, importance=0.9)
        job, stored, version = await home.enqueue(), await home.get(memory.id), await home.version()

        assert await other.visible(memory.id, superseded=True) == set()
        assert await other.contents() == await other.unembedded(unused) == await other.jobs() == []
        assert await other.nearest(space, 1, 0) == []
        matches = await other.text("tea", "green")
        assert (matches.documents, matches.average_length) == (0, 0.0)
        assert (matches.frequencies, matches.matches) == ({}, {})
        assert await other.features(memory.id, reach=3) == {}
        assert await other.taken("s", "e") == frozenset()
        assert list(await home.store.memories.history(other.scope, memory.id)) == []
        stats = await other.stats()
        assert (stats.visible, stats.version, dict(stats.jobs)) == (0, 0, {})
        assert list(await home.store.scopes()) == [home.scope]

        with pytest.raises(NotFound):
            await other.apply(changing(stored, content="stolen"))
        await other.count({"successes": {memory.id: 1}, "delivered": {memory.id: 1}})
        await other.embed(unused, {memory.id: (1, 0)})
        assert await other.forget(memory.id) == await other.forget(session_id="s") == ()
        assert await other.forget(everything=True) == ()
        assert await home.get(memory.id) == stored
        assert (await home.version(), await home.jobs()) == (version, [job])
        assert await home.unembedded(unused) == [memory.id]

    @pytest.mark.parametrize("pair", ["user", "separator", "joined", "composed", "very long"])
    async def test_the_same_id_in_two_scopes_is_two_memories(
        self, home: ScopedStore, pair: str
    ) -> None:
        """Two scopes may hold the same id, text and event; forgetting one leaves the other."""
        memory = a_memory("the tea is green", event_ids=("e",))
        home, other = map(home.elsewhere, PAIRS[pair])
        for scope in (home, other):
            assert (await scope.apply(*adding(memory), taken=[("s", "e")])) == (memory.id,)
        assert await home.forget(everything=True) == (memory.id,)
        assert await home.contents() == []
        assert await other.contents() == ["the tea is green"]
