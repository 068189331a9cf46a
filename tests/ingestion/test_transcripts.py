"""Transcripts are checked before they are queued, and the queue returns them unchanged."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from kagent_memory.errors import InvalidInput
from kagent_memory.ingestion.transcripts import from_payload, prepared, to_payload
from kagent_memory.records import Message, Scope

from .ground import opened

SCOPE = Scope("", "ada", "demo")
UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "a time without zone": ({"at": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001
    "a time beyond the calendar": (
        {"at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))},
        "out of range",
    ),
    "a role of its own": ({"role": "system"}, "'user', 'agent' or 'tool'"),
    "an endless range": ({"compaction": (0.0, math.inf)}, "less than or equal to"),
    "a range before the epoch": ({"compaction": (-1.0, 1.0)}, "greater than or equal to 0"),
    "half a range": ({"compaction": (1.0,)}, r"compaction\.1 does not fit"),
    "fields that are a list": ({"fields": [1]}, "fields does not fit"),
}


@pytest.mark.parametrize("name", UNFIT)
async def test_an_unfit_utterance_is_not_queued(name: str) -> None:
    """An invalid message is refused before it is queued."""
    values, advice = UNFIT[name]
    messages = [
        Message(text="fine", event_id="1"),
        Message(**{"text": "x", "event_id": "2", **values}),
    ]
    async with opened(llm=False) as memories:
        with pytest.raises(InvalidInput, match=advice):
            await memories.remember(SCOPE, messages, "s", end_after_minutes=1)
        assert await memories.jobs() == []


@pytest.mark.parametrize("minutes", [math.nan, math.inf, 1e12, -1, "3"])
async def test_a_timer_without_a_time_is_refused_and_nothing_is_queued(minutes: Any) -> None:
    """A timer without a usable number of minutes is refused, and nothing of the call is queued."""
    async with opened(llm=False) as memories:
        with pytest.raises(InvalidInput, match="end_after_minutes"):
            await memories.remember(SCOPE, [Message(text="x")], "s", end_after_minutes=minutes)
        assert await memories.jobs() == []


def test_the_queue_gives_messages_back_as_they_came() -> None:
    """A message comes out of the queue's JSON equal to the one put in, its time in UTC."""
    at = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    message = Message(
        text="ü", role="tool", author="t", event_id="e", at=at, compaction=(0, 9999.5)
    )
    [back] = from_payload(json.loads(json.dumps(to_payload(prepared([message], "s", str, 999)))))
    assert back == message
    assert back.at is not None
    assert back.at.tzinfo is UTC


def test_what_was_handed_over_is_not_queued() -> None:
    """The queue stores no recalled text, which must vanish once its memory is forgotten."""
    message = Message(text="x", event_id="e", recalled=("Ada sails.\nBob skis",))
    payload = to_payload(prepared([message], "s", str, 999))
    assert "sails" not in json.dumps(payload)
    assert from_payload(payload) == [replace(message, recalled=())]


def test_a_message_without_an_event_id_keeps_its_own() -> None:
    """A message without an event id gets the same one each time."""
    turns = [Message(text="yes"), Message(text="yes"), Message(text="no")]
    first, again, other = (
        [message.event_id for message in prepared(turns, session, str, 999)]
        for session in ("s", "s", "other")
    )
    assert first == again
    assert len({*first, *other}) == 6
