"""Erases memories and tenants, in steps of a bounded size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import telemetry
from ..errors import InvalidInput, NotFound
from ..records import Filter, Scope
from ..stores.codec import messages_in
from ..stores.values import ForgottenTenant
from .selection import Forgotten, Selection
from .validation import masked_filter

if TYPE_CHECKING:
    from .components import Components

PART = 1000
"""Memories that one transaction erases, of many chosen by what they have in common."""
TENANT_PART = 10_000
MAX_JOBS = 1_000_000


class Eraser:
    """Erases memories for good; see `Memories.forget`."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts

    async def forget(
        self, scope: Scope, selection: Selection, *, dry_run: bool = False, who: str = ""
    ) -> Forgotten:
        """Erase what is selected.

        Raises:
            NotFound: one of the given ids is not there; the others are erased all the same.
        """
        parts, who = self._parts, self._parts.masked_name(who, "who")
        if selection.is_empty:
            return Forgotten()
        with telemetry.operation("delete_memory", store=parts.location, scope_app=scope.app):
            try:
                if not selection.ids:
                    found = await self._forget_matching(scope, selection, dry_run=dry_run, who=who)
                    return Forgotten(found)
                erased = await parts.store.forget(
                    scope, ids=selection.ids, dry_run=dry_run, who=who, now=parts.clock()
                )
            finally:  # a part may be gone though another failed
                parts.forget_vectors()
        if missing := sorted(set(selection.ids) - set(erased)):
            raise NotFound(f"No memory {', '.join(missing)} in this scope.")
        return Forgotten(erased, await self._linked(scope, erased) if dry_run else ())

    async def _linked(self, scope: Scope, ids: Sequence[str]) -> tuple[str, ...]:
        """Return the visible memories that these are linked with, without themselves."""
        store, now = self._parts.store, self._parts.clock()
        memories = await store.memories.get(scope, ids, now=now, superseded=True)
        links = {id for memory in memories.values() for id in memory.links} - set(ids)
        return tuple(sorted(await store.memories.get(scope, sorted(links), now=now)))

    async def _forget_matching(
        self, scope: Scope, selection: Selection, *, dry_run: bool, who: str
    ) -> tuple[str, ...]:
        store, clock = self._parts.store, self._parts.clock
        condition = masked_filter(selection.condition())
        everything = selection.everything
        session_id = None if everything else condition.session_id
        # A whole session and a whole scope take along what is queued of them, in the transaction of
        # the last part.
        is_whole = everything or condition == Filter(session_id=session_id)
        ids = await store.memories.kept(scope, condition)
        erased: dict[str, None] = {}
        for start in range(0, len(ids) - (PART if is_whole else 0), PART):
            part = ids[start : start + PART]
            erased |= dict.fromkeys(
                await store.forget(scope, ids=part, dry_run=dry_run, who=who, now=clock())
            )
        if is_whole:
            last = await store.forget(
                scope,
                session_id=session_id,
                everything=everything,
                dry_run=dry_run,
                who=who,
                now=clock(),
            )
            erased |= dict.fromkeys(last)
        elif not dry_run and condition == Filter(session_id=session_id, author=condition.author):
            await self._forget_queued(scope, session_id, condition.author, who=who)
        return tuple(erased)

    async def _forget_queued(
        self, scope: Scope, session_id: str | None, author: str | None, *, who: str
    ) -> None:
        """Erase what an author says in the queue: it must not be ingested after this."""
        jobs = await self._parts.store.queue.jobs(scope=scope, limit=MAX_JOBS)
        messages = [
            each
            for job in jobs
            if session_id in (None, job.session_id)
            for each in messages_in(job.payload)
        ]
        event_ids = {
            message.get("event_id") for message in messages if message.get("author") == author
        }
        if named := sorted(filter(None, event_ids)):
            await self._parts.store.forget(scope, event_ids=named, who=who, now=self._parts.clock())

    async def forget_tenant(self, tenant: str, limit: int | None, *, who: str) -> ForgottenTenant:
        """Erase all that is kept of a tenant, or about `limit` of its memories."""
        parts, who = self._parts, self._parts.masked_name(who, "who")
        checked_tenant(tenant)
        size = TENANT_PART if limit is None else limit
        with telemetry.operation("delete_memory", store=parts.location, scope_app=""):
            await parts.deliveries.flush()
            try:
                erased = await parts.store.forget_tenant(
                    tenant, limit=size, who=who, now=parts.clock()
                )
                while limit is None and not erased.done:
                    erased += await parts.store.forget_tenant(
                        tenant, limit=size, who=who, now=parts.clock()
                    )
            finally:
                parts.forget_vectors()
        parts.caller_vectors.forget(tenant)
        return erased


def checked_tenant(tenant: str) -> str:
    """Return `tenant`.

    Raises:
        InvalidInput: it is empty, most likely a variable that holds nothing.
    """
    if not tenant:
        raise InvalidInput(
            "The tenant must not be empty; memories of no tenant are erased scope by scope with "
            "forget."
        )
    return tenant
