"""Read and write the transcripts of queued jobs: checked, masked, as JSON."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter

from ..checks import checked_key, valid_text
from ..errors import InvalidInput
from ..records import Fact, Message
from ..redaction import Redactor
from ..redaction import redact as mask_secrets
from ..redaction.personal_data import PersonalDataDropped, PersonalDataRefused
from ..stores.codec import event_ids_in, messages_in
from .echoes import Statements, mask_recalled
from .editing import checked_fact, fitting

logger = logging.getLogger(__name__)

FACT_FIELDS = frozenset(
    {"ttl_days", "type", "topics", "tags", "importance", "origin", "pinned", "metadata", "category"}
)
_MESSAGE, _MESSAGES = TypeAdapter(Message), TypeAdapter(list[Message])


def prepared(
    messages: Sequence[Message], session_id: str, redact: Redactor, max_bytes: int
) -> list[Message]:
    """Return the messages ready to be queued: checked, masked, without echoes of recalled texts,
    each with an event id.

    Messages are left out if their personal data may not be kept. A message without an event id gets
    one derived from its text and the number of its repeats in this call, so that the same
    transcript gets the same ids again.

    Raises:
        InvalidInput: an id, time, role or field does not fit.
    """
    repeats = Counter[str]()

    def checked(message: Message) -> Message:
        message = fitting(_MESSAGE.validate_python, message, "A message's")
        event_id = message.event_id
        if not event_id:
            said_at = message.at.isoformat() if message.at else ""
            identity = "\0".join((session_id, message.role, message.author, said_at, message.text))
            digest = hashlib.blake2b(identity.encode(errors="replace"), digest_size=12).hexdigest()
            repeats[digest] += 1
            event_id = f"{digest}-{repeats[digest]}"
        recalled: list[str] = []
        for text in message.recalled:
            # stored before such data was refused: no message may repeat it
            with suppress(PersonalDataRefused):
                recalled.append(redact(valid_text(text)))
        return replace(
            message,
            text=redact(valid_text(message.text)),
            author=mask_secrets(valid_text(message.author)),
            event_id=checked_key(event_id, "An event id"),
            recalled=tuple(recalled),
            fields=message.fields and _checked_fields(message.fields, redact, max_bytes),
        )

    ready: list[Message] = []
    for message in messages:
        try:
            ready.append(checked(message))
        except PersonalDataDropped:
            continue
        except PersonalDataRefused as error:
            logger.warning("A message of session %s is not saved. %s", session_id, error)
    return (
        mask_recalled(ready, Statements()) if any(message.recalled for message in ready) else ready
    )


def _checked_fields(
    fields: Mapping[str, Any], redact: Redactor, max_bytes: int
) -> Mapping[str, Any]:
    """Return the fields for the facts of a message, checked and masked, as JSON values.

    Raises:
        InvalidInput: a field is unknown, or its value does not fit.
    """
    if unknown := sorted(set(fields) - FACT_FIELDS):
        raise InvalidInput(
            f"A message's fields may be {', '.join(sorted(FACT_FIELDS))}; not {', '.join(unknown)}."
        )
    fact = checked_fact(Fact(text="-", **fields), max_bytes=max_bytes, redact=redact)
    return {name: getattr(fact, name) for name in fields}


def to_payload(messages: Sequence[Message], *, ended: bool = False) -> dict[str, Any]:
    """Return the JSON of a job; `forget` reads its `messages[].event_id`.

    Recalled texts are left out: a forgotten memory must not be written again.
    """
    written = _MESSAGES.dump_python([*messages], mode="json", exclude={"__all__": {"recalled"}})
    return {"ended": ended, "messages": written}


def from_payload(payload: Mapping[str, Any]) -> list[Message]:
    """Return the messages of a payload made by `to_payload`."""
    return _MESSAGES.validate_python(messages_in(payload))


def batch_key(payload: Mapping[str, Any], session_id: str) -> str:
    """Return the key by which the same events of a session, queued twice, become one job."""
    names = json.dumps((session_id, payload["ended"], sorted(event_ids_in(payload))))
    return hashlib.blake2b(names.encode(), digest_size=16).hexdigest()
