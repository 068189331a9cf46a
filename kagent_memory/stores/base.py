"""`MemoryStore`: the interface of a database that keeps memories.

A store keeps, finds and forgets; it decides nothing. Methods on one scope take the `Scope` first,
so that no unscoped query can be written; the few that cross scopes are at the end and say so. Every
method that depends on the time takes `now` (aware UTC). Every method raises `StoreError` if the
database is unavailable or refuses. `kagent_memory.testing.StoreContract` states the same promises
as tests. The queue, tokens and receipts are in `stores.parts`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter

from typing_extensions import Unpack

from ..records import EVERYTHING, Filter, Memory, Revision, Scope, Vector
from .codec import bounded, known
from .decisions import (
    in_order,
    is_searched,
    is_visible,
    matches_filter,
    page_cursor,
    page_end,
)
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


class MemoryStore(ABC):
    """A database that keeps memories.

    Many tasks of one event loop may use a store, which never blocks that loop. Use after `close`
    raises StoreError. "Visible" means: state active and not expired at `now`; pinned memories never
    expire.

    The abstract methods, and those of its `spaces`, are all that a store needs. The others are
    derived from them and correct for any store; a store with many memories in a scope overrides
    them with faster ones. Methods that cannot be derived are refused by name.
    """

    spaces: EmbeddingSpaces

    @property
    def trouble(self) -> str | None:
        """Return what is wrong with the server meant for searches, while another one answers."""
        return None

    @abstractmethod
    async def close(self) -> None:
        """Release everything; closing twice is harmless."""

    # -- one scope: writing ---------------------------------------------------------------------

    @abstractmethod
    async def apply(self, scope: Scope, batch: Batch, *, now: datetime) -> Applied:
        """Write a batch in one transaction and move the scope's version by one, unless the batch
        has no changes, taken events or reinforcements: ending or queueing jobs and setting vectors
        leave it.

        An added memory that equals an active one (by `content_hash`, see `identity`) is not added:
        the existing one is revived and its id is returned. Its expiry is renewed by the new
        memory's TTL, metadata is merged with the new keys winning, `pinned` and the higher
        importance are kept, and event ids are united; its content, created_at and usage stay. An
        expired one comes back the same way. A quarantined addition that equals an active or
        quarantined memory leaves that as it is, and so does a short-term addition that equals an
        active living one. An active addition that equals only a short-term memory promotes that; a
        short-term memory that a change makes active is united with the active one that equals it.
        Two equal memories in one batch become one.

        Without `explicit`, a change whose event ids meet a tombstone, or whose text was forgotten
        in that session, is blocked (id None). The `position` of an added memory with a session is
        the next free one of that session, in batch order. A replaced memory whose content changed
        loses its vectors of every embedding space but the one in this batch. A vector for a missing
        memory is dropped.

        Raises:
            Conflict: expected_version, a revision, a fence or a taken event does not match any
                more, or a replaced memory would equal another active one.
            InvalidInput: a vector does not fit its embedding space, which must exist, or a key is
                too long.
            NotFound: a change replaces a memory that does not exist.
        """

    @abstractmethod
    async def forget(self, scope: Scope, which: Erasure) -> tuple[str, ...]:
        """Erase memories with their revisions, vectors, terms and counters, and return the erased
        ids; in a dry run those that would be erased.

        An erased memory takes along the memories merged or superseded into it, those that a merge
        made of it, and history that said the same. It leaves tombstones: the source event ids and
        these `event_ids` (for the whole scope) and, per session, a keyed hash of each text. Unknown
        ids are skipped.

        If the database also keeps the queue and the receipts, queued jobs of the session or of
        everything are withdrawn in the same transaction, and if anything was erased or withdrawn, a
        receipt joins the chain of the tenant unless `who` is None.
        """

    async def kept(self, scope: Scope, filter: Filter) -> Sequence[str]:
        """Return the ids of all memories that match the filter, in any state, expired or not, in
        order; with `superseded="only"` or `"quarantined"` those in that state.
        """
        any_state = filter if filter.superseded else replace(filter, superseded=True)
        memories = await self.select(scope, MemoryQuery(filter=any_state, now=EARLIEST))
        return sorted(memory.id for memory in memories)

    @abstractmethod
    async def whole(self, scope: Scope, ids: Sequence[str] | None = None) -> Sequence[Whole]:
        """Return these memories with usage and history, visible or not, in order of ids; None: all
        of the scope.
        """

    async def restore(
        self, scope: Scope, memories: Sequence[Whole], *, dry_run: bool = False, now: datetime
    ) -> Sequence[Restored]:
        """Restore memories of another store byte for byte, with their vectors, in one transaction.

        A memory is left out if its id exists, if it says the same as an active one, or if it was
        forgotten here. Return the outcome of each, or in a dry run the outcome that it would have.

        Raises:
            InvalidInput: a memory or vector cannot be stored; then none is.
            ConfigurationError: this store does not support it.
        """
        raise refused(self, "restore")

    async def evict(
        self, scope: Scope, ids: Sequence[str], *, keep: int, now: datetime, dry_run: bool = False
    ) -> tuple[str, ...]:
        """Erase the first of these memories until `keep` visible ones are left in the scope, and
        return the erased ids; in a dry run those that would be erased.

        Erasing works as in the prune: with everything that belongs to a memory and was merged into
        it, and without tombstones, so that it may come again. Pinned and invisible memories are
        skipped. Two calls at once are safe: the remaining memories are counted under the lock.

        Raises:
            ConfigurationError: this store does not support it.
        """
        raise refused(self, "evict")

    # -- one scope: reading ---------------------------------------------------------------------

    async def select(self, scope: Scope, query: MemoryQuery) -> Sequence[Memory]:
        """Return the memories that match a query, with their usage.

        Raises:
            InvalidInput: there is no embedding space with this number.
        """
        memories = [whole.memory for whole in await self.whole(scope, query.ids)]
        space, ids = query.lacking, [memory.id for memory in memories]
        embedded = () if space is None else await self.vectors(scope, space, ids)
        is_seen = is_visible if query.ids is None and space is None else is_searched
        other_state = "" if space is None else "short_term"
        newest, after = query.order == "newest", query.after
        place = attrgetter("created_at", "id")
        matching = [
            memory
            for memory in memories
            if is_seen(memory, query.now, query.filter.superseded or memory.state == other_state)
            and matches_filter(query.filter, memory)
            and (query.slots is None or slot_of(memory) in query.slots)
            and memory.id not in embedded
            and (after is None or ((place(memory) < after) == newest and place(memory) != after))
        ]
        return sorted(matching, key=place, reverse=newest)[: bounded(query.limit)]

    async def get(
        self, scope: Scope, ids: Sequence[str], *, now: datetime, superseded: bool = False
    ) -> Mapping[str, Memory]:
        """Return the visible ones among `ids`, or with `superseded` also inactive ones, with their
        usage.
        """
        valid_ids = known(ids)
        query = MemoryQuery(ids=valid_ids, filter=Filter(superseded=superseded), now=now)
        by_id = {memory.id: memory for memory in await self.select(scope, query)}
        return {id: by_id[id] for id in valid_ids if id in by_id}

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
        """Return a page of visible memories that match the filter, by creation time.

        A cursor stays valid while rows come and go, and a page costs the same however many memories
        there are. "newest" begins with the latest, ties by id descending; "oldest" with the
        earliest, ties by id ascending. A `limit` of 0 gives an empty page.

        Raises:
            InvalidInput: the cursor is not one of ours.
        """
        after = None if cursor is None else page_end(cursor, order)
        limit = bounded(limit)
        query = MemoryQuery(filter=filter, order=order, after=after, limit=limit + 1, now=now)
        matching = await self.select(scope, query)
        page, has_more = tuple(matching[:limit]), len(matching) > limit
        return Page(
            memories=page, cursor=page_cursor(page[-1], order) if page and has_more else None
        )

    async def node(self) -> Mapping[str, float]:
        """Return the answering server's state: whether it `is_standby`, the `position` of the log
        that it holds, and on a standby how many `seconds` old that is.
        """
        raise refused(self, "node")

    @property
    def reader(self) -> MemoryStore:
        """Return the store for searches and lists: a standby if there is one."""
        return self

    async def view(
        self, scope: Scope, *, filter: Filter = EVERYTHING, now: datetime, cached: bool = False
    ) -> View:
        """Return a view of a scope for a search: its current state, or with `cached` the state that
        this process saw last, until `View.memories` finds that stale.
        """
        memories = [whole.memory for whole in await self.whole(scope)]
        return await MemoriesView.of(self, scope, memories, filter=filter, now=now)

    async def changed_since(self, scope: Scope, at: datetime) -> Mapping[str, bool]:
        """Return the ids of the memories that may have been different at a past time, and of all
        short-term ones, each with False if the memory certainly did not exist yet, else True.

        This default returns all; a store may be faster.
        """
        return dict.fromkeys(await self.kept(scope, EVERYTHING), True)

    @abstractmethod
    async def taken(
        self, scope: Scope, session_id: str, event_ids: Sequence[str]
    ) -> frozenset[str]:
        """Return the events that were ingested or have a tombstone; `SESSION_END` is among them if
        nothing of the session was ingested since its end.
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
        """Return all revisions of one decision (see `Change.group`), by time."""
        revisions = [
            revision
            for whole in await self.whole(scope)
            for revision in whole.revisions
            if revision.group == group
        ]
        return sorted(revisions, key=lambda revision: revision.at)

    @abstractmethod
    async def vectors(
        self, scope: Scope, space_number: int, ids: Sequence[str]
    ) -> Mapping[str, Vector]:
        """Return the stored vectors of these memories of a scope as float32, by id; memories
        without one are left out.

        Raises:
            InvalidInput: there is no embedding space with this number.
        """

    async def version(self, scope: Scope) -> int:
        """Return the scope's version; 0 if nothing was ever written."""
        return (await self.stats(scope, now=EARLIEST)).version

    async def facets(
        self, scope: Scope, *, filter: Filter = Filter(), most: int = 100, now: datetime
    ) -> Facets:
        """Count the memories that match the filter, and return their `most` most frequent topics
        and tags. This default reads them all; a store may be faster.
        """
        matching = await self.select(scope, MemoryQuery(filter=filter, now=now))
        counts = [
            Counter(sorted(label for memory in matching for label in {*getattr(memory, name)}))
            for name in ("topics", "tags")
        ]
        return Facets(len(matching), *(dict(count.most_common(most)) for count in counts))

    @abstractmethod
    async def stats(self, scope: Scope, *, now: datetime, popular_after: int = 10) -> ScopeStats:
        """Return the counts of the scope; `popular_after` as for the prune."""

    # -- across scopes: maintenance -------------------------------------------

    @abstractmethod
    async def count(self, deliveries: Sequence[Delivery]) -> None:
        """Count retrievals and deliveries, all or nothing. Row locks are taken in the order of
        scope and memory ids. Missing ids are skipped, and the versions of scopes stay. Crosses
        scopes.
        """

    @abstractmethod
    async def prune(self, *, now: datetime, popular_after: int, dry_run: bool = False) -> Pruned:
        """Prune all scopes (invariant 7): erase expired memories that are not pinned and have fewer
        than `popular_after` deliveries, with everything that belongs to them; extend the other
        expired ones by their own TTL and reset `delivered`. Return the erased ones by name. Two
        calls at once are safe.
        """

    async def forget_tenant(
        self, tenant: str, *, limit: int, who: str | None = None, now: datetime
    ) -> ForgottenTenant:
        """Erase some memories of a tenant, at most about `limit`, and once none is left everything
        else (`done`). `who` as in `forget`, for each transaction that erases memories. With a
        companion, tenants are forgotten by `forget`, so that tombstones stay.
        """
        raise refused(self, "forget_tenant")

    async def rotate_keys(self, *, dry_run: bool = False) -> Rotated:
        """Encrypt everything that is plain, or encrypted with an older key, with the first of the
        `encryption_keys`. Works in small transactions while others read and write; run it again to
        continue after an interruption. Crosses scopes.

        Raises:
            ConfigurationError: there is no key, one is missing that something was encrypted with,
                or this store does not encrypt.
        """
        raise refused(self, "rotate_keys")

    async def lacking_vectors(
        self, scopes: Sequence[Scope], space_number: int, *, now: datetime
    ) -> Sequence[Scope]:
        """Return the scopes with a visible memory without a vector of this embedding space, by
        (tenant, app, user). Crosses scopes.

        Raises:
            InvalidInput: there is no embedding space with this number.
        """
        query = MemoryQuery(lacking=space_number, limit=1, now=now)
        return [scope for scope in in_order(scopes) if await self.select(scope, query)]

    async def all_scopes(self, *, at_once: int) -> AsyncIterator[Sequence[Scope]]:
        """Yield every scope in batches, in the order of `scopes`. Crosses scopes."""
        after: Scope | None = None
        while page := await self.scopes(after=after, limit=at_once):
            yield page
            after = page[-1]

    @abstractmethod
    async def scopes(self, **which: Unpack[ScopeQuery]) -> Sequence[Scope]:
        """Return scopes with memories in order of (tenant, app, user), filtered by tenant, user and
        app, after another one. Crosses scopes.

        Raises:
            InvalidInput: tenant, user or app cannot be part of a scope.
        """

    async def about(self) -> Mapping[str, str]:
        """Describe the database for people: versions of `database` and `extension`, applied
        `migrations`, and the `lacking` privileges of its user.
        """
        return {"database": type(self).__name__, "migrations": "none"}
