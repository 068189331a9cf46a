"""Pure decisions behind add, edit, pin and undo: the bounds of a fact, and how a stored memory
changes by hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar, cast, get_type_hints

from pydantic import ValidationError

from ..checks import DEEPEST, checked_key, checked_text, faults, fields_adapter, json_text, too_deep
from ..errors import Conflict, InvalidInput, NotFound
from ..records import Change, Fact, Memory, Message, Revision, new_id
from ..redaction import masked_id
from ..redaction import redact as mask_secrets
from ..redaction.personal_data import PersonalDataRefused
from ..retention.lifecycle import revised
from ..stores.codec import expiry, renewed

# strict: nothing is taken for another type, such as a number for a time
_FACT = fields_adapter("Fact", get_type_hints(Fact, include_extras=True), strict=True)
Redactor = Callable[[str], str]
Read = TypeVar("Read")
TOO_DEEP = f"The metadata is nested too deep; a value may have at most {DEEPEST} levels."


def checked_session_id(session_id: str) -> str:
    """Return a session's id, masked.

    Raises:
        InvalidInput: it is not text, or too long.
    """
    return masked_id(checked_key(session_id, "The session id"))


def checked_fact(item: Fact | str, *, max_bytes: int, redact: Redactor) -> Fact:
    """Return the fact as it may be stored: whole, within bounds, secrets masked.

    Raises:
        InvalidInput: says which part does not fit, and the bound.
    """
    given = item if isinstance(item, Fact) else Fact(text=item)
    fact = replace(given, **fitting(_FACT.validate_python, given, "The fact's"))
    for event_id in fact.event_ids:
        checked_key(event_id, "An event id")

    def masked(name: str) -> str | None:
        text = getattr(fact, name)
        return text and redact(checked_text(text, f"The {name}"))

    return replace(
        fact,
        text=redact(_checked_content(fact.text, max_bytes)),
        session_id=None if fact.session_id is None else checked_session_id(fact.session_id),
        topics=_checked_labels(fact.topics, "A topic", redact),
        tags=_checked_labels(fact.tags, "A tag", redact),
        author=fact.author and mask_secrets(checked_text(fact.author, "The author")),
        category=checked_key(masked("category") or "", "The category") or None,
        subject=masked("subject"),
        attribute=masked("attribute"),
        metadata=_checked_metadata(fact.metadata, max_bytes, redact),
    )


def _checked_content(text: str, max_bytes: int) -> str:
    if not checked_text(text, "The content").strip():
        raise InvalidInput("The content is empty; say what to remember.")
    if (size := len(text.encode())) > max_bytes:
        raise InvalidInput(
            f"The content has {size:,} bytes; at most {max_bytes:,} (max_content_bytes) are stored."
        )
    return text


def fitting(read: Callable[[Mapping[str, Any]], Read], value: Fact | Message, what: str) -> Read:
    """Return a record as `read` makes it of its fields, in which any sequence is a tuple.

    Raises:
        InvalidInput: names the first field that does not fit.
    """
    values = {field.name: getattr(value, field.name) for field in fields_of(value)}
    for name, given in values.items():
        if isinstance(given, Sequence) and not isinstance(given, (str, bytes, bytearray)):
            values[name] = tuple(cast("Sequence[object]", given))
    try:
        return read(values)
    except ValidationError as error:
        where, reason = faults(error)[0]
        raise InvalidInput(f"{what} {where} does not fit: {reason}.") from error


def kept_fact(item: Fact | str, *, max_bytes: int, redact: Redactor) -> Fact | None:
    """Return `checked_fact`, or None if the fact is dropped because of personal data.

    Raises:
        InvalidInput: as `checked_fact`.
    """
    try:
        return checked_fact(item, max_bytes=max_bytes, redact=redact)
    except PersonalDataRefused as error:
        if error.dropped:
            return None
        raise


def edited(
    memory: Memory, given: Mapping[str, Any], *, now: datetime, max_bytes: int, redact: Redactor
) -> Memory:
    """Return the memory after an edit: one revision further; a new TTL counts from now.

    A memory that is no longer pinned and would have expired by now gets its whole TTL again.

    Args:
        memory: as it is.
        given: the arguments of `Memories.edit` and `pin` that set something.
        now: when it is edited.
        max_bytes: of the content, and of the metadata.
        redact: masks secrets.

    Raises:
        InvalidInput: a new value does not fit.
    """
    # what stays was checked when it came, perhaps through an interface with other bounds
    fields = {name: value for name, value in given.items() if name != "content"}
    fact = Fact(text=given.get("content", "stays"), **fields)
    whole = checked_fact(fact, max_bytes=max_bytes, redact=redact)
    values = {name: getattr(whole, name) for name in fields}
    if "content" in given:
        values |= {"content": whole.text, "explicit": True, "said_at": now}
    has_ended = memory.expires_at is not None and memory.expires_at <= now
    is_unpinned = memory.pinned and given.get("pinned") is False
    if "ttl_days" in given or (has_ended and is_unpinned):
        values["expires_at"] = expiry(values.get("ttl_days", memory.ttl_days), now)
    return revised(memory, now=now, **values)


def superseding(old: Memory, new: Memory, *, now: datetime, who: str, why: str) -> list[Change]:
    """Return the changes by which a new memory takes an old one's place, which becomes history.

    The new one fills the old one's slot and has its category where it names none of its own, so
    that it stands against what was said before.
    """
    group = new_id(now)
    if not (new.subject and new.attribute):
        new = replace(new, subject=old.subject, attribute=old.attribute)
    new = replace(new, category=new.category or old.category)
    added = replace(new, valid_from=now)
    former = revised(old, now=now, state="superseded", superseded_by=new.id, valid_to=now)
    return [
        Change(kind="add", memory=added, who=who, why=why, group=group, explicit=True),
        Change(kind="supersede", memory=former, who=who, why=why, group=group),
    ]


def last_change(history: Sequence[Revision]) -> Revision | None:
    """Return the last change of a memory that is not undone; None if nothing is left.

    An undo is itself in the history, and takes the change before it off: undoing twice goes two
    changes back.
    """
    standing: list[Revision] = []
    for revision in history:
        if revision.kind != "undo":
            standing.append(revision)
        elif standing:
            standing.pop()
    return standing[-1] if standing else None


def taken_back(
    revisions: Sequence[Revision],
    current: Mapping[str, Memory],
    standing: Sequence[Revision | None],
    *,
    now: datetime,
    who: str,
) -> list[Change]:
    """Return the changes that undo one decision: what it changed is restored, what it added
    retires.

    A restored memory that would be expired lives on by its own TTL, a short-term one its hours
    anew.

    Args:
        revisions: of one decision.
        current: the memories that it changed, as they are; those that have expired are left out.
        standing: the `last_change` of each of these memories.
        now: when it is undone.
        who: for the history.

    Raises:
        NotFound: what the decision changed was erased meanwhile.
        Conflict: a memory was changed again since, has expired or was erased.
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
        # its TTL is the one that it has once it is promoted; its hours begin anew
        if before.state == "short_term":
            return replace(before, expires_at=now + (before.expires_at - before.created_at))
        return renewed(before, now)
    return before


def _checked_labels(labels: Sequence[str], what: str, redact: Redactor) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(checked_key(redact(checked_text(label, what)), what) for label in labels)
    )


def _checked_metadata(
    metadata: Mapping[str, Any], max_bytes: int, redact: Redactor
) -> dict[str, Any]:
    if not metadata:
        return {}
    encoded = json_text(dict(metadata), "The metadata")
    try:
        plain: dict[str, Any] = json.loads(encoded)
    except RecursionError as error:
        raise InvalidInput(TOO_DEEP) from error
    if any(too_deep(value) for value in plain.values()):
        raise InvalidInput(TOO_DEEP)
    if (size := len(encoded.encode())) > max_bytes:
        raise InvalidInput(
            f"The metadata has {size:,} bytes; at most {max_bytes:,} (max_content_bytes) are "
            "stored."
        )
    return _masked(plain, redact)


def _masked(value: Any, redact: Redactor, name: str = "") -> Any:
    """Mask every text in a value, also secrets that only the name beside them gives away."""
    if isinstance(value, str):
        text = redact(checked_text(value, "The metadata"))
        beside = redact(f'{name}="{text}"')
        told = beside.removeprefix(f'{name}="')
        return told.removesuffix('"') if name and told != beside else text
    if isinstance(value, list):
        return [_masked(item, redact, name) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        keyed = cast("dict[str, Any]", value)
        names = {key: redact(checked_text(key, "A metadata key")) for key in keyed}
        return {names[key]: _masked(item, redact, names[key]) for key, item in keyed.items()}
    return value
