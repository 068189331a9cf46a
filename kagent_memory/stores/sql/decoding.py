"""Rows of the named queries as the records they stand for, and filters and jobs as the values statements take."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, cast

from ...records import Filter, Memory, Revision, Scope, Usage, checked_text
from ..base import Job, RankFeatures
from . import codec as rows
from .session import Row

_MEMORY = tuple(field.name for field in fields(Memory) if field.name != "usage")
_USAGE = tuple(field.name for field in fields(Usage))
_JOB = tuple(field.name for field in fields(Job) if field.name != "scope")
_PLACE = tuple(field.name for field in fields(RankFeatures))
_LISTS = ("types", "topics", "tags", "origins")
_MOST = 1_000_000_000
_ID_CHARS = 36
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def to_memory(row: Row) -> Memory:
    """The memory of a row of `remembered`."""
    return Memory(**{name: row[name] for name in _MEMORY}, usage=Usage(**{name: row[name] for name in _USAGE}))


def to_job(row: Row) -> Job:
    """The job of a row of `ingest_job` joined with its scope's texts."""
    scope = Scope(row["tenant"], row["user_id"], row["app"])
    return Job(scope=scope, **{name: row[name] for name in _JOB})


def to_place(row: Row) -> RankFeatures:
    """The place of a row of `places`."""
    return RankFeatures(**{name: row[name] for name in _PLACE})


def to_revision(row: Row) -> Revision:
    """The revision of a row of `memory_revision`."""
    return Revision(
        memory_id=row["memory_id"],
        revision=row["revision"],
        kind=row["kind"],
        before=rows.from_snapshot(row["before"]) if row["before"] else None,
        at=row["at"],
        who=row["who"],
        why=row["why"],
        event_ids=row["event_ids"],
        group=row["change_group"],
        final=row["final"],
    )


def job_values(job: Job) -> dict[str, Any]:
    """A job as the values of `insert_job`."""
    return {"scope_id": job.scope.id, **{name: getattr(job, name) for name in _JOB}}


def filter_values(scope: Scope, filter: Filter, now: datetime) -> dict[str, Any]:
    """What every statement with a filter takes: the scope, the time, and each condition or None.

    `filtered` says whether any condition but `superseded` is set.
    """
    values: dict[str, Any] = {field.name: getattr(filter, field.name) for field in fields(Filter)}
    for name in (*_LISTS, "metadata"):
        values[name] = values[name] or None
    filtered = any(value is not None for name, value in values.items() if name != "superseded")
    return {**values, "filtered": filtered, "scope_id": scope.id, "now": now}


def named(**parts: str | None) -> dict[str, str | None]:
    """The parts of scopes that a statement is narrowed to, by their names; None: not by this one.

    Raises:
        InvalidInput: one of them can be no part of a scope.
    """
    return {name: None if part is None else checked_text(part, f"The {name}") for name, part in parts.items()}


def known(ids: Iterable[str]) -> list[str]:
    """The distinct ones that can be ids at all, in their order; anything else is simply not there."""
    return [id for id in dict.fromkeys(ids) if is_id(id)]


def id_text(digits: str) -> str:
    """The canonical spelling of an id's 32 hexadecimal digits."""
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def ids_in(text: str) -> list[str]:
    """Ids that a statement gave one after the other: far quicker to take in than a row each."""
    return [text[start : start + _ID_CHARS] for start in range(0, len(text), _ID_CHARS)]


def is_id(value: object) -> bool:
    """Whether it is a UUID in its canonical spelling, the only one that we make."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def bounded(limit: int) -> int:
    """A limit that every database takes: never negative, never beyond a billion."""
    return max(0, min(limit, _MOST))


def event_ids_in(payload: object) -> set[str]:
    """The source events that a queued payload names, at any depth, as `event_id` or `event_ids`."""
    if isinstance(payload, Mapping):
        items = cast("Mapping[str, object]", payload)
        named = {value for value in [items.get("event_id"), *_several(items)] if isinstance(value, str) and value}
        return named.union(*(event_ids_in(value) for value in items.values()))
    if isinstance(payload, list | tuple):
        return set[str]().union(*(event_ids_in(value) for value in cast("list[object]", payload)))
    return set()


def _several(items: Mapping[str, object]) -> Iterable[object]:
    several = items.get("event_ids")
    return cast("list[object]", several) if isinstance(several, list | tuple) else ()


def without_events(payload: object, event_ids: frozenset[str]) -> object:
    """The payload less the list entries that come from one of these events, and less all texts that were `recalled`:
    earlier versions queued those as they were.
    """
    if isinstance(payload, Mapping):
        items = cast("Mapping[str, object]", payload)
        kept = {key: without_events(value, event_ids) for key, value in items.items()}
        return kept | ({"recalled": list[object]()} if "recalled" in kept else {})
    if isinstance(payload, list | tuple):
        entries = cast("list[object]", payload)
        return [without_events(entry, event_ids) for entry in entries if not _comes_from(entry, event_ids)]
    return payload


def _comes_from(entry: object, event_ids: frozenset[str]) -> bool:
    return isinstance(entry, Mapping) and cast("Mapping[str, object]", entry).get("event_id") in event_ids
