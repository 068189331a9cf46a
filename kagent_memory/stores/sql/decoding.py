"""Rows of the named queries as the records they stand for, and filters and jobs as the values
statements take.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Any

from ...checks import checked_text
from ...records import Filter, Memory, Revision, Scope, Usage
from .. import codec
from ..index import Entry
from ..values import Job, RankFeatures
from .session import Row

_MEMORY = tuple(field.name for field in fields(Memory) if field.name != "usage")
_USAGE = tuple(field.name for field in fields(Usage))
_TUPLES = ("topics", "tags", "event_ids", "links")
_JOB = tuple(field.name for field in fields(Job) if field.name != "scope")
# its terms tell that
_PLACE = tuple(field.name for field in fields(RankFeatures) if field.name != "names_a_time")
_SEALED = dict.fromkeys(
    ("sealed_topics", "sealed_tags", "sealed_metadata", "sealed_author", "sealed_category")
)
_ALONE = {
    "only": "superseded",
    "quarantined": "quarantined",
    "short_term": "short_term",
    "source": "source",
}
_LISTS = ("types", "topics", "tags", "origins")


def to_memory(row: Row) -> Memory:
    """The memory of a row of `remembered`."""
    values = {name: row[name] for name in _MEMORY}
    values.update({name: tuple(row[name] or ()) for name in _TUPLES})
    return Memory(**values, usage=Usage(**{name: row[name] for name in _USAGE}))


def to_scope(row: Row) -> Scope:
    """The scope of a row with its texts."""
    return Scope(row["tenant"], row["user_id"], row["app"])


def to_job(row: Row) -> Job:
    """The job of a row of `ingest_job` joined with its scope's texts."""
    return Job(scope=to_scope(row), **{name: row[name] for name in _JOB})


def to_entry(row: Row) -> Entry:
    """Return what the index holds of a row of `indexed`."""
    place = RankFeatures(**{name: row[name] for name in _PLACE})
    return Entry(
        place,
        bool(row["active"]),
        None if row["pinned"] else row["expires_at"],
        bytes(row["postings"]),
    )


def to_revision(row: Row) -> Revision:
    """The revision of a row of `memory_revision`."""
    return Revision(
        memory_id=row["memory_id"],
        revision=row["revision"],
        kind=row["kind"],
        before=codec.from_snapshot(row["before"]) if row["before"] else None,
        at=row["at"],
        who=row["who"],
        why=row["why"],
        event_ids=row["event_ids"],
        group=row["change_group"],
        final=row["final"],
    )


def job_values(job: Job) -> dict[str, Any]:
    """A job as the values of `insert_job`."""
    return {"scope_id": job.scope.id, "sealed": None, **{name: getattr(job, name) for name in _JOB}}


def filter_values(
    scope: Scope, filter: Filter, now: datetime, *, sources: bool = False
) -> dict[str, Any]:
    """What every statement with a filter takes: the scope, the time, and each condition or None.

    `filtered` says whether any condition is set; to take superseded memories too is none.
    `sources`: kept turns too.
    """
    values: dict[str, Any] = {field.name: getattr(filter, field.name) for field in fields(Filter)}
    for name in (*_LISTS, "metadata"):
        values[name] = values[name] or None
    values["state"] = _ALONE.get(values.pop("superseded"))
    filtered = any(value is not None for value in values.values())
    values |= {"superseded": bool(filter.superseded), "sources": sources, **_SEALED}
    return {**values, "filtered": filtered, "scope_id": scope.id, "now": now}


def named(**parts: str | None) -> dict[str, str | None]:
    """The parts of scopes that a statement is narrowed to, by their names; None: not by this one.

    Raises:
        InvalidInput: one of them can be no part of a scope.
    """
    return {
        name: None if part is None else checked_text(part, f"The {name}")
        for name, part in parts.items()
    }
