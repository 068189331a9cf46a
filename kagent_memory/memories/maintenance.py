"""The verbs that look after a store: receipts, the queue, prune, audit, export and import."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..concurrency import cancel_and_wait
from ..errors import ConfigurationError, KagentMemoryError
from ..records import Change, Mode, Scope, Scopes, new_id
from ..settings import MemorySettings
from .findings import MAX_FINDINGS, Audit, Defect, Progress, checked_defects
from .verbs import Verb, verb

if TYPE_CHECKING:
    from ..ingestion.reembedding import Reembedded
    from ..models.embedding import EmbedderChoice
    from ..stores import Store
    from ..stores.base import Job, Pruned, ScopeStats
    from ..stores.receipts import Receipt
    from ..stores.values import ForgottenTenant, JobState, Rotated
    from .components import Components
    from .receipts import ReceiptCheck
    from .tokens import Tokens
    from .transfer import Imported
    from .types import Count, Name


CLOSE_SECONDS = 5.0
BACKFILL = "kagent-memory-backfill"
"""The task that queues the embedding of what a store held before it had an embedder."""


def utc_now() -> datetime:
    """Return the time now, aware UTC."""
    return datetime.now(UTC)


class Maintenance:
    """The verbs of `Memories` for those who run a store."""

    def __init__(self, components: Components | None) -> None:
        self._components = components
        self._stop = asyncio.Event()
        self._background: list[asyncio.Task[None]] = []

    def perform(self, verb: Verb, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Perform a verb here, with checked arguments."""
        return verb.function(self, **verb.checked(args, kwargs))

    @property
    def parts(self) -> Components:
        """The parts of memories that are opened here.

        Raises:
            ConfigurationError: they are opened elsewhere.
        """
        if self._components is None:
            raise ConfigurationError(
                "Only available where the store itself is opened, with Memories.open."
            )
        return self._components

    async def close(self) -> None:
        """Let queued work end for some seconds, then stop; what is left stays queued. Closing twice
        is harmless.
        """
        if self._background:
            await self.drain(CLOSE_SECONDS)
        self._stop.set()
        await cancel_and_wait(*self._background)
        self._background.clear()
        await self.parts.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def settings(self) -> MemorySettings:
        """The settings in force."""
        return self.parts.settings

    @property
    def location(self) -> str:
        """The URI without password and query."""
        return self.parts.location

    @property
    def mode(self) -> Mode:
        """The search mode of reads when every part works."""
        return "keyword" if self.parts.vectors is None else "hybrid"

    @property
    def needs_model(self) -> bool:
        """True if sessions need a model that each agent brings or names, since none is
        configured.
        """
        return self.parts.providers.needs_model

    @property
    def store(self) -> Store:
        """The store itself."""
        return self.parts.store

    @property
    def tokens(self) -> Tokens:
        """The bearer tokens of a server of these memories."""
        return self.parts.tokens

    @verb("GET /stats")
    async def stats(self, scope: Scope) -> ScopeStats:
        """Return counts of the scope."""
        popular_after = self.parts.settings.popular_after
        return await self.parts.store.stats(
            scope, now=self.parts.clock(), popular_after=popular_after
        )

    @verb("GET /scopes")
    async def scopes(
        self,
        *,
        tenant: Name | None = None,
        user: Name | None = None,
        app: Name | None = None,
        after: Scope | None = None,
        limit: int = 1000,
    ) -> Sequence[Scope]:
        """Return scopes that hold memories or jobs, in order of (tenant, app, user).

        Args:
            tenant: only scopes of this tenant.
            user: only scopes of this user.
            app: only scopes of this app.
            after: only those after this one: the last of the page before.
            limit: how many at most.
        """
        return await self.parts.store.scopes(
            tenant=tenant, user=user, app=app, after=after, limit=limit
        )

    @verb("POST /tenants/forget", durable=True)
    async def forget_tenant(
        self, tenant: Name, *, limit: Count | None = None, who: str = ""
    ) -> ForgottenTenant:
        """Erase all that is kept of a tenant: memories, histories, vectors, counters, queued work,
        tombstones, names of its users and apps, and its bearer tokens.

        In transactions of a bounded size; after an interruption the same call goes on. Stop the
        tenant's agents first: what they save meanwhile may be there afterwards.

        Args:
            tenant: which one; "", of those who name none, is refused.
            limit: about how many memories at most; `done` then says whether something is left.
                None: all.
            who: for the receipts, which stay.

        Raises:
            InvalidInput: the tenant is empty, or can be no part of a scope.
        """
        return await self.parts.eraser.forget_tenant(tenant, limit, who=who)

    @verb("GET /receipts")
    async def receipts(
        self, *, tenant: Name | None = None, after: int = 0, limit: Count = 100
    ) -> Sequence[Receipt]:
        """Return what was forgotten of a tenant, oldest first, without any of its content.

        Args:
            tenant: which one; None: the setting's.
            after: only receipts with a higher number.
            limit: how many at most.
        """
        from ..stores.receipts import chain_id

        chain = chain_id(self.parts.settings.tenant if tenant is None else tenant)
        return await self.parts.store.receipts.read(chain, after=after, limit=limit)

    @verb("GET /receipts/check")
    async def check_receipts(self, *, tenant: Name | None = None) -> ReceiptCheck:
        """Check that every receipt is there as it was written; name those edited, removed, added or
        reordered.

        Args:
            tenant: which one's; None: of all tenants.
        """
        from .receipts import check_receipts

        return await check_receipts(self.parts.store.receipts, tenant)

    # -- the queue

    @verb("GET /jobs")
    async def jobs(
        self,
        *,
        scope: Scope | None = None,
        tenant: Name | None = None,
        user: Name | None = None,
        app: Name | None = None,
        state: JobState | None = None,
        limit: int = 100,
        id: str | None = None,
        payloads: bool = True,
    ) -> Sequence[Job]:
        """Return queued, running and dead jobs, oldest first.

        Args:
            scope: whose; None: everybody's.
            tenant: only those of scopes with this tenant.
            user: only those of scopes with this user.
            app: only those of scopes with this app.
            state: only those in this state.
            limit: how many at most.
            id: only the job of this id.
            payloads: also read what they carry, which may be much; a server keeps it to itself.
        """
        return await self.parts.store.queue.jobs(
            scope=scope,
            tenant=tenant,
            user=user,
            app=app,
            state=state,
            limit=limit,
            id=id,
            payloads=payloads,
        )

    @verb("POST /jobs/{job_id}/retry", durable=True)
    async def retry_job(self, job_id: str) -> None:
        """Queue a dead letter again.

        Raises:
            NotFound: no such dead letter.
        """
        await self.parts.store.queue.retry(job_id, now=self.parts.clock())
        self.parts.worker.wake()

    @verb("DELETE /jobs/{job_id}", durable=True)
    async def drop_job(self, job_id: str) -> None:
        """Delete a job that is not running.

        Raises:
            NotFound: no such job.
        """
        await self.parts.store.queue.drop(job_id)

    @verb("POST /drain")
    async def drain(self, timeout: float = 30.0) -> bool:  # noqa: ASYNC109 the name ADK's users know
        """Wait until every accepted job is done.

        Jobs that wait for their time (a session's inactivity, consolidation) are not waited for.

        Returns:
            False when `timeout` seconds pass first, when the store is away, or when it holds dead
            letters: those are accepted and never done. The log says what is left.
        """
        end = time.monotonic() + timeout
        if filling := [task for task in self._background if task.get_name() == BACKFILL]:
            await asyncio.wait(filling, timeout=timeout)  # until it has queued all that it embeds
        return await self.parts.drain(max(0.0, end - time.monotonic()))

    @verb()
    async def work(self, *, until_idle: bool = False, stop: asyncio.Event | None = None) -> int:
        """Work on the queue in this task, until told to stop or until nothing is due; return how
        many jobs ended.
        """
        worker = self.parts.worker
        if until_idle:
            return await worker.work_until_idle()
        before = worker.finished
        await worker.work(stop or self._stop)
        return worker.finished - before

    # -- maintenance

    @verb("POST /prune", durable=True)
    async def prune(self, *, dry_run: bool = False) -> Pruned:
        """Delete what has expired and extend what is popular, in every scope; then erase what has
        outlived its use, where the policy says so, and evict the least important from scopes that
        hold more than `max_memories`.

        Expired and delivered fewer than `popular_after` times since its last extension: deleted. As
        often or more: extended by its own TTL, and its count begins anew. Pinned memories stay.

        A dry run counts what would be extended as gone already when it looks for scopes that hold
        too many.

        Returns:
            The counts, and a reason for each memory that goes.
        """
        return await self.parts.prune(dry_run=dry_run)

    @verb("POST /consolidate", durable=True)
    async def consolidate(self, scope: Scope, *, dry_run: bool = False) -> tuple[Change, ...]:
        """Merge what says the same in a scope, keeping lineage; return the changes, made or only
        planned.

        The configured model words what several memories become; without one nothing merges.
        Explicit saves merge only here, never in the background. With `summarize_after_days`, groups
        of old episodic memories about the same are summed up as well, at most ten at a time.

        Raises:
            ModelError: the model is unavailable, or its answer cannot be used; what was made before
                stands.
        """
        return await self.parts.handlers.consolidate(scope, dry_run=dry_run)

    @verb("GET /audit")
    async def audit(
        self,
        scope: Scope | Scopes | None = None,
        *,
        defects: Sequence[Defect] | None = None,
        most: Count = MAX_FINDINGS,
        progress: Progress | None = None,
    ) -> Audit:
        """Look for defects in what is kept, with memory ids as evidence; calls no model and changes
        nothing.

        `exact_duplicate`: visible memories that say the same word for word. `near_duplicate`: two
        facts that say the same in other words. `contradiction`: visible values of one attribute, or
        two facts of which one denies what the other says. `recall_loop`: what an agent or a tool
        said repeats an older memory. `secret`, `personal_data`: in a memory of any state or in its
        history, found as the redaction finds it; without the setting `pii`, e-mail addresses, cards
        and IP addresses alone. `never_delivered`: visible, older than a day
        and never handed over.
        `without_vector`: visible, and without a vector in the embedding space that searches go by.
        `orphan`: counters, history or vectors without their memory, and memories whose successor is
        gone.

        Args:
            scope: whose memories; or all scopes of a tenant, a user or an app; None: all.
            defects: only these.
            most: findings of each defect at most; `counts` count all.
            progress: called with the number of further memories that were looked at.

        Raises:
            InvalidInput: a defect is unknown.
        """
        from .audit import audit_scope

        wanted = checked_defects(defects)
        total = Audit(counts=dict.fromkeys(wanted, 0) if isinstance(scope, Scope) else {})
        async for each in self.each_scope(scope):
            part = await audit_scope(self.parts, each, defects=wanted, most=most, progress=progress)
            total = total.plus(part, most)
        return total

    async def each_scope(self, which: Scope | Scopes | None) -> AsyncGenerator[Scope]:
        """Yield every scope that a pattern means; None: all that exist."""
        if isinstance(which, Scope):
            yield which
            return
        tenant, user, app = (which.tenant, which.user, which.app) if which else (None, None, None)
        after: Scope | None = None
        while page := await self.scopes(tenant=tenant, user=user, app=app, after=after):
            for scope in page:
                yield scope
            after = page[-1]

    @verb("GET /export")
    async def export(
        self,
        *,
        tenant: Name | None = None,
        user: Name | None = None,
        app: Name | None = None,
        vectors: bool = False,
    ) -> AsyncGenerator[str]:
        """Yield all memories as lines of JSON in the documented format: with history, usage and
        expiry, superseded and expired ones too. Holds a part of them at a time.

        Args:
            tenant: only of this tenant; None: of any.
            user: only of this user.
            app: only of this app.
            vectors: with their vectors, which then need not be made anew where they are imported.

        Raises:
            NotFound: the server's caller may not see them.
        """
        from .transfer import export

        async for line in export(self.parts, tenant=tenant, user=user, app=app, vectors=vectors):
            yield line

    @verb("POST /import")
    async def import_(
        self,
        path: Path | str,
        *,
        tenant: Name | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Imported:
        """Import what `export` wrote: all of it or nothing.

        The file is read to its end before anything is written. Memories that are there already, or
        were forgotten here, are left as they are, so calling again continues an interrupted import.
        Vectors in the file are kept where the store has the same embedding space, or none yet; the
        embedder makes the others.

        Args:
            path: the file; its text is stored as it is, secrets included.
            tenant: the only tenant whose memories the file may hold; None: any.
            dry_run: only count what would be done.
            progress: called with the number of memories done so far.

        Raises:
            InvalidInput: the file is no export, of another version, damaged, or of another tenant.
            ConfigurationError: the store cannot import.
            ModelError: the embedder, which must say whether the file's vectors are its own, is
                unavailable.
        """
        from .transfer import import_

        return await import_(self.parts, path, tenant=tenant, dry_run=dry_run, progress=progress)

    @verb()
    async def reembed(
        self,
        embedding: EmbedderChoice = None,
        *,
        drop_old: bool = False,
        progress: Progress | None = None,
    ) -> Reembedded:
        """Embed the store anew by another embedder, beside the vectors that exist, and switch to
        the new ones when none is missing. After an interruption the same call goes on.

        Searches ask both meanwhile, and what is saved here goes to the new one; what other
        processes save is embedded by it later.

        Args:
            embedding: as `open` takes it; None: the setting.
            drop_old: drop the replaced vectors at the end: whoever still searches them answers by
                words.
            progress: called with the number of memories embedded so far.

        Raises:
            ConfigurationError: no embedder is named, or the store cannot.
            ModelError: it is unavailable, or answers what cannot be used; call again to go on.
            Conflict: somebody began to replace the embedder by yet another one.
        """
        return await self.parts.reembed(embedding, drop_old=drop_old, progress=progress)

    @verb()
    async def rotate_keys(self, *, dry_run: bool = False) -> Rotated:
        """Encrypt with the first of the `encryption_keys` whatever it did not encrypt; after an
        interruption the same call goes on.
        """
        return await self.parts.store.memories.rotate_keys(dry_run=dry_run)

    @verb("GET /check")
    async def check(self) -> Mapping[str, str]:
        """Return what a doctor wants to know; raises nothing of ours.

        Returns:
            `store` and `embedding`: "ok", or what is wrong ("keyword mode" without an embedder);
            and what the store says about itself: `database`, `extension`, `migrations`, the `nodes`
            of a Citus cluster with the tables that are `undistributed`, and the rights it is
            `lacking`. Where none is lacking, `writing`: "ok" when a row could be
            written, or what is wrong.
        """
        parts, findings = self.parts, {"store": "ok", "embedding": "keyword mode"}
        try:
            findings.update(await parts.store.memories.about())
        except KagentMemoryError as error:
            findings["store"] = str(error)
        else:
            if "lacking" not in findings:
                findings["writing"] = await _outcome(
                    parts.store.queue.lease("doctor", new_id(), seconds=1)
                )
        if parts.vectors is not None:
            findings["embedding"] = await _outcome(parts.vectors.ping())
        if findings["store"] == findings["embedding"] == "ok" and (
            lacking := await parts.count_lacking()
        ):
            findings["unembedded"] = str(lacking)
        return findings


async def _outcome(attempt: Awaitable[object]) -> str:
    """Return "ok" if an attempt succeeds, else what is wrong."""
    try:
        await attempt
    except KagentMemoryError as error:
        return str(error)
    return "ok"
