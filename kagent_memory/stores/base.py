"""The memories of a store: what a database must do to keep them, `MemoryStore`.

A store keeps, finds and forgets; it decides nothing. Verbs of one scope take the `Scope` first, so
that an unscoped query cannot be written; the few that cross scopes stand apart at the end and say
so. Every verb that depends on the time takes `now` (aware UTC). Every verb raises `StoreError` when
the database is away or refuses. `kagent_memory.testing.StoreContract` states the same promises as
tests. The queue, the tokens and the receipts beside the memories are in `stores.parts`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from typing_extensions import Unpack

from ..records import EVERYTHING, Filter, Memory, Revision, Scope, Vector
from .codec import bounded, known
from .decisions import in_order, page_cursor, page_end
from .filter_match import is_searched, is_visible, matches_filter
from .planning import slot_of
from .spaces import EmbeddingSpaces, refused
from .values import (
    EARLIEST,
    Applied,
    Batch,
    Delivery,
    Erasure,
    Facets,
    ForgottenTenant,
    MemoryQuery,
    Order,
    Page,
    Pruned,
    Restored,
    Rotated,
    ScopeQuery,
    ScopeStats,
    Whole,
)
from .view import MemoriesView, View

PAGE = 500


class MemoryStore(ABC):
    """A database that keeps memories.

    Many tasks of one event loop may use a store, which never blocks that loop. Use after `close`
    raises StoreError. "Visible" means: state active and not expired at `now`; what is pinned never
    expires.

    The abstract verbs, and those of its `spaces`, are all that a store needs. The others are made
    of them, and right for any store; one that keeps many memories in a scope answers them faster by
    itself. What cannot be made of them is refused by its name.
    """

    spaces: EmbeddingSpaces

    @property
    def trouble(self) -> str | None:
        """Return what is wrong with the server that searches should read, while another answers."""
        return None

    @abstractmethod
    async def close(self) -> None:
        """Release everything; closing twice is harmless."""

    # -- one scope: writing ---------------------------------------------------------------------

    @abstractmethod
    async def apply(self, scope: Scope, batch: Batch, *, now: datetime) -> Applied:
        """Write a batch in one transaction and move the scope's version by one (not for an empty
        batch of changes, taken and reinforced: finishing or queueing jobs and setting vectors leave
        it).

        An added memory that equals an active one (the same `content_hash`: see `identity`) is not
        added: the existing one is revived (expiry renewed by the new memory's TTL, metadata merged
        with the new one's keys winning, pinned and the higher importance kept, event ids united)
        and its id is reported; its content, created_at and usage stay. An expired one comes back
        the same way. One that is added as quarantined and equals an active or a quarantined one
        leaves that as it is, and so does one that is added as short-term and equals an active one
        that is alive. An active one that equals a short-term one and no active one promotes that; a
        short- term one that a change makes active is united with the active one that equals it.
        Without `explicit`, a change whose event ids meet a tombstone, or whose text was forgotten
        in that session, is held back (id None). `position` of an added memory with a session is the
        next free one of that session, in batch order. Two equal memories added by one batch become
        one. A replaced memory whose content changed loses its vectors of every embedding space, but
        for the one this batch brings. A vector for a memory that is not there is left out.

        Raises:
            Conflict: expected_version, a revision, a fence or a taken event does not fit any more,
                or a replaced memory would equal another active one.
            InvalidInput: a vector does not fit its embedding space, which must be there, or a key
                is too long.
            NotFound: a change replaces a memory that is not there.
        """

    @abstractmethod
    async def forget(self, scope: Scope, which: Erasure) -> tuple[str, ...]:
        """Erase memories with their revisions, vectors, terms and counters; return the ids erased,
        or in a dry run those that would be.

        What was merged or superseded into an erased memory goes with it, what a merge made of an
        erased one, and what said the same and is history. Leaves tombstones: the source event ids
        and these `event_ids` (for the whole scope) and, per session, a keyed hash of each text.
        Unknown ids are skipped.

        Where the database keeps the queue and the receipts as well, the queued jobs of a session,
        or of everything, are withdrawn in the same transaction, and where something was erased or
        withdrawn, its receipt joins the chain of the tenant, if `who` asked for it is known.
        """

    async def kept(self, scope: Scope, filter: Filter) -> Sequence[str]:
        """Return the ids of all memories that pass the filter: active or not, expired or not, in
        order. With `superseded="only"` or `"quarantined"` those in that state alone.
        """
        every = filter if filter.superseded else replace(filter, superseded=True)
        found = await self.select(scope, MemoryQuery(filter=every, now=EARLIEST))
        return sorted(memory.id for memory in found)

    @abstractmethod
    async def whole(self, scope: Scope, ids: Sequence[str] | None = None) -> Sequence[Whole]:
        """Return these memories with their usage and history, in the order of their ids, whether
        they are visible or not; None: all of the scope.
        """

    async def restore(
        self, scope: Scope, memories: Sequence[Whole], *, dry_run: bool = False, now: datetime
    ) -> Sequence[Restored]:
        """Put memories of another store back as they were there, byte for byte, in one transaction,
        with the vectors that came along.

        One whose id is here, that says the same as an active one here, or that was forgotten here
        is left out. Gives what came of each, or in a dry run what would.

        Raises:
            InvalidInput: one of them, or a vector, cannot be stored; none is then.
            ConfigurationError: this store cannot take them.
        """
        raise refused(self, "restore")

    async def evict(
        self, scope: Scope, ids: Sequence[str], *, keep: int, now: datetime, dry_run: bool = False
    ) -> tuple[str, ...]:
        """Erase the first of these memories until `keep` visible ones are left in the scope, as the
        prune erases: with all that belongs to them, what was merged into them too, and without
        tombstones, so that they may come again. Those pinned or no longer visible are skipped.
        Return the ids erased, or in a dry run those that would be. Safe with two at once: how many
        are left is counted under the lock.

        Raises:
            ConfigurationError: this store cannot.
        """
        raise refused(self, "evict")

    # -- one scope: reading ---------------------------------------------------------------------

    async def select(self, scope: Scope, query: MemoryQuery) -> Sequence[Memory]:
        """Return the memories that a query asks for, with their usage.

        Raises:
            InvalidInput: there is no embedding space of this number.
        """
        memories = [whole.memory for whole in await self.whole(scope, query.ids)]
        embedded: Mapping[str, Vector] = {}
        brief: Sequence[str] = ()
        if query.lacking is not None:
            brief = ("short_term",)
            ids = [memory.id for memory in memories]
            embedded = await self.vectors(scope, query.lacking, ids)
        is_seen = is_visible if query.ids is None and query.lacking is None else is_searched
        newest, after = query.order == "newest", query.after

        def place(memory: Memory) -> tuple[datetime, str]:
            return memory.created_at, memory.id

        found = [
            memory
            for memory in memories
            if is_seen(memory, query.now, query.filter.superseded or memory.state in brief)
            and matches_filter(query.filter, memory)
            and (query.slots is None or slot_of(memory) in query.slots)
            and memory.id not in embedded
            and (after is None or ((place(memory) < after) == newest and place(memory) != after))
        ]
        return sorted(found, key=place, reverse=newest)[: bounded(query.limit)]

    async def get(
        self, scope: Scope, ids: Sequence[str], *, now: datetime, superseded: bool = False
    ) -> Mapping[str, Memory]:
        """Return the visible ones among `ids` (with `superseded`, also those no longer active),
        with their usage.
        """
        wanted = known(ids)
        query = MemoryQuery(ids=wanted, filter=Filter(superseded=superseded), now=now)
        by_id = {memory.id: memory for memory in await self.select(scope, query)}
        return {id: by_id[id] for id in wanted if id in by_id}

    async def list(
        self,
        scope: Scope,
        *,
        filter: Filter = Filter(),
        order: Order = "newest",
        limit: int = 50,
        cursor: str | None = None,
        now: datetime,
    ) -> Page:
        """Return visible memories that pass the filter, by the time they were made; a cursor stays
        right while rows come and go, and a page costs the same however many memories there are.

        "newest" begins with the latest, ties by id descending; "oldest" with the earliest, ties by
        id ascending. `limit` 0 is an empty page.

        Raises:
            InvalidInput: the cursor is not one of ours.
        """
        after = None if cursor is None else page_end(cursor, order)
        if not (limit := bounded(limit)):
            return Page(memories=())
        query = MemoryQuery(filter=filter, order=order, after=after, limit=limit + 1, now=now)
        found = await self.select(scope, query)
        page = found[:limit]
        return Page(memories=tuple(page), cursor=page_cursor(page, order, len(found) > limit))

    async def node(self) -> Mapping[str, float]:
        """Return what the server that answers says of itself: whether it `is_standby`, up to which
        `position` of the log it holds, and of how many `seconds` ago that is on a standby.
        """
        raise refused(self, "node")

    @property
    def reader(self) -> MemoryStore:
        """Return the store that searches and lists are read from: a standby, where there is one."""
        return self

    async def view(
        self, scope: Scope, *, filter: Filter = EVERYTHING, now: datetime, cached: bool = False
    ) -> View:
        """Return a scope as a search reads it: what it holds now; or with `cached` what this
        process took it to hold last, until `View.memories` says that it is stale.
        """
        memories = [whole.memory for whole in await self.whole(scope)]
        return await MemoriesView.of(self, scope, memories, filter=filter, now=now)

    @abstractmethod
    async def taken(
        self, scope: Scope, session_id: str, event_ids: Sequence[str]
    ) -> frozenset[str]:
        """Return the events that were taken in already or that a tombstone holds; `SESSION_END`
        is among them when nothing of the session was taken in since its end.
        """

    async def history(self, scope: Scope, memory_id: str) -> Sequence[Revision]:
        """Return the changes of a memory, oldest first; empty if nothing changed since it was
        added.
        """
        return [
            revision
            for whole in await self.whole(scope, [memory_id])
            for revision in whole.revisions
        ]

    async def group(self, scope: Scope, group: str) -> Sequence[Revision]:
        """Return all revisions that one decision made (see `Change.group`)."""
        every = [revision for whole in await self.whole(scope) for revision in whole.revisions]
        of_group = [revision for revision in every if revision.group == group]
        return sorted(
            of_group, key=lambda revision: (revision.at, revision.memory_id, revision.revision)
        )

    @abstractmethod
    async def vectors(
        self, scope: Scope, space_number: int, ids: Sequence[str]
    ) -> Mapping[str, Vector]:
        """Return the vectors of these memories of a scope as they are kept, float32, by id; those
        without one are left out.

        Raises:
            InvalidInput: there is no embedding space of this number.
        """

    async def version(self, scope: Scope) -> int:
        """Return the scope's version; 0 when nothing was ever written."""
        return (await self.stats(scope, now=EARLIEST)).version

    async def facets(
        self, scope: Scope, *, filter: Filter = Filter(), most: int = 100, now: datetime
    ) -> Facets:
        """Count the memories that the filter lets through, and return the `most` most frequent
        topics and tags of them. This default reads them all; a store may do it faster.
        """
        passing = await self.select(scope, MemoryQuery(filter=filter, now=now))
        topics = Counter(label for memory in passing for label in {*memory.topics})
        tags = Counter(label for memory in passing for label in {*memory.tags})
        counted = (
            sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:most]
            for counts in (topics, tags)
        )
        return Facets(len(passing), *map(dict[str, int], counted))

    @abstractmethod
    async def stats(self, scope: Scope, *, now: datetime, popular_after: int = 10) -> ScopeStats:
        """Return the counts of the scope; `popular_after`: as the prune will have it."""

    # -- across scopes: maintenance -------------------------------------------

    @abstractmethod
    async def count(self, deliveries: Sequence[Delivery]) -> None:
        """Count what was retrieved and delivered, all of it or nothing; row locks are taken in the
        order of scope and memory ids. Ids that are gone are skipped. Leaves the scopes' versions.
        Crosses scopes.
        """

    @abstractmethod
    async def prune(self, *, now: datetime, popular_after: int, dry_run: bool = False) -> Pruned:
        """Invariant 7, over all scopes: expired, not pinned: delivered < popular_after → erased
        with all that belongs to them; otherwise extended by their own TTL from now, delivered reset
        to 0. Names the erased ones. Safe with two at once.
        """

    async def forget_tenant(
        self, tenant: str, *, limit: int, who: str | None = None, now: datetime
    ) -> ForgottenTenant:
        """Erase some memories of a tenant, at most about `limit`, and when none is left all else
        (`done`). `who`: as `forget`, for each transaction that erases memories. Beside a companion
        tenants are forgotten by `forget`, so that tombstones stay.
        """
        raise refused(self, "forget_tenant")

    async def rotate_keys(self, *, dry_run: bool = False) -> Rotated:
        """Encrypt anew, with the first of the `encryption_keys`, whatever it did not encrypt: what
        is plain, and what older keys did. Some rows a transaction: interrupted, it goes on where it
        stopped when it is run again; others read and write meanwhile. Crosses scopes.

        Raises:
            ConfigurationError: there is no key, one is missing that something was encrypted with,
                or this store does not encrypt.
        """
        raise refused(self, "rotate_keys")

    async def lacking_vectors(
        self, scopes: Sequence[Scope], space_number: int, *, now: datetime
    ) -> Sequence[Scope]:
        """Return those of the scopes that hold a visible memory without a vector of this embedding
        space, by (tenant, app, user). Crosses scopes.

        Raises:
            InvalidInput: there is no embedding space of this number.
        """
        query = MemoryQuery(lacking=space_number, limit=1, now=now)
        return [scope for scope in in_order(scopes) if await self.select(scope, query)]

    async def all_scopes(self, *, at_once: int) -> AsyncIterator[Sequence[Scope]]:
        """Return every scope, so many at a time, in the order of `scopes`. Crosses scopes."""
        after: Scope | None = None
        while page := await self.scopes(after=after, limit=at_once):
            yield page
            after = page[-1]

    @abstractmethod
    async def scopes(self, **which: Unpack[ScopeQuery]) -> Sequence[Scope]:
        """Return scopes that hold memories, in order of (tenant, app, user); of this tenant, user
        and app, and those that come after another one. Crosses scopes.

        Raises:
            InvalidInput: tenant, user or app can be no part of a scope.
        """

    async def about(self) -> Mapping[str, str]:
        """Describe the database for people: `database` and `extension` with their versions, the
        applied `migrations`, and `lacking`, the privileges that its user lacks.
        """
        return {"database": type(self).__name__, "migrations": "none"}


async def pages(
    store: MemoryStore, scope: Scope, filter: Filter = EVERYTHING, *, now: datetime
) -> AsyncIterator[Sequence[Memory]]:
    """Yield the memories that the filter lets through, oldest first, some at a time."""
    cursor: str | None = None
    while True:
        page = await store.list(
            scope, filter=filter, order="oldest", limit=PAGE, cursor=cursor, now=now
        )
        yield page.memories
        if (cursor := page.cursor) is None:
            return
