"""The verbs that look after a store: the queue, prune, audit, export and import."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from ..concurrency import run_in_thread
from ..errors import ConfigurationError
from ..ingestion import reembedding
from ..ingestion.consolidation import merge
from ..ingestion.reembedding import Reembedded
from ..models.embedding import open_embedder
from ..records import Change, Scope, Scopes
from ..retrieval.embedding_spaces import StoreEmbedder
from ..stores.values import Rotated, ScopeStats
from .audit import DEFECTS, MAX_FINDINGS, Audit, audit_scope
from .diagnosis import Diagnosis, diagnose
from .opened import Opened
from .transfer import READ, ExportFile, Imported, export, import_file
from .types import Count, Defects, EmbedderChoice, Name, Progress
from .verbs import verb


class Maintenance(Opened):
    """The verbs of `Memories` for those who run a store."""

    @verb("GET /stats")
    async def stats(self, scope: Scope) -> ScopeStats:
        """Return counts of the scope."""
        popular_after = self.settings.popular_after
        return await self.store.stats(scope, now=self.clock(), popular_after=popular_after)

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
        return await self.store.scopes(tenant=tenant, user=user, app=app, after=after, limit=limit)

    @verb("POST /consolidate", durable=True)
    async def consolidate(self, scope: Scope, *, dry_run: bool = False) -> tuple[Change, ...]:
        """Merge what says the same in a scope, keeping lineage; return the changes, made or only
        planned.

        The configured model words what several memories become; without one nothing merges.
        Explicit saves merge only here, never as a session is learnt from.

        Raises:
            ModelError: the model is unavailable, or its answer cannot be used; nothing changes.
        """
        if (llm := self.providers.llm) is None:
            return ()
        now = self.clock()
        return tuple(await merge(self.store, self.vectors, scope, llm, now=now, dry_run=dry_run))

    @verb("GET /audit")
    async def audit(
        self,
        scope: Scope | Scopes | None = None,
        *,
        defects: Defects = DEFECTS,
        most: Count = MAX_FINDINGS,
        progress: Progress | None = None,
    ) -> Audit:
        """Look for defects in what is kept, with memory ids as evidence; calls no model and changes
        nothing.

        - `exact_duplicate`: visible memories that say the same word for word.
        - `near_duplicate`: two facts that a model found to say the same.
        - `contradiction`: visible values of one attribute, or a saved fact beside one that a model
          would have put in its place.
        - `recall_loop`: what an agent or a tool said repeats an older memory.
        - `secret`, `personal_data`: in a memory of any state or in its history, found as the
          redaction finds it; without the setting `pii`, e-mail addresses, cards and IP addresses
          alone.

        Args:
            scope: whose memories; or all scopes of a tenant, a user or an app; None: all.
            defects: which ones, one at least.
            most: findings of each defect at most; `counts` count all.
            progress: called after each of several scopes with how many memories are read.

        Raises:
            InvalidInput: a defect is unknown.
        """
        if isinstance(scope, Scope):
            return await audit_scope(self, scope, defects=defects, most=most)
        total = Audit()
        async for each in self.each_scope(**asdict(scope) if scope else {}):
            total = total.plus(await self.audit(each, defects=defects, most=most), most)
            if progress is not None:
                progress(total.memories)
        return total

    async def each_scope(
        self, *, tenant: str | None = None, user: str | None = None, app: str | None = None
    ) -> AsyncGenerator[Scope]:
        """Yield every scope of a tenant, user or app; without any, all that exist."""
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
            vectors: with the vectors that callers brought; the embedder's are made anew where they
                are imported.

        Raises:
            NotFound: the server's caller may not see them.
        """
        scopes = self.each_scope(tenant=tenant, user=user, app=app)
        async for line in export(self, scopes, vectors=vectors):
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
        Vectors in the file that callers brought are kept; the embedder makes its own, later.

        Args:
            path: the file; its text is stored as it is, secrets included.
            tenant: the only tenant whose memories the file may hold; None: any.
            dry_run: only count what would be done.
            progress: called with the number of memories done so far.

        Raises:
            InvalidInput: the file is no export, of another version, damaged, or of another tenant.
            ConfigurationError: the store cannot import.
        """
        file = await run_in_thread(READ, ExportFile.checked, Path(path), tenant)
        return await import_file(self, file, dry_run=dry_run, progress=progress)

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
        settings = self.settings
        choice = settings.embedding if embedding is None else embedding
        embedder = await asyncio.to_thread(open_embedder, choice, settings)  # imports take seconds
        if embedder is None:
            raise ConfigurationError("Name the embedder that the memories are to be embedded by.")
        successor = StoreEmbedder(self.store, embedder, settings, replaces=True)
        done = await reembedding.reembed(
            self.store,
            successor,
            batch_size=settings.batch_size,
            clock=self.clock,
            progress=progress or (lambda _: None),
        )
        if self.vectors is not None:
            self.vectors.succeed(successor)
        if not drop_old:
            return done
        return replace(done, dropped=tuple(await self.store.memories.spaces.drop_retired()))

    @verb()
    async def rotate_keys(self, *, dry_run: bool = False) -> Rotated:
        """Encrypt with the first of the `encryption_keys` whatever it did not encrypt; after an
        interruption the same call goes on.
        """
        return await self.store.memories.rotate_keys(dry_run=dry_run)

    @verb("GET /check")
    async def check(self) -> Sequence[Diagnosis]:
        """Look at the database, its rights, queue and keys, the embedder and the model, each of
        which is asked; say what to do about what does not work. Raises nothing of ours.
        """
        return await diagnose(self)
