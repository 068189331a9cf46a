"""A transcript as it waits in the queue: JSON of messages that are already free of secrets."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..errors import InvalidInput
from ..language.tokenizer import normalised
from ..records import Message, Scope, checked_text, checked_time, valid_text
from ..redaction import Redactor
from ..redaction import redact as mask_secrets
from ..redaction.personal_data import PersonalDataRefused
from ..stores.base import checked_key

logger = logging.getLogger(__name__)

ROLES = ("user", "agent", "tool")
LATEST_SECONDS = 253_402_300_799  # the end of the year 9999
LONGEST_MINUTES = 5_256_000  # ten years


def prepared(messages: Sequence[Message], session_id: str, redact: Redactor) -> list[Message]:
    """The messages as they may be queued: checked, masked, each with an event id; without those whose personal data is
    not kept.

    A message without an event id gets one made of what it says and how often it was said before in this call, so that
    the same transcript gives the same ids when it comes again.

    Raises:
        InvalidInput: ids that are too long or not valid, times or a role that cannot be.
    """
    checked_key(checked_text(session_id, "The session id"), "The session id")
    seen: Counter[str] = Counter()
    ready: list[Message] = []
    for message in messages:
        try:
            ready.append(_prepared(message, session_id, redact, seen))
        except PersonalDataRefused as error:
            if not error.dropped:
                logger.warning("A message of session %s is not saved. %s", session_id, error)
    return ready


def _check_kinds(message: Message) -> None:
    if message.role not in ROLES:
        raise InvalidInput(f"A message's role must be one of {', '.join(ROLES)}.")
    for name in ("text", "author", "event_id"):
        if not isinstance(value := getattr(message, name), str):
            raise InvalidInput(f"A message's {name} must be text, not {type(value).__name__}.")
    if not isinstance(message.recalled, list | tuple) or not all(isinstance(text, str) for text in message.recalled):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
        raise InvalidInput("A message's recalled must be a list of texts.")


def _prepared(message: Message, session_id: str, redact: Redactor, seen: Counter[str]) -> Message:
    _check_kinds(message)
    message = replace(message, at=checked_time(message.at, "A message's time"))
    event_id = message.event_id
    if not event_id:
        at = message.at.isoformat() if message.at else ""
        said = "\0".join((session_id, message.role, message.author, at, message.text))
        digest = hashlib.blake2b(said.encode(errors="replace"), digest_size=12).hexdigest()
        seen[digest] += 1
        event_id = f"{digest}-{seen[digest]}"
    message = replace(
        message,
        text=redact(valid_text(message.text)),
        author=mask_secrets(valid_text(message.author)),
        event_id=checked_key(checked_text(event_id, "An event id"), "An event id"),
    )
    recalled: list[str] = []
    for text in message.recalled:
        with suppress(PersonalDataRefused):  # it was remembered before that was refused; no message may say it again
            recalled.append(redact(valid_text(text)))
    compaction = message.compaction
    if compaction is not None:
        try:
            start, end = (float(second) for second in compaction)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput("A compaction's range must be two numbers: start and end in epoch seconds.") from error
        if not (0 <= start <= LATEST_SECONDS and 0 <= end <= LATEST_SECONDS):  # NaN is neither
            raise InvalidInput(f"A compaction's range must lie between 0 and {LATEST_SECONDS:,} epoch seconds.")
        compaction = start, end
    return replace(message, recalled=tuple(recalled), compaction=compaction)


def checked_minutes(minutes: float | None) -> float | None:
    """How long a session's timer runs, itself.

    Raises:
        InvalidInput: not a number between 0 and `LONGEST_MINUTES`.
    """
    if minutes is not None and not (isinstance(minutes, int | float) and 0 <= minutes <= LONGEST_MINUTES):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
        raise InvalidInput(f"end_after_minutes must be a number between 0 and {LONGEST_MINUTES:,}.")
    return minutes


def to_payload(scope: Scope, messages: Sequence[Message], *, ended: bool = False) -> dict[str, Any]:
    """The JSON that a job carries; `messages[].event_id` is what `forget` and coalescing look at.

    Of what memory handed over only hashes are kept (see `handed_key`): once forgotten, it must not be written anew.
    """
    values: list[dict[str, Any]] = []
    for message in messages:
        texts = (*message.recalled, *(line for text in message.recalled for line in text.splitlines()))
        values.append(
            {
                "text": message.text,
                "role": message.role,
                "author": message.author,
                "event_id": message.event_id,
                "at": message.at.isoformat() if message.at else None,
                "handed": sorted({handed_key(scope, text) for text in texts if text.strip()}),
                "compaction": message.compaction,
            }
        )
    return {"ended": ended, "messages": values}


def from_payload(payload: Mapping[str, Any]) -> list[Message]:
    """The messages that `to_payload` wrote, without what was recalled."""
    return [
        Message(
            text=values["text"],
            role=values["role"],
            author=values["author"],
            event_id=values["event_id"],
            at=datetime.fromisoformat(values["at"]) if values["at"] else None,
            compaction=tuple(values["compaction"]) if values["compaction"] else None,
        )
        for values in payload.get("messages", ())
    ]


def handed_in(payload: Mapping[str, Any]) -> frozenset[str]:
    """The `handed_key` of every text and line that memory handed over in these messages."""
    return frozenset(key for values in payload.get("messages", ()) for key in values.get("handed", ()))


def handed_key(scope: Scope, text: str) -> str:
    """What stands in a payload for a text that memory handed over: a hash of its words that no other scope has."""
    return hashlib.blake2b(normalised(text).encode(), key=scope.id, digest_size=12).hexdigest()


def batch_key(messages: Sequence[Message], session_id: str, *, ended: bool) -> str:
    """The same set of events of a session queued twice is one job; event ids are a session's own."""
    names = (session_id, "ended" if ended else "", *sorted({message.event_id for message in messages}))
    digest = hashlib.blake2b(digest_size=16)
    for name in names:
        digest.update(hashlib.blake2b(name.encode(), digest_size=16).digest())
    return digest.hexdigest()
