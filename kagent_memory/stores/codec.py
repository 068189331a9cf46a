"""What every store decides alike, as pure functions: ids, snapshots, revival, expiry, cursors,
tombstone keys.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from ..errors import InvalidInput
from ..language import tokenizer
from ..records import Memory

MEMORY_TIMES = tuple(one.name for one in fields(Memory) if "datetime" in str(one.type))
MEMORY_LISTS = tuple(one.name for one in fields(Memory) if str(one.type).startswith("tuple"))
_MOST = 1_000_000_000
_ID_CHARS = 36
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def to_snapshot(memory: Memory) -> str:
    """A memory as JSON text, without its usage counters."""
    values = asdict(memory)
    del values["usage"]
    for name in MEMORY_TIMES:
        values[name] = values[name] and values[name].isoformat()
    return json.dumps(values, ensure_ascii=False)


def from_snapshot(snapshot: str) -> Memory:
    """The memory that `to_snapshot` wrote."""
    values: dict[str, Any] = json.loads(snapshot)
    for name in MEMORY_TIMES:
        at = values.get(name)
        values[name] = at and datetime.fromisoformat(at).astimezone(UTC)
    for name in MEMORY_LISTS:
        values[name] = tuple(values[name])
    return Memory(**values)


def expiry(ttl_days: int | None, now: datetime) -> datetime | None:
    """Return when a memory with this TTL expires if it starts to live now; None: never (no TTL,
    or 0 and less).
    """
    return now + timedelta(days=ttl_days) if ttl_days and ttl_days > 0 else None


def revived(existing: Memory, added: Memory, now: datetime) -> Memory:
    """The existing memory after the same one was added again: alive, and what is known of it
    united.
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
    """The memory after it was met again: its own TTL starts anew."""
    return replace(existing, expires_at=expiry(existing.ttl_days, now))


def _union(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def forgotten_key(salt: bytes, session_id: str | None, content: str) -> str:
    """The tombstone of a forgotten text: a hash keyed by the scope's own random salt, so that it
    tells nothing.
    """
    digest = hashlib.blake2b(key=salt, digest_size=16)
    digest.update((session_id or "").encode() + b"\0" + tokenizer.normalised(content).encode())
    return digest.hexdigest()


def united(waiting: Mapping[str, Any], later: Mapping[str, Any]) -> Mapping[str, Any]:
    """The payload of a waiting job that a later one of its key takes over.

    The later one's, with the `messages` of both: an event stands as it came first, unless it says
    nothing any more (it was taken back), and they go by the time of each when all tell it. Two that
    were sent at once may arrive in any order.
    """
    before, after = messages_in(waiting), messages_in(later)
    telling = {
        message["event_id"] for message in after if message.get("event_id") and message.get("text")
    }
    silent = {event for message in after if (event := message.get("event_id"))} - telling
    before = [message for message in before if message.get("event_id") not in silent]
    if not before:
        return later
    known = {message["event_id"] for message in before if message.get("event_id")}
    both = [*before, *(message for message in after if message.get("event_id") not in known)]
    times = [at for message in both if (at := _time(message.get("at"))) is not None]
    if len(times) == len(both):
        both = [both[place] for place in sorted(range(len(both)), key=times.__getitem__)]
    return {**later, "messages": both}


def messages_in(payload: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The messages that a payload carries, each with its `event_id`; of other payloads none."""
    found = payload.get("messages")
    listed = cast("list[Any]", found) if isinstance(found, list | tuple) else []
    return [message for message in listed if isinstance(message, Mapping)]


def _time(value: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return at if at is not None and at.tzinfo is not None else None


def from_base64(text: object) -> bytes:
    """The bytes that a Base64 text stands for; its padding may be missing.

    Raises:
        ValueError: it is not Base64.
    """
    if not isinstance(text, str):
        raise ValueError("not Base64")
    bare = text.rstrip("=")
    return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)


def to_cursor(*parts: str | float | None) -> str:
    """An opaque cursor over the sort key of the last row of a page."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def from_cursor(cursor: str, order: str) -> list[Any]:
    """The sort key that `to_cursor(order, …)` holds, without the order.

    Raises:
        InvalidInput: the cursor is invalid, or belongs to another order.
    """
    try:
        head, *parts = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput("Invalid cursor; start without one.") from error
    if head != order:
        raise InvalidInput(f"This cursor belongs to the order {head!r}; start without one.")
    return parts


def to_iso(at: datetime) -> str:
    """Aware UTC as fixed-width text that sorts like the time: 2026-01-31T09:30:00.000000Z."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def known(ids: Iterable[str]) -> list[str]:
    """The distinct ones that can be ids at all, in their order; anything else is simply not
    there.
    """
    return [id for id in dict.fromkeys(ids) if is_id(id)]


def is_id(value: object) -> bool:
    """Return True if it is a UUID in its canonical spelling, the only one that we make."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def id_text(digits: str) -> str:
    """The canonical spelling of an id's 32 hexadecimal digits."""
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def ids_in(text: str) -> list[str]:
    """Ids that a statement gave one after the other: far quicker to take in than a row each."""
    return [text[start : start + _ID_CHARS] for start in range(0, len(text), _ID_CHARS)]


def bounded(limit: int) -> int:
    """A limit that every database takes: never negative, never beyond a billion."""
    return max(0, min(limit, _MOST))


def event_ids_in(payload: object) -> set[str]:
    """The source events that a queued payload names, at any depth, as `event_id` or `event_ids`."""
    if isinstance(payload, Mapping):
        items = cast("Mapping[str, object]", payload)
        several = items.get("event_ids")
        ids = [
            items.get("event_id"),
            *(cast("list[object]", several) if isinstance(several, list | tuple) else ()),
        ]
        named = {value for value in ids if isinstance(value, str) and value}
        return named.union(*(event_ids_in(value) for value in items.values()))
    if isinstance(payload, list | tuple):
        return set[str]().union(*(event_ids_in(value) for value in cast("list[object]", payload)))
    return set()


def without_events(payload: object, event_ids: frozenset[str]) -> object:
    """Return the payload less the list entries that come from one of these events."""
    if isinstance(payload, Mapping):
        items = cast("Mapping[str, object]", payload)
        return {key: without_events(value, event_ids) for key, value in items.items()}
    if isinstance(payload, list | tuple):
        stay: list[object] = [
            entry
            for entry in cast("list[object]", payload)
            if not (
                isinstance(entry, Mapping)
                and cast("Mapping[str, object]", entry).get("event_id") in event_ids
            )
        ]
        return [without_events(entry, event_ids) for entry in stay]
    return payload
