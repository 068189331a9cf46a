"""The parts of a store: memories, queue, tokens and receipts; methods that span several;
and the adapters that open stores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import ClassVar, Self
from urllib.parse import urlsplit

from typing_extensions import Unpack

from ..errors import ConfigurationError, Conflict, NotFound
from ..records import Scope
from .base import MemoryStore
from .codec import MAX_LIMIT, event_ids_in
from .decisions import in_order, tombstones_of
from .receipts import ReceiptStore
from .sql.memories import CACHE_MB, SqlMemoryStore
from .sql.queue import JobQueue
from .sql.session import Database, Part, Transaction, reading, writing
from .values import (
    Applied,
    Batch,
    Erasure,
    ForgottenTenant,
    OpenOptions,
    ScopeQuery,
    ScopeStats,
    Token,
    checked_job,
)


class TokenStore(Part):
    """The bearer tokens of the server. The verbs cross scopes."""

    @writing
    async def add(self, session: Transaction, token: Token) -> None:
        """Store a token durably."""
        await session.send("insert_token", **asdict(token))

    @reading
    async def find(self, session: Transaction, *, digest: str | None = None) -> Sequence[Token]:
        """Return the tokens, expired ones too, oldest first; only the one with `digest` if
        given.
        """
        return [Token(**row) for row in await session.rows("tokens", digest=digest)]

    @writing
    async def drop(self, session: Transaction, token_id: str) -> None:
        """Revoke a token at once.

        Raises:
            NotFound: there is no such token.
        """
        if not await session.rows("drop_token", id=token_id):
            raise NotFound(f"There is no token {token_id!r}.")


@dataclass(frozen=True)
class Store:
    """Memories, queue, tokens and receipts, as `open_store` returns them.

    Parts of one database share its transactions. If the memories are kept elsewhere, the other
    parts belong to a `companion`, and no transaction spans both: a batch writes its memories first,
    then ends its job. If a process is killed in between, another worker takes the job, finds its
    events ingested and adds nothing twice. The companion notes ingested and forgotten events too,
    so that the queue leaves them out.

    Attributes:
        companion: the memories of the database that keeps the other parts, if that is another one.
    """

    memories: MemoryStore
    queue: JobQueue
    tokens: TokenStore
    receipts: ReceiptStore
    companion: MemoryStore | None = None

    async def close(self) -> None:
        """Release everything; closing twice is harmless."""
        await self.memories.close()
        if self.companion is not None:
            await self.companion.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def apply(self, scope: Scope, batch: Batch, *, now: datetime) -> Applied:
        """Apply a batch, end its job and queue follow-on jobs; see `MemoryStore.apply`."""
        if self.companion is None:
            return await self.memories.apply(scope, batch, now=now)
        for job in batch.jobs:
            checked_job(job)
        if batch.job is not None:
            id, fence = batch.job
            running = await self.queue.jobs(scope=scope, state="running", id=id, payloads=False)
            if [job.fence for job in running] != [fence]:
                raise Conflict(f"The job {id} is no longer held with the fence {fence}.")
        applied = await self.memories.apply(scope, replace(batch, job=None, jobs=()), now=now)
        rest = Batch(taken=batch.taken, job=batch.job, jobs=batch.jobs)
        if rest != Batch():
            await self.companion.apply(scope, rest, now=now)
        return applied

    async def forget(self, scope: Scope, which: Erasure) -> tuple[str, ...]:
        """Erase memories, and withdraw the queued jobs of a session or of everything, with
        tombstones for their events; forgotten events leave the payloads of other jobs too. See
        `MemoryStore.forget`.
        """
        if self.companion is None:
            return await self.memories.forget(scope, which)
        doomed = await self.memories.forget(scope, replace(which, dry_run=True))
        if which.dry_run:
            return doomed
        events = {*which.event_ids}
        for job in await self.queue.jobs(scope=scope, limit=MAX_LIMIT):
            if which.everything or job.session_id == which.session_id:
                events |= event_ids_in(job.payload)
        for whole in await self.memories.whole(scope, doomed):
            events |= {key for _, key in tombstones_of(whole)}
        which = replace(which, event_ids=sorted(events))
        # The companion first: after a crash in between, the same call finds the same events.
        await self.companion.forget(scope, replace(which, ids=(), who=None))
        erased_ids = await self.memories.forget(scope, which)
        if which.who is not None and (erased_ids or events):
            await self.receipts.add(scope, "forget", erased_ids, who=which.who, now=which.now)
        return erased_ids

    async def forget_tenant(
        self, tenant: str, *, limit: int, who: str | None = None, now: datetime
    ) -> ForgottenTenant:
        """Erase some memories of a tenant, and once none is left everything else of it; see
        `MemoryStore.forget_tenant`.
        """
        if self.companion is None:
            return await self.memories.forget_tenant(tenant, limit=limit, who=who, now=now)
        rest = await self.companion.forget_tenant(tenant, limit=MAX_LIMIT, now=now)
        for scope in await self.memories.scopes(tenant=tenant, limit=1):
            gone = await self.memories.forget(scope, Erasure(everything=True, now=now))
            if who is not None and gone:
                await self.receipts.add(scope, "forget_tenant", gone, who=who, now=now)
            rest = replace(rest, scopes=1, memories=len(gone), done=False)
        return rest

    async def stats(self, scope: Scope, *, now: datetime, popular_after: int = 10) -> ScopeStats:
        """Return the counts of the scope's memories and jobs."""
        counted = await self.memories.stats(scope, now=now, popular_after=popular_after)
        if self.companion is None:
            return counted
        of_jobs = await self.companion.stats(scope, now=now)
        return replace(counted, jobs=of_jobs.jobs, oldest_job_at=of_jobs.oldest_job_at)

    async def scopes(self, **which: Unpack[ScopeQuery]) -> Sequence[Scope]:
        """Return the scopes with memories or jobs; see `MemoryStore.scopes`."""
        if self.companion is None:
            return await self.memories.scopes(**which)
        scopes = {*await self.companion.scopes(**which), *await self.memories.scopes(**which)}
        return in_order(scopes, limit=which.get("limit", 1000))


def store_in(
    database: Database, options: OpenOptions, *, searches: Database | None = None
) -> Store:
    """Return the store of a database that keeps all parts.

    Args:
        database: the database.
        options: the options that the store was opened with.
        searches: the database for searches and lists, perhaps a little behind; None: the same.
    """
    memories = SqlMemoryStore(
        database, cache_mb=options.get("cache_mb", CACHE_MB), searches=searches
    )
    return Store(memories, JobQueue(database), TokenStore(database), ReceiptStore(database))


class Adapter:
    """A kind of database; used as a class, never as an object.

    Attributes:
        supports: the options among rls, read_uri and encryption_keys that it supports.
    """

    supports: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    async def open(cls, uri: str, **options: Unpack[OpenOptions]) -> MemoryStore | Store:
        """Connect and migrate to the newest schema; safe if many processes do so at once.

        Returns:
            A whole store, or memories alone, whose other parts a companion keeps.

        Raises:
            ConfigurationError: the URI, password, extension or file permissions prevent it.
            StoreError: the database cannot be reached.
        """
        raise NotImplementedError(f"{cls.__name__} has no classmethod `open`.")

    @classmethod
    async def exists(cls, uri: str, *, schema: str = "kagent_memory") -> bool:
        """Return True if `open` would find memories here rather than create a database, or if that
        cannot be known, so that `open` reports why. Create and change nothing.

        Raises:
            ConfigurationError: there is none, and none could be created here.
        """
        return True

    @classmethod
    async def distribute(
        cls, uri: str, *, schema: str = "kagent_memory", shards: int = 0, dry_run: bool = False
    ) -> Mapping[str, str]:
        """Spread the tables of a migrated database over the nodes of its cluster, each scope on one
        of them. Return the tables that were not spread yet with their distribution; repeating it is
        harmless.

        Args:
            uri: the URI of the database.
            schema: the schema of the tables.
            shards: the number of parts of each table; 0: the database's own setting, or
                two a node, but at least 4.
            dry_run: True to change nothing.

        Raises:
            ConfigurationError: this store knows no cluster, or the database is none.
            StoreError: the database cannot be reached.
        """
        raise ConfigurationError(
            "Only PostgreSQL with the extension Citus is distributed: use postgresql://…."
        )

    @classmethod
    def companion(cls, uri: str) -> str:
        """Return the URI of the store that keeps queue, tokens and receipts for memories alone: a
        file in the current directory, named by the URI without its user and password.
        """
        parts = urlsplit(uri)
        named = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        digest = hashlib.blake2b(named.encode(), digest_size=6).hexdigest()
        return f"libsql:///kagent_memory_{digest}.db"
