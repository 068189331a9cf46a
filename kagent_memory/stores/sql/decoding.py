"""Rows of the named queries as the records they stand for, and filters and jobs as the values statements take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, make_dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, cast

from ...language.tokenizer import is_question
from ...records import Filter, Memory, Revision, Scope, Usage, checked_text
from .. import codec
from ..base import Job, RankFeatures
from ..text_index import Entry
from .session import Row

_MEMORY = tuple(field.name for field in fields(Memory) if field.name != "usage")
_USAGE = tuple(field.name for field in fields(Usage))
TOLD = (*_MEMORY, *_USAGE)
"""The columns of a memory in the order that `memory_of` takes them in."""
_told = cast("Callable[[Row], Sequence[Any]]", itemgetter(*TOLD))
# What a frozen dataclass makes of them by itself takes four times as long as open ones of the same shape, which are
# told their class at last; a search makes ten.
_Memory = make_dataclass("_Memory", [*_MEMORY, "usage"], slots=True)
_Usage = make_dataclass("_Usage", _USAGE, slots=True)
_JOB = tuple(field.name for field in fields(Job) if field.name != "scope")
_PLACE = tuple(field.name for field in fields(RankFeatures) if field.name != "names_a_time")  # its terms tell that
_OF_MEMORY = tuple(name for name in _PLACE if name not in ("chars", "asks"))
_SEALED = dict.fromkeys(("sealed_topics", "sealed_tags", "sealed_metadata", "sealed_author", "sealed_category"))
_ALONE = {"only": "superseded", "quarantined": "quarantined", "short_term": "short_term"}
_LISTS = ("types", "topics", "tags", "origins")


def memory_of(told: Sequence[Any]) -> Memory:
    """The memory of its columns in the order of `TOLD`; lists become tuples."""
    usage: Any = _Usage(*told[len(_MEMORY) : len(TOLD)])
    usage.__class__ = Usage
    memory: Any = _Memory(*told[: len(_MEMORY)], usage)
    memory.topics, memory.tags = tuple(memory.topics or ()), tuple(memory.tags or ())
    memory.event_ids = tuple(memory.event_ids or ())
    memory.links = tuple(memory.links or ())
    memory.__class__ = Memory
    return memory


def to_memory(row: Row) -> Memory:
    """The memory of a row of `remembered`."""
    return memory_of(_told(row))


def to_scope(row: Row) -> Scope:
    """The scope of a row with its texts: as it was stored, though names had no bound then and are too long today."""
    scope = object.__new__(Scope)
    vars(scope).update(tenant=row["tenant"], user=row["user_id"], app=row["app"])
    return scope


def to_job(row: Row) -> Job:
    """The job of a row of `ingest_job` joined with its scope's texts."""
    return Job(scope=to_scope(row), **{name: row[name] for name in _JOB})


def to_entry(row: Row) -> Entry:
    """What the index holds of a row of `indexed`."""
    place = RankFeatures(**{name: row[name] for name in _PLACE})
    return Entry(place, bool(row["active"]), None if row["pinned"] else row["expires_at"], bytes(row["postings"]))


def entry_of(memory: Memory, postings: bytes) -> Entry:
    """What the index holds of a memory that was just written, as `indexed` reads it."""
    place = RankFeatures(
        chars=len(memory.content),
        asks=is_question(memory.content),
        **{name: getattr(memory, name) for name in _OF_MEMORY},
    )
    return Entry(place, memory.state == "active", None if memory.pinned else memory.expires_at, postings)


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


def filter_values(scope: Scope, filter: Filter, now: datetime) -> dict[str, Any]:
    """What every statement with a filter takes: the scope, the time, and each condition or None.

    `filtered` says whether any condition is set; to take superseded memories too is none.
    """
    values: dict[str, Any] = {field.name: getattr(filter, field.name) for field in fields(Filter)}
    for name in (*_LISTS, "metadata"):
        values[name] = values[name] or None
    values["state"] = _ALONE.get(values.pop("superseded"))
    filtered = any(value is not None for value in values.values())
    values |= {"superseded": bool(filter.superseded), **_SEALED}
    return {**values, "filtered": filtered, "scope_id": scope.id, "now": now}


def named(**parts: str | None) -> dict[str, str | None]:
    """The parts of scopes that a statement is narrowed to, by their names; None: not by this one.

    Raises:
        InvalidInput: one of them can be no part of a scope.
    """
    return {name: None if part is None else checked_text(part, f"The {name}") for name, part in parts.items()}
