"""What may be stored, and how a stored memory changes by hand: pure decisions behind add, edit, pin
and undo.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, cast

from ..checks import DEEPEST, checked_text, checked_time, json_text, too_deep
from ..errors import Conflict, InvalidInput, NotFound
from ..records import MEMORY_TYPES, ORIGINS, Change, Fact, Memory, MemoryType, Revision, new_id
from ..redaction import masked_id
from ..redaction import redact as mask_secrets
from ..redaction.personal_data import PersonalDataRefused
from ..retention.lifecycle import expiry, revised
from ..stores.base import checked_key

Redactor = Callable[[str], str]
TOO_DEEP = f"The metadata is nested too deep; a value may have at most {DEEPEST} levels."


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Fields that `Memories.edit` sets; None leaves a field as it is."""

    content: str | None = None
    type: MemoryType | None = None
    topics: Sequence[str] | None = None
    tags: Sequence[str] | None = None
    importance: float | None = None
    metadata: Mapping[str, Any] | None = None
    category: str | None = None
    ttl_days: int | None = None
    happened_at: datetime | None = None
    pinned: bool | None = None


def checked_session_id(session_id: str) -> str:
    """Return `session_id` itself.

    Raises:
        InvalidInput: it is not text, or too long.
    """
    return checked_key(checked_text(session_id, "The session id"), "The session id")


def checked_fact(item: Fact | str, *, max_bytes: int, redact: Redactor) -> Fact:
    """Return the fact as it may be stored: whole, within bounds, secrets masked.

    Raises:
        InvalidInput: says which part does not fit, and the bound.
    """
    if isinstance(item, str):
        return Fact(text=redact(_checked_content(item, max_bytes)))
    fact = item if isinstance(item, Fact) else Fact(text=item)  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
    if fact.type not in MEMORY_TYPES or fact.origin not in ORIGINS:
        raise InvalidInput(
            f"The type must be one of {', '.join(MEMORY_TYPES)}; the origin of "
            f"{', '.join(ORIGINS)}."
        )
    _check_kinds(fact)
    session_id = fact.session_id
    if session_id is not None:
        session_id = masked_id(checked_session_id(session_id))
    for event_id in fact.event_ids:
        checked_key(checked_text(event_id, "An event id"), "An event id")
    text = _checked_content(fact.text, max_bytes)
    importance = fact.importance
    if (
        isinstance(importance, bool)
        or not isinstance(importance, int | float)  # pyright: ignore[reportUnnecessaryIsInstance]
        or not 0 <= importance <= 1
    ):
        raise InvalidInput("The importance must be a number between 0 and 1.")
    return replace(
        fact,
        text=redact(text),
        session_id=session_id,
        importance=float(importance),
        topics=_checked_labels(fact.topics, "A topic", redact),
        tags=_checked_labels(fact.tags, "A tag", redact),
        author=fact.author and mask_secrets(checked_text(fact.author, "The author")),
        category=next(
            iter(
                _checked_labels((fact.category,) if fact.category else (), "The category", redact)
            ),
            None,
        ),
        subject=fact.subject and redact(checked_text(fact.subject, "The subject")),
        attribute=fact.attribute and redact(checked_text(fact.attribute, "The attribute")),
        metadata=_checked_metadata(fact.metadata, max_bytes, redact),
        happened_at=checked_time(fact.happened_at, "happened_at"),
        said_at=checked_time(fact.said_at, "said_at"),
    )


def _checked_content(text: str, max_bytes: int) -> str:
    if not checked_text(text, "The content").strip():
        raise InvalidInput("The content is empty; say what to remember.")
    if (size := len(text.encode())) > max_bytes:
        raise InvalidInput(
            f"The content has {size:,} bytes; at most {max_bytes:,} (max_content_bytes) are stored."
        )
    return text


def _check_kinds(fact: Fact) -> None:
    for name in ("pinned", "verbatim", "is_error"):
        if not isinstance(getattr(fact, name), bool):
            raise InvalidInput(f"{name} must be True or False.")
    ttl_days = fact.ttl_days
    if ttl_days is not None and (
        isinstance(ttl_days, bool) or not isinstance(ttl_days, int) or not 0 <= ttl_days <= 36_500  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
    ):
        raise InvalidInput("ttl_days must be a whole number between 0 (for ever) and 36,500.")
    for name in ("event_ids", "topics", "tags"):
        labels = getattr(fact, name)
        if isinstance(labels, str) or not isinstance(labels, Iterable):
            raise InvalidInput(
                f"{name} must be a list of strings, not a single {type(labels).__name__}."
            )


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
    memory: Memory, edit: Edit, *, now: datetime, max_bytes: int, redact: Redactor
) -> Memory:
    """Return the memory after an edit: one revision further; a new TTL counts from now.

    A memory that is no longer pinned and would have expired by now gets its whole TTL again.

    Raises:
        InvalidInput: a new value does not fit.
    """
    given = {field.name: getattr(edit, field.name) for field in fields(edit)}
    given = {name: value for name, value in given.items() if value is not None}
    # what stays was checked when it came, perhaps through an interface with other bounds
    text = {"text": given.pop("content", "stays")}
    whole = checked_fact(Fact(**text, **given), max_bytes=max_bytes, redact=redact)
    values = {name: getattr(whole, name) for name in given}
    if edit.content is not None:
        values |= {"content": whole.text, "explicit": True, "said_at": now}
    ended = (
        memory.pinned
        and edit.pinned is False
        and memory.expires_at is not None
        and memory.expires_at <= now
    )
    if edit.ttl_days is not None or ended:
        values["expires_at"] = expiry(now, values.get("ttl_days", memory.ttl_days or 0))
    return revised(memory, now=now, **values)


def retired(
    memory: Memory,
    by: str,
    *,
    now: datetime,
    valid_from: datetime | None = None,
    valid_to: datetime,
) -> Memory:
    """Return a memory as history: superseded by the one of this id, and valid until then."""
    return revised(
        memory,
        now=now,
        state="superseded",
        superseded_by=by,
        valid_from=valid_from or memory.valid_from,
        valid_to=valid_to,
    )


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
    former = retired(old, new.id, now=now, valid_to=now)
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
    *,
    now: datetime,
    who: str,
    undone: Mapping[str, int] = {},
) -> list[Change]:
    """Return the changes that undo one decision: what it changed is restored, what it added
    retires.

    A restored memory that would be expired lives on by its own TTL, a short-term one its hours
    anew. Of what a merge or summary was made of, those come back that did not expire.

    Args:
        revisions: of one decision.
        current: the memories that it changed, as they are; those that have expired are left out.
        now: when it is undone.
        who: for the history.
        undone: how many revisions of a memory came after the decision and cancel out: changes and
            their undos.

    Raises:
        NotFound: there is nothing to undo.
        Conflict: a memory was changed again since, or has expired; of what a merge was made of, all
            have.
    """
    if not revisions:
        raise NotFound("This memory has not changed since it was added; there is nothing to undo.")
    is_made_of_others = {"add", "merge"} == {revision.kind for revision in revisions}
    back = [
        one
        for one in revisions
        if one.kind != "merge" or one.memory_id in current or not is_made_of_others
    ]
    told = ""
    if is_made_of_others and (
        len(back) < len(revisions) or any(revision.final for revision in revisions)
    ):
        if len(back) == 1:
            raise Conflict(
                "All that this memory was made of has expired; an undo would bring nothing back."
            )
        told = f": {len(back) - 1} of those it was made of came back, the others have expired"
    elif any(revision.final for revision in revisions):
        raise Conflict(
            "Another memory that this change touched has expired or was erased; it cannot be "
            "undone."
        )
    group = new_id(now)
    if any(revision.kind == "link" for revision in revisions):
        return _separated(revisions, current, now=now, who=who, group=group)
    return [
        Change(
            kind="undo",
            memory=_restored(
                revision, current.get(revision.memory_id), undone.get(revision.memory_id, 0), now
            ),
            who=who,
            why=f"undo {revision.kind}{told}",
            group=group,
        )
        for revision in back
    ]


def _separated(
    revisions: Sequence[Revision],
    current: Mapping[str, Memory],
    *,
    now: datetime,
    who: str,
    group: str,
) -> list[Change]:
    """Return the changes that undo a link: all memories stay, and none is linked with the
    others.
    """
    apart = {revision.memory_id for revision in revisions}
    return [
        Change(
            kind="undo",
            memory=revised(
                row, now=now, links=tuple(link for link in row.links if link not in apart)
            ),
            who=who,
            why="undo link",
            group=group,
        )
        for row in current.values()
    ]


def _restored(revision: Revision, row: Memory | None, undone: int, now: datetime) -> Memory:
    if row is None or row.revision != revision.revision + 1 + undone:
        raise Conflict(
            f"The memory {revision.memory_id} was changed again since, has expired or is gone; "
            "undo the later change "
            "first, if there is one."
        )
    if revision.before is None:
        return revised(row, now=now, state="superseded", valid_to=now)
    before = replace(revision.before, revision=row.revision + 1)
    if before.expires_at is not None and before.expires_at <= now and not before.pinned:
        # its TTL is the one that it has once it is promoted; its hours begin anew
        if before.state == "short_term":
            return replace(before, expires_at=now + (before.expires_at - before.created_at))
        return replace(before, expires_at=expiry(now, before.ttl_days or 0))
    return before


def _checked_labels(labels: Sequence[str], what: str, redact: Redactor) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(checked_key(redact(checked_text(label, what)), what) for label in labels)
    )


def _checked_metadata(
    metadata: Mapping[str, Any], max_bytes: int, redact: Redactor
) -> dict[str, Any]:
    if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in metadata):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
        raise InvalidInput("The metadata must be a mapping with text keys.")
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
