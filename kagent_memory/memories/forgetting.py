"""Erasing memories and tenants, in steps of a bounded size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from .. import telemetry
from ..errors import InvalidInput, NotFound
from ..records import Filter, Scope, checked_text, checked_time
from ..redaction import redact as mask_secrets
from ..stores.codec import messages_in
from ..stores.values import ForgottenTenant
from .components import Components
from .validation import checked_limit, checked_tenant

PART = 1000
"""How many memories one transaction erases, where many are chosen by what they have in common."""
TENANT_PART = 10_000
MOST_JOBS = 1_000_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Which memories of a scope are to be erased: some ids, all that meet every condition, or everything.

    Raises:
        InvalidInput: more than one of the three is named, conditions contradict each other, or they let all through.
    """

    ids: tuple[str, ...] = ()
    session_id: str | None = None
    tag: str | None = None
    author: str | None = None
    before: datetime | None = None
    after: datetime | None = None
    filter: Filter | None = None
    everything: bool = False
    dry_run: bool = False
    who: str = ""

    def __post_init__(self) -> None:
        for name in ("session_id", "tag", "author", "who"):
            if (value := getattr(self, name)) is not None:
                checked_text(value, name)
        if {type(self.everything), type(self.dry_run)} != {bool}:  # a "no" is not taken for a yes
            raise InvalidInput("everything and dry_run must be True or False.")
        if not all(isinstance(id, str) for id in self.ids):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
            raise InvalidInput("The ids must be texts, as they were given when the memories were added.")
        if self.filter is not None and not isinstance(self.filter, Filter):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
            raise InvalidInput(f"filter takes a Filter(…), not {type(self.filter).__name__}.")
        if sum((bool(self.ids), self.has_conditions, self.everything)) > 1:
            raise InvalidInput(
                "Name exactly one: ids, conditions (session_id, tag, author, before, after, filter), or everything."
            )
        if self.has_conditions and self.condition() in (Filter(), Filter(superseded=True)):
            raise InvalidInput("The filter lets every memory through; say everything=True to erase them all.")

    @property
    def is_empty(self) -> bool:
        """Whether nothing is named."""
        return not (self.ids or self.has_conditions or self.everything)

    @property
    def has_conditions(self) -> bool:
        """Whether any condition is named."""
        named = (self.session_id, self.tag, self.author, self.before, self.after, self.filter)
        return any(value is not None for value in named)

    def condition(self) -> Filter:
        """All conditions as one filter."""
        filter = self.filter or Filter()
        after, before = checked_time(self.after, "after"), checked_time(self.before, "before")
        return replace(
            filter,
            session_id=_the_one("session_id", filter.session_id, self.session_id),
            author=_the_one("author", filter.author, self.author),
            tags=filter.tags if self.tag is None else (*filter.tags, self.tag),
            created_after=max((at for at in (filter.created_after, after) if at is not None), default=None),
            created_before=min((at for at in (filter.created_before, before) if at is not None), default=None),
        )


def _the_one(name: str, first: T | None, second: T | None) -> T | None:
    if first is not None and second is not None and first != second:
        raise InvalidInput(f"The filter and {name} contradict each other; name it once.")
    return first if second is None else second


async def forget(parts: Components, scope: Scope, which: Which) -> tuple[str, ...]:
    """See `MemoryApi.forget`."""
    if which.is_empty:
        return ()
    with telemetry.operation("delete_memory", store=parts.location, scope_app=scope.app):
        try:
            if not which.ids:
                return await _forget_all(parts, scope, which)
            erased = await parts.store.forget(
                scope, ids=which.ids, dry_run=which.dry_run, who=mask_secrets(which.who), now=parts.clock()
            )
        finally:  # a part may be gone though another failed
            parts.forget_vectors()
    if missing := sorted(set(which.ids) - set(erased)):
        raise NotFound(f"No memory {', '.join(missing)} in this scope.")
    return erased


async def _forget_all(parts: Components, scope: Scope, which: Which) -> tuple[str, ...]:
    condition, store, dry_run = which.condition(), parts.store, which.dry_run
    session_id = None if which.everything else condition.session_id
    # A whole session and a whole scope take along what is queued of them, in the transaction of the last part.
    is_whole = which.everything or condition == Filter(session_id=session_id)
    chosen = await store.kept(scope, condition)
    erased: dict[str, None] = {}
    for start in range(0, len(chosen) - (PART if is_whole else 0), PART):
        some = chosen[start : start + PART]
        erased |= dict.fromkeys(
            await store.forget(scope, ids=some, dry_run=dry_run, who=mask_secrets(which.who), now=parts.clock())
        )
    if is_whole:
        everything, now = which.everything, parts.clock()
        last = await store.forget(
            scope, session_id=session_id, everything=everything, dry_run=dry_run, who=mask_secrets(which.who), now=now
        )
        return tuple(erased | dict.fromkeys(last))
    if not dry_run and condition == Filter(session_id=session_id, author=condition.author):
        # what its author says in the queue must not be ingested after this
        jobs = await store.jobs(scope=scope, limit=MOST_JOBS)
        queued = [each for job in jobs if session_id in (None, job.session_id) for each in messages_in(job.payload)]
        of_author = (message.get("event_id") for message in queued if message.get("author") == condition.author)
        if events := sorted({event_id for event_id in of_author if event_id}):
            await store.forget(scope, event_ids=events, who=mask_secrets(which.who), now=parts.clock())
    return tuple(erased)


async def forget_tenant(parts: Components, tenant: str, limit: int | None, *, who: str) -> ForgottenTenant:
    """See `MemoryApi.forget_tenant`."""
    who = mask_secrets(checked_text(who, "who"))
    name, most = checked_tenant(tenant), TENANT_PART if limit is None else checked_limit(limit)
    with telemetry.operation("delete_memory", store=parts.location, scope_app=""):
        await parts.deliveries.flush()
        try:
            erased = await parts.store.forget_tenant(name, limit=most, who=who, now=parts.clock())
            while limit is None and not erased.done:
                erased += await parts.store.forget_tenant(name, limit=most, who=who, now=parts.clock())
        finally:
            parts.forget_vectors()
    parts.caller_vectors.forget(name)
    return erased
