"""The verbs of upkeep; they cross scopes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..concurrency import Backoff
from ..errors import KagentMemoryError, StoreError
from ..records import Change, Scope, new_id
from ..retention.prune import evict
from ..stores.base import Job, JobState, Pruned, Token
from .components import Components
from .tokens import PREFIX, digest, new_token

log = logging.getLogger("kagent_memory")

LOOKED_AT = 100
DRAIN_PAUSES = Backoff(0.01, 0.25, factor=1.5)


class MaintenanceVerbs:
    """Jobs, prune, consolidate, scopes, work, check, drain, and the server's tokens."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts
        self._stop = asyncio.Event()

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
        """Queued, running and dead jobs, oldest first; of one scope, or of all with this tenant, user and app.

        Args:
            scope: whose; None: everybody's.
            tenant: only those of scopes with this tenant.
            user: only those of scopes with this user.
            app: only those of scopes with this app.
            state: only those in this state.
            limit: how many at most.
            id: only the job of this id.
            payloads: whether what they carry, which may be much, is read too.
        """
        return await self._parts.store.jobs(
            scope=scope, tenant=tenant, user=user, app=app, state=state, limit=limit, id=id, payloads=payloads
        )

    async def retry_job(self, job_id: str) -> None:
        """Queues a dead letter again.

        Raises:
            NotFound: no such dead letter.
        """
        await self._parts.store.retry(job_id, now=self._parts.clock())
        self._parts.worker.wake()

    async def drop_job(self, job_id: str) -> None:
        """Deletes a job that is not running.

        Raises:
            NotFound: no such job.
        """
        await self._parts.store.drop(job_id)

    async def prune(self, *, dry_run: bool = False) -> Pruned:
        """Deletes what has expired and extends what is popular, in every scope; then evicts the least important from
        scopes that hold more than `max_memories`.

        Expired and delivered fewer than `popular_after` times since its last extension: deleted. As often or more:
        extended by its own TTL, and its count begins anew. Pinned memories stay.

        A dry run counts what would be extended as gone already when it looks for scopes that hold too many.
        """
        await self._parts.deliveries.flush()  # what is popular by now must not be deleted for a count that waits
        parts, now = self._parts, self._parts.clock()
        pruned = await parts.store.prune(now=now, popular_after=parts.settings.popular_after, dry_run=dry_run)
        if not parts.settings.max_memories:
            return pruned
        evicted = await evict(
            parts.store,
            parts.vectors,
            keep=parts.settings.max_memories,
            weights=parts.weights,
            now=now,
            dry_run=dry_run,
        )
        return replace(pruned, evicted=evicted)

    async def consolidate(self, scope: Scope, *, dry_run: bool = False) -> Sequence[Change]:
        """Merges what says the same in a scope, keeping lineage; gives the changes, made or only planned.

        The configured model words what several memories become; without one nothing merges. Explicit saves merge only
        here, never in the background.
        """
        return await self._parts.steps.consolidate(scope, dry_run=dry_run)

    async def scopes(
        self,
        *,
        tenant: str | None = None,
        user: str | None = None,
        app: str | None = None,
        after: Scope | None = None,
        limit: int = 1000,
    ) -> Sequence[Scope]:
        """Scopes that hold memories or jobs, in order of (tenant, app, user).

        Args:
            tenant: only scopes with this tenant.
            user: only scopes with this user.
            app: only scopes with this app.
            after: only those that come after this one: the last of the former page.
            limit: how many at most.
        """
        return await self._parts.store.scopes(tenant=tenant, user=user, app=app, after=after, limit=limit)

    async def work(self, *, until_idle: bool = False, stop: asyncio.Event | None = None) -> int:
        """Works on the queue in this task, until told to stop or until nothing is due; gives how many jobs ended."""
        if until_idle:
            return await self._parts.worker.work_until_idle()
        before = self._parts.worker.finished
        await self._parts.worker.work(stop or self._stop)
        return self._parts.worker.finished - before

    async def check(self) -> Mapping[str, str]:
        """What a doctor wants to know; raises nothing of ours.

        Returns:
            `store` and `embedding`: "ok", or what is wrong ("keyword mode" without an embedder); and what the store
            says about itself: `database`, `extension`, `migrations`, and the rights it is `lacking`. Where none is
            lacking, `writing`: "ok" when a row could be written, or what is wrong.
        """
        found = {"store": "ok", "embedding": "keyword mode" if self._parts.vectors is None else "ok"}
        try:
            found.update(await self._parts.store.about())
        except KagentMemoryError as error:
            found["store"] = str(error)
        if found["store"] == "ok" and "lacking" not in found:
            found["writing"] = await self._try_writing()
        try:
            if self._parts.vectors is not None:
                await self._parts.vectors.embed(["ping"], kind="query")
        except KagentMemoryError as error:
            found["embedding"] = str(error)
        return found

    async def _try_writing(self) -> str:
        try:
            await self._parts.store.lease("doctor", new_id(), seconds=1)
        except KagentMemoryError as error:
            return str(error)
        return "ok"

    # -- the server's tokens

    async def create_token(
        self,
        *,
        tenant: str | None = None,
        user: str | None = None,
        label: str = "",
        days: int | None = None,
        is_operator: bool = False,
    ) -> tuple[str, Token]:
        """Makes a bearer token for the server; durable when it returns.

        Args:
            tenant: whose memories it opens; None: the setting `tenant`.
            user: only this user's; None: the whole tenant's.
            label: for people.
            days: how long it holds; None: until it is revoked.
            is_operator: it opens every tenant, and the verbs that cross them.

        Returns:
            The secret, which is not kept and cannot be shown again, and the token's record.
        """
        tenant = self._parts.settings.tenant if tenant is None else tenant
        secret, token = new_token(tenant, user, label, now=self._parts.clock(), days=days, is_operator=is_operator)
        await self._parts.store.add_token(token)
        return secret, token

    async def tokens(self) -> Sequence[Token]:
        """All tokens of the server, oldest first, expired ones too; never their secrets."""
        return await self._parts.store.tokens()

    async def revoke_token(self, token_id: str) -> None:
        """Revokes a token at once.

        Raises:
            NotFound: no such token.
        """
        await self._parts.store.drop_token(token_id)

    async def authenticate(self, secret: str) -> Token | None:
        """The token that a secret proves; None when it is unknown, revoked or expired."""
        if not secret.startswith(PREFIX):
            return None
        token = next(iter(await self._parts.store.tokens(digest=digest(secret))), None)
        if token is None or (token.expires_at is not None and token.expires_at <= self._parts.clock()):
            return None
        return token

    async def drain(self, timeout: float = 30.0) -> bool:  # noqa: ASYNC109 the name ADK's users know
        """Waits until every accepted job is done; False when `timeout` seconds pass first, when the store is away, or
        when dead letters lie in it: those are accepted and not done, however long one waits. The log says what is left.

        Jobs that wait for their time (a session's inactivity, consolidation) are not waited for.
        """
        end = time.monotonic() + timeout
        looks = 0
        while await self._is_open():
            self._parts.worker.wake()
            if (left := end - time.monotonic()) <= 0:
                await self._tell_left()
                return False
            looks += 1
            await asyncio.sleep(min(DRAIN_PAUSES.seconds(looks), left))
        try:
            await asyncio.wait_for(self._parts.deliveries.drain(), max(0.0, end - time.monotonic()) + 0.01)
        except TimeoutError:
            return False
        return not await self._tell_left()

    async def _tell_left(self) -> bool:
        """Logs what stands in the way of a drained queue; whether anything does."""
        try:
            dead = await self._parts.store.jobs(state="dead", limit=1)
            failing = [job for job in await self._parts.store.jobs(state="queued", limit=LOOKED_AT) if job.error]
        except StoreError as error:
            log.warning("The rest of the queue cannot be read: %s", error)
            return True
        if dead:
            log.warning("The queue holds dead letters, among them job %s (%s); retry or drop them.", *_reason(dead[0]))
        elif failing:
            log.warning("Saves wait in the queue, among them job %s (%s).", *_reason(failing[0]))
        return bool(dead)

    async def _is_open(self) -> bool:
        try:
            return (await self._parts.store.pending(now=self._parts.clock())).count > 0
        except StoreError:
            return True


def _reason(job: Job) -> tuple[str, str]:
    return job.id, job.error
