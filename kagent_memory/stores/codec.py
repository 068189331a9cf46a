"""Pure functions that every store shares: ids, snapshots, revival, expiry, tombstone keys."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any

from pydantic import TypeAdapter

from ..checks import parsed_time
from ..language import tokenizer
from ..records import ID_PATTERN, Memory
from .postings import packed

_MEMORIES = TypeAdapter(Memory)
MAX_LIMIT = 1_000_000_000
_ID_CHARS = 36
_ID = re.compile(ID_PATTERN)


class Texts:
    """Content hashes and index terms of memories, the longest work of a write, computed once."""

    def __init__(self) -> None:
        self._identity = cache(tokenizer.identity)
        self._postings = cache(_packed_terms)

    def identity(self, memory: Memory) -> bytes:
        """Return the content hash of a memory."""
        events = tuple(memory.event_ids)
        return self._identity(memory.content, verbatim=memory.verbatim, event_ids=events)

    def postings(self, memory: Memory) -> bytes:
        """Return a memory's index terms, packed."""
        return self._postings(memory.content, memory.author)


def _packed_terms(content: str, author: str | None) -> bytes:
    return packed(tokenizer.index_terms(content, author))


def to_snapshot(memory: Memory) -> str:
    """Return a memory as JSON text, without its usage counters."""
    return _MEMORIES.dump_json(memory, exclude={"usage"}).decode()


def from_snapshot(snapshot: str) -> Memory:
    """Return the memory that `to_snapshot` wrote."""
    return _MEMORIES.validate_json(snapshot)


def expiry(ttl_days: int | None, now: datetime) -> datetime | None:
    """Return when a memory with this TTL expires if it starts to live now; None: never (no TTL,
    or 0 and less).
    """
    return now + timedelta(days=ttl_days) if ttl_days and ttl_days > 0 else None


def revived(existing: Memory, added: Memory, now: datetime) -> Memory:
    """Return an existing memory after an equal one was added: with a new expiry and the union of
    their attributes.
    """
    return replace(
        existing,
        metadata={**existing.metadata, **added.metadata},
        tags=_union(existing.tags, added.tags),
        topics=_union(existing.topics, added.topics),
        event_ids=_union(existing.event_ids, added.event_ids),
        links=_union(existing.links, added.links),
        category=added.category or existing.category,
        importance=max(existing.importance, added.importance),
        pinned=existing.pinned or added.pinned,
        explicit=existing.explicit or added.explicit,
        said_at=max(filter(None, (existing.said_at, added.said_at)), default=None),
        ttl_days=added.ttl_days,
        expires_at=expiry(added.ttl_days, now),
        updated_at=now,
    )


def renewed(existing: Memory, now: datetime) -> Memory:
    """Return a memory after it was met again, with its TTL started anew."""
    return replace(existing, expires_at=expiry(existing.ttl_days, now))


def _union(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def forgotten_key(salt: bytes, session_id: str | None, content: str) -> str:
    """Return the tombstone of a forgotten text: a hash keyed by the scope's random salt, which
    reveals nothing.
    """
    digest = hashlib.blake2b(key=salt, digest_size=16)
    digest.update((session_id or "").encode() + b"\0" + tokenizer.normalised(content).encode())
    return digest.hexdigest()


def united(waiting: Mapping[str, Any], later: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the payload of a queued job united with that of a later job of its key.

    It is the later payload with the `messages` of both. The first message of an event wins, unless
    the later one has no text (it was withdrawn). If all messages have a time, they are sorted by
    it, since jobs may arrive in any order.
    """
    after = messages_in(later)
    spoken_ids = {message["event_id"] for message in after if message.get("text")}
    silent_ids = {message["event_id"] for message in after} - spoken_ids
    before = messages_in(without_events(waiting, silent_ids))
    if not before:
        return later
    former_ids = {message["event_id"] for message in before}
    messages = [*before, *messages_in(without_events(later, former_ids))]
    if all(message.get("at") for message in messages):
        messages.sort(key=lambda message: parsed_time(message["at"], "The time of a message"))
    return {**later, "messages": messages}


def messages_in(payload: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the messages of a payload; some payloads have none."""
    return payload.get("messages", ())


def from_base64(text: str) -> bytes:
    """Decode Base64; the padding may be missing.

    Raises:
        ValueError: it is not Base64.
    """
    bare = text.rstrip("=")
    return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)


def to_iso(at: datetime) -> str:
    """Return a time in UTC as text that sorts like it: 2026-01-31T09:30:00.000000Z."""
    # in its own zone a time equals the one an hour later, when clocks are put back
    return _utc_to_iso(at.astimezone(UTC))


@lru_cache  # the rows of a batch share their times
def _utc_to_iso(at: datetime) -> str:
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def known(ids: Iterable[str]) -> list[str]:
    """Return the distinct valid ids in their order; a memory with another id cannot exist."""
    return [id for id in dict.fromkeys(ids) if is_id(id)]


def is_id(value: object) -> bool:
    """Return True for a UUID in canonical spelling."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def ids_in(text: str) -> list[str]:
    """Split ids that a statement returned as one text, which is faster than a row each."""
    return [text[start : start + _ID_CHARS] for start in range(0, len(text), _ID_CHARS)]


def bounded(limit: int) -> int:
    """Return a limit between 0 and a billion, which every database accepts."""
    return max(0, min(limit, MAX_LIMIT))


def event_ids_in(payload: Mapping[str, Any]) -> set[str]:
    """Return the source events of the messages of a payload."""
    return {message["event_id"] for message in messages_in(payload)}


def without_events(payload: Mapping[str, Any], events: Set[str]) -> Mapping[str, Any]:
    """Return a payload without the messages of these events."""
    messages = messages_in(payload)
    remaining = [message for message in messages if message["event_id"] not in events]
    return payload if len(remaining) == len(messages) else {**payload, "messages": remaining}
