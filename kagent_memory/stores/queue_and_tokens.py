"""What a database keeps beside memories: `JobQueue`, the durable queue of ingestion, and `TokenStore`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from ..records import Scope
from .values import Job, JobKind, JobState, PendingJobs, Token


class Opened(ABC):
    """What is open until it is closed."""

    @abstractmethod
    async def close(self) -> None:
        """Releases everything; closing twice is harmless."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class JobQueue(Opened):
    """The durable queue of ingestion, and the leases that processes take on common work. Its verbs cross scopes.

    Where one database is both, a batch ends its job and queues those that follow in the transaction of its memories.
    """

    @abstractmethod
    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Queues; returns when the jobs are durable. See `Job.key` for coalescing. Crosses scopes."""

    @abstractmethod
    async def claim(
        self, owner: str, *, now: datetime, lease_seconds: float, exclude: Sequence[tuple[str, str]] = ()
    ) -> Job | None:
        """The oldest job due at `now` whose lease is free and whose scope has no other running job with a live lease,
        from now on leased to `owner` with a moved fence and one more attempt. Scopes take turns, so that nobody's long
        queue holds up the others; one that was tried before comes only when no other is due. `exclude`: (provider,
        model) pairs that this worker cannot resolve. Claimed by compare-and-set; never blocks on another worker.
        Crosses scopes.

        Leases begin and end by the database's own clock, so that workers whose clocks differ agree on who holds a job.
        """

    @abstractmethod
    async def renew(self, job: Job, *, lease_seconds: float) -> bool:
        """Prolongs the lease to so long from now; False when the fence moved on or the job is gone."""

    @abstractmethod
    async def release(
        self, job: Job, *, run_after: datetime, error: str, dead: bool = False, payload: Mapping[str, Any] | None = None
    ) -> bool:
        """Gives a claimed job back to run later, or buries it as a dead letter; stores `calls`, `tokens` of `job`.
        `payload` replaces the job's. False when the fence moved on. Stores `attempts` and `failures` of `job` too.
        """

    @abstractmethod
    async def end(self, job_id: str, fence: int) -> bool:
        """Deletes a job that is done; False when its fence moved on or the job is gone."""

    @abstractmethod
    async def jobs(
        self,
        *,
        scope: Scope | None = None,
        tenant: str | None = None,
        user: str | None = None,
        app: str | None = None,
        state: JobState | None = None,
        limit: int = 100,
        id: str | None = None,
        payloads: bool = True,
    ) -> Sequence[Job]:
        """Jobs, oldest first; those of one scope, or of all scopes with this tenant, user and app. Without `payloads`
        these are left empty, and nobody loads them. Without a scope it crosses scopes.

        Raises:
            InvalidInput: tenant, user or app can be no part of a scope.
        """

    @abstractmethod
    async def waiting(self, scope: Scope, kind: JobKind, key: str) -> Job | None:
        """The queued job of this kind and key, if there is one."""

    @abstractmethod
    async def pending(self, *, now: datetime) -> PendingJobs:
        """How many accepted jobs are open, and since when: queued or running transcripts and embeddings, and session
        ends that are due or have failed. Neither timers nor consolidation nor dead letters. Crosses scopes.
        """

    @abstractmethod
    async def retry(self, job_id: str, *, now: datetime) -> None:
        """Queues a dead letter again, as if it had never failed. Raises NotFound when there is no such dead letter."""

    @abstractmethod
    async def drop(self, job_id: str) -> None:
        """Deletes a job that is not running. Raises NotFound when there is none."""

    @abstractmethod
    async def withdraw(
        self,
        scope: Scope,
        *,
        session_id: str | None = None,
        everything: bool = False,
        event_ids: Collection[str] = (),
    ) -> None:
        """Deletes the jobs of a session, or all of a scope, and takes the messages of these events out of the others,
        running ones too, with all texts that were handed over in them.
        """

    @abstractmethod
    async def scopes(
        self,
        *,
        tenant: str | None = None,
        user: str | None = None,
        app: str | None = None,
        after: Scope | None = None,
        limit: int = 1000,
    ) -> Sequence[Scope]:
        """Scopes that hold jobs, in order of (tenant, app, user); of this tenant, user and app, and those
        that come after another one. Crosses scopes.

        Raises:
            InvalidInput: tenant, user or app can be no part of a scope.
        """

    @abstractmethod
    async def lease(self, name: str, owner: str, *, seconds: float) -> bool:
        """Takes or renews the named lease for `owner`; False while somebody else holds it. It ends by the database's
        clock. Crosses scopes.
        """


class TokenStore(Opened):
    """The bearer tokens of the server. Its verbs cross scopes."""

    @abstractmethod
    async def add_token(self, token: Token) -> None:
        """Keeps a token; durable when it returns. Crosses scopes."""

    @abstractmethod
    async def tokens(self, *, digest: str | None = None) -> Sequence[Token]:
        """All tokens, oldest first, expired ones too; with `digest` the one that has it, if any. Crosses scopes."""

    @abstractmethod
    async def drop_token(self, token_id: str) -> None:
        """Revokes a token at once. Raises NotFound when there is none. Crosses scopes."""
