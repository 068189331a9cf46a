"""Check facts, and compute how a memory changes by add, edit, pin and undo, without a store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar, cast, get_type_hints

from pydantic import ValidationError

from ..checks import DEEPEST, checked_key, checked_text, faults, fields_adapter, json_text
from ..errors import Conflict, InvalidInput, NotFound
from ..records import Change, Fact, Memory, Message, Revision, new_id
from ..redaction import Redactor, masked_id
from ..redaction import redact as mask_secrets
from ..retention.lifecycle import revised
from ..stores.codec import expiry, renewed

# strict: no value is converted, such as a number to a time
_FACT = fields_adapter(get_type_hints(Fact, include_extras=True), strict=True)
Read = TypeVar("Read")


def checked_session_id(session_id: str) -> str:
    """Return a session's id with secrets masked.

    Raises:
        InvalidInput: the id is not a text, or too long.
    """
    return masked_id(checked_key(session_id, "The session id"))


def checked_fact(item: Fact | str, *, max_bytes: int, redact: Redactor) -> Fact:
    """Return a fact with all fields checked and secrets masked.

    Raises:
        InvalidInput: a field does not fit; the message names it and its limit.
    """
    fact = item if isinstance(item, Fact) else Fact(text=item)
    fact = Fact(**fitting(_FACT.validate_python, fact, "The fact's"))
    for event_id in fact.event_ids:
        checked_key(event_id, "An event id")

    def masked(name: str) -> str | None:
        text = getattr(fact, name)
        return text and redact(text)

    return replace(
        fact,
        text=redact(_checked_content(fact.text, max_bytes)),
        session_id=None if fact.session_id is None else checked_session_id(fact.session_id),
        topics=_checked_labels(fact.topics, "A topic", redact),
        tags=_checked_labels(fact.tags, "A tag", redact),
        author=fact.author and mask_secrets(fact.author),
        category=checked_key(masked("category") or "", "The category") or None,
        subject=masked("subject"),
        attribute=masked("attribute"),
        metadata=_checked_metadata(fact.metadata, max_bytes, redact),
    )


def _checked_content(text: str, max_bytes: int) -> str:
    if not text.strip():
        raise InvalidInput("The content is empty; say what to remember.")
    return _checked_size(text, "The content", max_bytes)


def _checked_size(text: str, what: str, max_bytes: int) -> str:
    if (size := len(text.encode())) > max_bytes:
        raise InvalidInput(
            f"{what} has {size:,} bytes; at most {max_bytes:,} (max_content_bytes) are stored."
        )
    return text


def fitting(read: Callable[[Mapping[str, Any]], Read], value: Fact | Message, what: str) -> Read:
    """Return the result of `read` for the fields of a record, with lists as tuples.

    Raises:
        InvalidInput: a field does not fit; the message names the first one.
    """
    given = ((field.name, getattr(value, field.name)) for field in fields_of(value))
    try:
        return read({name: (*item,) if isinstance(item, list) else item for name, item in given})
    except ValidationError as error:
        where, reason = faults(error)[0]
        raise InvalidInput(f"{what} {where} does not fit: {reason}.") from error


def edited(
    memory: Memory, changes: Mapping[str, Any], *, now: datetime, max_bytes: int, redact: Redactor
) -> Memory:
    """Return the next revision of a memory after an edit; a new TTL counts from now.

    An expired memory that is unpinned gets its whole TTL again.

    Args:
        memory: the current memory.
        changes: the arguments of `Memories.edit` and `pin` that are set.
        now: the time of the edit (aware UTC).
        max_bytes: the longest content and metadata, each in bytes of UTF-8.
        redact: masks secrets.

    Raises:
        InvalidInput: a new value does not fit.
    """
    # unchanged fields were checked when they were added, perhaps with other bounds
    fields = {name: value for name, value in changes.items() if name != "content"}
    fact = Fact(text=changes.get("content", "stays"), **fields)
    whole = checked_fact(fact, max_bytes=max_bytes, redact=redact)
    values = {name: getattr(whole, name) for name in fields}
    if "content" in changes:
        values |= {"content": whole.text, "explicit": True, "said_at": now}
    has_ended = memory.expires_at is not None and memory.expires_at <= now
    is_unpinned = memory.pinned and changes.get("pinned") is False
    if "ttl_days" in changes or (has_ended and is_unpinned):
        values["expires_at"] = expiry(values.get("ttl_days", memory.ttl_days), now)
    return revised(memory, now=now, **values)


def superseding(old: Memory, new: Memory, *, now: datetime, who: str) -> list[Change]:
    """Return the changes that let a new memory supersede an old one, which becomes history.

    The new memory takes over the slot and category of the old one unless it has its own, so that
    later facts are compared with it.
    """
    group, why = new_id(now), "replaced by its author"
    if not (new.subject and new.attribute):
        new = replace(new, subject=old.subject, attribute=old.attribute)
    added = replace(new, category=new.category or old.category, valid_from=now)
    former = revised(old, now=now, state="superseded", superseded_by=new.id, valid_to=now)
    return [
        Change(kind="add", memory=added, who=who, why=why, group=group, explicit=True),
        Change(kind="supersede", memory=former, who=who, why=why, group=group),
    ]


def taken_back(
    revisions: Sequence[Revision],
    current: Mapping[str, Memory],
    standing: Sequence[Revision | None],
    *,
    now: datetime,
    who: str,
) -> list[Change]:
    """Return the changes that undo one decision: restore what it changed, retire what it added.

    An expired memory is restored with a new term: its TTL, or its hours if it is short-term.

    Args:
        revisions: the revisions of one decision.
        current: the changed memories as they are now, by id, without expired ones.
        standing: the `last_change` of each of these memories.
        now: the time of the undo (aware UTC).
        who: the author in the history.

    Raises:
        NotFound: the changed memories were deleted meanwhile.
        Conflict: a memory was changed again since, has expired or was deleted.
    """
    if any(revision.final for revision in revisions):
        raise Conflict(
            "Another memory that this change touched has expired or was erased; it cannot be "
            "undone."
        )
    group = new_id(now)
    if any(revision.kind == "link" for revision in revisions):
        apart = {revision.memory_id for revision in revisions}
        rows = [
            ("link", revised(row, now=now, links=tuple(id for id in row.links if id not in apart)))
            for row in current.values()
        ]
    else:
        rows = [
            (revision.kind, _restored(revision, current, last, now))
            for revision, last in zip(revisions, standing, strict=True)
        ]
    if not rows:
        raise NotFound("This memory was erased meanwhile; there is nothing to undo.")
    return [
        Change(kind="undo", memory=row, who=who, why=f"undo {kind}", group=group)
        for kind, row in rows
    ]


def _restored(
    revision: Revision, current: Mapping[str, Memory], last: Revision | None, now: datetime
) -> Memory:
    row = current.get(revision.memory_id)
    if row is None or last is None or last.revision != revision.revision:
        raise Conflict(
            f"The memory {revision.memory_id} was changed again since, has expired or is gone; "
            "undo the later change first, if there is one."
        )
    if revision.before is None:
        return revised(row, now=now, state="superseded", valid_to=now)
    before = replace(revision.before, revision=row.revision + 1)
    if before.expires_at is not None and before.expires_at <= now and not before.pinned:
        # a short-term memory restarts its hours; its TTL counts only once it is promoted
        if before.state == "short_term":
            return replace(before, expires_at=now + (before.expires_at - before.created_at))
        return renewed(before, now)
    return before


def _checked_labels(labels: Sequence[str], what: str, redact: Redactor) -> tuple[str, ...]:
    return tuple(dict.fromkeys(checked_key(redact(label), what) for label in labels))


def _checked_metadata(
    metadata: Mapping[str, Any], max_bytes: int, redact: Redactor
) -> dict[str, Any]:
    if not metadata:
        return {}
    what = "The metadata"
    encoded = _checked_size(json_text(dict(metadata), what), what, max_bytes)
    try:
        return _masked(json.loads(encoded), redact)
    except RecursionError as error:
        raise InvalidInput(
            f"The metadata is nested too deep; a value may have at most {DEEPEST} levels."
        ) from error


def _masked(value: Any, redact: Redactor, name: str = "", levels: int = DEEPEST) -> Any:
    """Mask every text in a JSON value, including secrets that only their key gives away.

    Raises:
        RecursionError: it holds lists and mappings of more levels.
    """
    if isinstance(value, str):
        text = redact(checked_text(value, "The metadata"))
        named = redact(f'{name}="{text}"')
        value = named.removeprefix(f'{name}="')
        return value.removesuffix('"') if name and value != named else text
    if not isinstance(value, list | dict):
        return value
    if levels < 0:
        raise RecursionError
    if isinstance(value, list):
        return [_masked(item, redact, name, levels - 1) for item in cast("list[Any]", value)]
    keyed = cast("dict[str, Any]", value)
    names = {key: redact(checked_text(key, "A metadata key")) for key in keyed}
    return {
        names[key]: _masked(item, redact, names[key], levels - 1) for key, item in keyed.items()
    }
