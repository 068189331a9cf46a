"""Checks of facts, and the effect of an edit, correction or undo on a memory, without a store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from inspect import signature
from typing import Any

import pytest

from kagent_memory.errors import InvalidInput
from kagent_memory.ingestion.editing import checked_fact, edited, taken_back
from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Memory, Revision
from kagent_memory.redaction import redact
from kagent_memory.retention.lifecycle import to_memory

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(days=2)
BYTES = 256


def masked(text: str) -> str:
    return text.replace("hunter2", "[secret]")


def checked(item: Fact | str) -> Fact:
    return checked_fact(item, max_bytes=BYTES, redact=masked)


def memory(**values: Any) -> Memory:
    stored = to_memory(Fact("Ada likes tea", topics=("tea",), metadata={"n": 1}), now=NOW)
    return replace(stored, **values)


def after(old: Memory, **changes: Any) -> Memory:
    return edited(old, changes, now=LATER, max_bytes=BYTES, redact=masked)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


# -- what may be stored --

UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "no text": ({"text": " "}, "say what to remember"),
    "long text": ({"text": "ü" * 129}, r"258 bytes; at most 256"),
    "a type of its own": ({"type": "odd"}, "type does not fit: .* 'semantic'"),
    "an origin of its own": ({"origin": "moon"}, "origin does not fit: .* 'user'"),
    "a TTL of parts of days": ({"ttl_days": 1.5}, "ttl_days does not fit"),
    "a pin that is a word": ({"pinned": "no"}, "pinned does not fit"),
    "event ids that are a text": ({"event_ids": "e1"}, "event_ids does not fit"),
    "a category with NUL": ({"category": "a\0b"}, "category"),
    "a TTL below 0": ({"ttl_days": -1}, "greater than or equal to 0"),
    "importance above 1": ({"importance": 1.01}, "less than or equal to 1"),
    "importance that is no number": ({"importance": float("nan")}, "importance does not fit"),
    "bare topics": ({"topics": "tea"}, "topics does not fit"),
    "a topic in bytes": ({"topics": [b"tea"]}, "topics.0 does not fit"),
    "an author with NUL": ({"author": "a\0"}, "NUL"),
    "metadata that is no JSON": ({"metadata": {"a": {1, 2}}}, "not valid JSON"),
    "metadata with NaN": ({"metadata": {"a": float("nan")}}, "not valid JSON"),
    "metadata keyed by numbers": ({"metadata": {1: "a"}}, "valid string"),
    "long metadata": ({"metadata": {"a": "x" * 256}}, "metadata has"),
    "metadata nested 101 levels deep": ({"metadata": {"a": nested(101)}}, "at most 100 levels"),
    "metadata nested without end": ({"metadata": {"a": nested(100_000)}}, "at most 100 levels"),
    "a time without zone": ({"happened_at": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001
    "a time as text with a zone": ({"happened_at": "2026-01-01T00:00:00Z"}, "happened_at"),
    "a time beyond the calendar": (
        {"happened_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-3)))},
        "out of range",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_fact_that_does_not_fit_is_refused_with_its_bound(name: str) -> None:
    """A value that may not be stored is refused with its bound, by an edit as by an add."""
    values, advice = UNFIT[name]
    with pytest.raises(InvalidInput, match=advice):
        checked(Fact(**{"text": "fine", **values}))
    if (
        set(values) <= signature(Memories.edit).parameters.keys()
    ):  # an edit may set no more than an add
        with pytest.raises(InvalidInput, match=advice):
            after(memory(), **values)


def test_secrets_are_masked_wherever_a_fact_carries_text() -> None:
    """Secrets are masked in every text of a fact: content, slot, labels, metadata and its keys."""
    text, safe = "the word is hunter2", "the word is [secret]"
    texts = ("text", "subject", "attribute")
    fields: Any = {**dict.fromkeys(texts, text), **dict.fromkeys(("topics", "tags"), (text,))}
    fact = checked(Fact(**fields, metadata={text: [{"b": text}]}))
    assert {getattr(fact, name) for name in texts} == {safe}
    assert (fact.topics, fact.tags, fact.metadata) == ((safe,), (safe,), {safe: [{"b": safe}]})
    changed = after(memory(), content=text, metadata={"a": text})
    assert (changed.content, changed.metadata) == (safe, {"a": safe})


def test_a_secret_named_by_its_metadata_key_is_masked() -> None:
    """A secret that only its key gives away is masked in metadata."""
    values = {"db": {"password": "correct-horse"}, "token_count": "12345678", "say": 'a "word"'}
    metadata = checked_fact(Fact("x", metadata=values), max_bytes=999, redact=redact).metadata
    assert metadata == {**values, "db": {"password": "[secret: password]"}}


def test_labels_are_kept_once_in_their_order_and_times_in_utc() -> None:
    """A label given twice is kept once, in its first place, and times are kept in UTC."""
    oslo = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    fact = checked(Fact("x", topics=("b", "a", "b"), happened_at=oslo))
    assert fact.topics == ("b", "a")
    assert fact.happened_at is not None
    assert fact.happened_at.isoformat() == "2026-01-01T00:00:00+00:00"


# -- edits --


def test_an_edit_leaves_the_rest_as_it_was() -> None:
    """An edit changes the given fields and no others."""
    old = memory(
        session_id="s", position=2, author="ada", subject="user", attribute="tea", event_ids=("e",)
    )
    new = after(old, importance=0.9)
    assert new == replace(old, importance=0.9, updated_at=LATER, revision=2)


def test_only_a_new_ttl_moves_the_expiry_and_it_counts_from_now() -> None:
    """Of edits only a new TTL moves the expiry: it counts from the edit, and 0 means never."""
    old = memory()
    assert after(old, content="Ada likes coffee").expires_at == old.expires_at
    assert after(old, ttl_days=3).expires_at == LATER + timedelta(days=3)
    assert after(old, ttl_days=0).expires_at is None


def test_an_edit_checks_only_what_it_sets() -> None:
    """An edit checks its own fields only, not old values with other limits."""
    old = memory(content="x" * 10_000, metadata={"a": "y" * 10_000})
    assert after(old, pinned=True) == replace(old, pinned=True, updated_at=LATER, revision=2)
    assert after(old, content="short").metadata == old.metadata
    with pytest.raises(InvalidInput, match="at most 256"):
        after(old, content="x" * 257)


# -- corrections and undo --


def revision(before: Memory | None, id: str, number: int, **values: Any) -> Revision:
    return Revision(memory_id=id, revision=number, kind="edit", before=before, at=LATER, **values)


def test_what_an_undo_restores_is_not_expired() -> None:
    """An undo gives an expired memory a new term."""
    old = memory(expires_at=NOW + timedelta(days=1), ttl_days=7)
    now = after(old, content="Ada likes coffee")
    edit = [revision(old, old.id, 1)]
    [change] = taken_back(edit, {old.id: now}, edit, now=LATER, who="")
    assert change.memory.expires_at == LATER + timedelta(days=7)


def test_a_short_term_memory_comes_back_for_its_hours() -> None:
    """An undo restores a short-term memory for its hours, not for its long-term TTL."""
    brief = memory(
        state="short_term", expires_at=NOW + timedelta(hours=24), created_at=NOW, ttl_days=90
    )
    long = replace(brief, state="active", expires_at=None, revision=2)
    edit = [revision(brief, brief.id, 1)]
    [change] = taken_back(edit, {brief.id: long}, edit, now=LATER, who="")
    assert (change.memory.state, change.memory.expires_at) == (
        "short_term",
        LATER + timedelta(hours=24),
    )
