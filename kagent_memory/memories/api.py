"""The verbs of memory, declared once: in process, behind a thread's event loop, and over a server they are the same."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from typing_extensions import Unpack

from ..records import (
    Change,
    Fact,
    Filter,
    Memory,
    MemoryType,
    Message,
    Recall,
    Revision,
    Scope,
    Scopes,
    Vector,
    WhichScopes,
)
from ..retrieval.options import RecallOptions
from .findings import MOST_FINDINGS, Audit, Defect, Progress
from .forwarding import Call, blocking, forwarded, over_http
from .options import ExportOptions, JobOptions, ScopeOptions

if TYPE_CHECKING:
    from ..models.llm import Llm
    from ..stores.base import Job, Order, Page, Pruned, ScopeStats
    from ..stores.receipts import Receipt
    from ..stores.values import ForgottenTenant
    from .receipts import ReceiptCheck
    from .transfer import Imported

Items: TypeAlias = Sequence[Fact | str]
Result = TypeVar("Result")


class MemoryApi(ABC):
    """What can be done with memories, whoever keeps them: `Memories` here, a service's thread, or a server."""

    # -- writing

    @abstractmethod
    async def remember(
        self,
        scope: Scope,
        messages: Sequence[Message],
        session_id: str,
        *,
        ended: bool = False,
        save: bool = True,
        end_after_minutes: float | None = None,
        compaction: bool = False,
        llm: Llm | str | None = None,
    ) -> str | None:
        """Queues a transcript and returns when that is durable; a worker ingests it.

        Args:
            scope: whose.
            messages: all of the session so far, or some of it; events ingested before are left out.
            session_id: the session they belong to.
            ended: the session is over.
            save: False only arms the timer.
            end_after_minutes: (re)arms a durable timer: after so long without another call the session counts as
                ended and what was not ingested by then is.
            compaction: uses the summaries that ADK's compaction made; the provider gets only the rest.
            llm: the model at hand when none is configured; its name, where the model itself is elsewhere: a worker that
                can make it of its name ingests the transcript. A server is told the name only.

        Returns:
            The job's id; None when there was nothing new.
        """

    @over_http("POST", "/sessions/end")
    @abstractmethod
    async def end_session(self, scope: Scope, session_id: str) -> None:
        """Runs the session's armed timer now; harmless without one."""

    @abstractmethod
    async def add(
        self,
        scope: Scope,
        items: Items,
        *,
        embedding: Sequence[Vector] | None = None,
        embedding_space: str | None = None,
        who: str = "",
        replaces: str | None = None,
    ) -> list[str]:
        """Stores memories as given, whole or not at all; returns when they are durable.

        Args:
            scope: whose.
            items: facts or bare texts. One that is there already is revived and its id returned.
            embedding: vectors the caller brings, one an item.
            embedding_space: the name of the one they belong to, if the store holds vectors of that embedder;
                else they are kept apart, as "external-<width>": the default, but for a scope that holds others of
                another width only. A tenant's callers may bring 8 widths, and kagent's 768 beside them.
            who: for the history.
            replaces: the id of the memory that the single item corrects; it stays as history.

        Returns:
            The ids, in order; `DROPPED` for an item that was left out because of `pii="drop"`.

        Raises:
            InvalidInput: an item or vector does not fit.
            NotFound: `replaces` names no memory.
            UnusableAnswer: the embedder answered NaN, zeros or another width. One that is away is no error: the
                memories are stored, and embedded later.
            ConfigurationError: the embedder is not the one whose vectors the store holds.
        """

    @abstractmethod
    async def edit(
        self,
        scope: Scope,
        id: str,
        *,
        content: str | None = None,
        type: MemoryType | None = None,
        topics: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        importance: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        category: str | None = None,
        ttl_days: int | None = None,
        happened_at: datetime | None = None,
        revision: int | None = None,
        who: str = "",
        why: str = "",
    ) -> Memory:
        """Sets what is given and keeps the former state in the history; a new TTL counts from now. An empty
        category takes it off.

        Returns:
            The memory as it is then; as it was when that is no change.

        Raises:
            NotFound: no such memory.
            Conflict: it is no longer at `revision`, or would equal another memory.
            InvalidInput: a value does not fit, or none is given.
            UnusableAnswer: the embedder answered NaN, zeros or another width for the new content.
        """

    @over_http("PUT", "/memories/{id}/pin")
    @abstractmethod
    async def pin(self, scope: Scope, id: str, pinned: bool = True, *, who: str = "") -> Memory:
        """Keeps a memory from ever expiring, or lets it go again; one whose time is over by then lives its TTL anew.

        Raises:
            NotFound: no such memory.
        """

    @abstractmethod
    async def forget(
        self,
        scope: Scope,
        ids: Sequence[str] | str = (),
        *,
        session_id: str | None = None,
        tag: str | None = None,
        author: str | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        filter: Filter | None = None,
        everything: bool = False,
        dry_run: bool = False,
        who: str = "",
    ) -> tuple[str, ...]:
        """Erases memories for good, with their history and what is queued of them; gives the erased ids.

        One way of three: by ids; by conditions, all of which must hold, also of what is expired or superseded; or
        everything. With a memory goes what was superseded by it or merged into it, what a merge made of it, and what is
        history and says the same: so more may go than was named.

        More than 1,000 memories chosen by conditions or as everything go in several transactions; interrupted, the same
        call goes on.

        Args:
            scope: whose.
            ids: of the memories.
            session_id: those of this session; alone, what is queued of it goes too.
            tag: those with this tag.
            author: those of this author; alone or with a session, what is queued of theirs goes too.
            before: those added before this time.
            after: those added at this time or later.
            filter: those that it lets through.
            everything: all memories of the scope, and its queue.
            dry_run: erases nothing and gives the ids that would be erased.
            who: for the receipt, which says of this that it was done, and nothing of the content.

        Raises:
            InvalidInput: more than one way is named, or the conditions let all through or contradict each other.
            NotFound: one of the given ids is not there; the others are erased all the same.
        """

    @over_http("POST", "/memories/{id}/undo")
    @abstractmethod
    async def undo(self, scope: Scope, id: str, *, who: str = "") -> tuple[Memory, ...]:
        """Takes back the last change of a memory, with all that the same decision changed; byte for byte.

        Undoing again goes one change further back, until nothing is left to undo; it never redoes what was undone.

        Raises:
            NotFound: no such memory, it has expired, or nothing is left to undo.
            Conflict: one of the memories was changed again since, or it has expired.
        """

    @over_http("POST", "/memories/{id}/confirm")
    @abstractmethod
    async def confirm(self, scope: Scope, id: str, *, who: str = "") -> Memory:
        """Lets a memory out of quarantine: from now on it is found, and its life begins anew.

        `list(filter=Filter(superseded="quarantined"))` gives those that wait; see the setting `quarantine`.

        Returns:
            The memory as it is then. `undo` puts it back into quarantine.

        Raises:
            NotFound: none of this id waits, or it has expired.
            Conflict: another memory says the same by now, or somebody else was first.
        """

    @abstractmethod
    async def reject(self, scope: Scope, id: str, *, who: str = "") -> tuple[str, ...]:
        """Erases a memory in quarantine, as `forget` erases one; gives the erased ids.

        Raises:
            NotFound: none of this id waits, or it has expired.
        """

    @over_http("POST", "/memories/{id}/feedback")
    @abstractmethod
    async def feedback(self, scope: Scope, id: str, *, success: bool) -> None:
        """Counts that a memory helped, or that it misled.

        Raises:
            NotFound: no such memory, or it has expired or was superseded.
        """

    # -- reading

    @abstractmethod
    async def recall(self, scope: WhichScopes, query: str, **options: Unpack[RecallOptions]) -> Recall:
        """The memories that answer a query, best first.

        Args:
            scope: whose; or those of several scopes ranked together, as if all lay in one: a list of them, or
                `Scopes(…)` for all of a user's agents or of a tenant. At most 1,000 in all.
            query: natural language, up to 16,384 characters; may be empty when `embedding` is given.
            options: see `RecallOptions`.

        Raises:
            InvalidInput: the query, limit, vector or time does not fit, or there are none or too many scopes.
            StoreError: the database is unavailable. An unavailable embedder only lowers the mode.
        """

    @over_http("GET", "/memories/{id}")
    @abstractmethod
    async def get(self, scope: Scope, id: str, *, superseded: bool = False) -> Memory:
        """One visible memory.

        Args:
            scope: whose.
            id: of the memory.
            superseded: also one that another has taken the place of.

        Raises:
            NotFound: no such memory, or it has expired.
        """

    @abstractmethod
    async def list(
        self,
        scope: Scope,
        *,
        filter: Filter = Filter(),
        order: Order = "newest",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        """A page of visible memories; counts nothing."""

    @over_http("GET", "/memories/{id}/history")
    @abstractmethod
    async def history(self, scope: Scope, id: str) -> Sequence[Revision]:
        """What happened to a memory, oldest first: who, why, and what it was before; also to a superseded one.

        Raises:
            NotFound: no such memory, or it has expired.
        """

    @over_http("GET", "/stats")
    @abstractmethod
    async def stats(self, scope: Scope) -> ScopeStats:
        """Counts of the scope."""

    @abstractmethod
    async def scopes(self, **options: Unpack[ScopeOptions]) -> Sequence[Scope]:
        """Scopes that hold memories or jobs, in order of (tenant, app, user).

        Args:
            options: see `ScopeOptions`.
        """

    # -- the queue and maintenance

    @abstractmethod
    async def jobs(self, **options: Unpack[JobOptions]) -> Sequence[Job]:
        """Queued, running and dead jobs, oldest first; of one scope, or of all with this tenant, user and app.

        Args:
            options: see `JobOptions`.
        """

    @over_http("POST", "/jobs/{job_id}/retry")
    @abstractmethod
    async def retry_job(self, job_id: str) -> None:
        """Queues a dead letter again.

        Raises:
            NotFound: no such dead letter.
        """

    @over_http("DELETE", "/jobs/{job_id}")
    @abstractmethod
    async def drop_job(self, job_id: str) -> None:
        """Deletes a job that is not running.

        Raises:
            NotFound: no such job.
        """

    @over_http("POST", "/prune")
    @abstractmethod
    async def prune(self, *, dry_run: bool = False) -> Pruned:
        """Deletes what has expired and extends what is popular, in every scope; then erases what has outlived its use,
        where the policy or its parts say so, and evicts the least important from scopes that hold more than
        `max_memories`. Gives a reason for each memory that goes.

        Expired and delivered fewer than `popular_after` times since its last extension: deleted. As often or more:
        extended by its own TTL, and its count begins anew. Pinned memories stay.

        A dry run counts what would be extended as gone already when it looks for scopes that hold too many.
        """

    @abstractmethod
    async def forget_tenant(self, tenant: str, *, limit: int | None = None, who: str = "") -> ForgottenTenant:
        """Erases all that is kept of a tenant: memories, histories, vectors, counters, queued work, tombstones, names
        of its users and apps, and its bearer tokens.

        In transactions of a bounded size; one that was interrupted goes on when it is called again. Stop the tenant's
        agents first: what they save meanwhile may be there afterwards.

        Args:
            tenant: which one; "", of those who name none, is refused.
            limit: about how many memories at most; `done` then says whether something is left. None: all.
            who: for the receipts, which stay.

        Raises:
            InvalidInput: the tenant is empty, or can be no part of a scope.
        """

    @abstractmethod
    def export(self, **options: Unpack[ExportOptions]) -> AsyncGenerator[str]:
        """All memories of the scopes with this tenant, user and app, as lines of JSON in the documented format: with
        history, usage and expiry, superseded and expired ones too. Holds some of them at a time.

        Args:
            options: see `ExportOptions`.

        Raises:
            InvalidInput: tenant, user or app can be no part of a scope.
            NotFound: the server's caller may not see them.
        """

    @abstractmethod
    async def import_(
        self,
        path: Path | str,
        *,
        tenant: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Imported:
        """Import what `export` wrote: all of it or nothing.

        The file is read to its end before anything is written. Memories that are there already, or were forgotten
        here, are left as they are, so calling again continues an interrupted import. Vectors in the file are kept
        where the store has the same embedding space, or none yet; the embedder makes the others.

        Args:
            path: the file; its text is stored as it is, secrets included.
            tenant: the only tenant whose memories the file may hold; None: any.
            dry_run: only count what would be done.
            progress: called with the number of memories done so far.

        Raises:
            InvalidInput: the file is no export, of another version, damaged, or of another tenant.
            ConfigurationError: the store cannot import.
            ModelError: the embedder, which must say whether the file's vectors are its own, is unavailable.
        """

    @abstractmethod
    async def receipts(self, *, tenant: str | None = None, after: int = 0, limit: int = 100) -> Sequence[Receipt]:
        """What was forgotten of a tenant, oldest first, without any of its content.

        Args:
            tenant: whose; None: of the setting's.
            after: only receipts with a higher number.
            limit: how many at most.
        """

    @over_http("GET", "/receipts/check")
    @abstractmethod
    async def check_receipts(self, *, tenant: str | None = None) -> ReceiptCheck:
        """Whether every receipt is there and as it was written: those edited, removed, added or put in another order
        are named.

        Args:
            tenant: whose; None: of all tenants.
        """

    @abstractmethod
    async def audit(
        self,
        scope: Scope | Scopes | None = None,
        *,
        defects: Collection[Defect] | None = None,
        most: int = MOST_FINDINGS,
        progress: Progress | None = None,
    ) -> Audit:
        """Looks for defects in what is kept, with memory ids as evidence; calls no model and changes nothing.

        `exact_duplicate`: visible memories that say the same word for word. `near_duplicate`: two facts that say the
        same in other words. `contradiction`: visible values of one attribute, or two facts of which one denies what
        the other says. `recall_loop`: what an agent or a tool said repeats an older memory. `secret`,
        `personal_data`: in a memory of any state or in its history, found as the redaction finds it.
        `never_delivered`: visible and never handed over. `without_vector`: visible, and without a vector in the
        embedding space that searches go by. `orphan`: counters, history or vectors without their memory, and memories
        whose successor is gone.

        Args:
            scope: whose; or of all scopes of a tenant, a user or an app; None: of all.
            defects: only these.
            most: findings of each defect at most; `counts` count all.
            progress: is told how many more memories were looked at.

        Raises:
            InvalidInput: a defect is unknown.
        """

    @over_http("POST", "/consolidate")
    @abstractmethod
    async def consolidate(self, scope: Scope, *, dry_run: bool = False) -> tuple[Change, ...]:
        """Merges what says the same in a scope, keeping lineage; gives the changes, made or only planned.

        The configured model words what several memories become; without one nothing merges. Explicit saves merge only
        here, never in the background. With `summarize_after_days`, groups of old episodic memories about the same are
        summed up as well, at most ten at a time.

        Raises:
            ModelError: the model is unavailable, or its answer cannot be used; what was made before stands.
        """

    @abstractmethod
    async def check(self) -> Mapping[str, str]:
        """What a doctor wants to know; raises nothing of ours.

        Returns:
            `store` and `embedding`: "ok", or what is wrong ("keyword mode" without an embedder); and what the store
            says about itself: `database`, `extension`, `migrations`, and the rights it is `lacking`. Where none is
            lacking, `writing`: "ok" when a row could be written, or what is wrong.
        """

    @abstractmethod
    async def drain(self, timeout: float = 30.0) -> bool:  # noqa: ASYNC109 the name ADK's users know
        """Waits until every accepted job is done; False when `timeout` seconds pass first, when the store is away, or
        when dead letters lie in it: those are accepted and not done, however long one waits. The log says what is left.

        Jobs that wait for their time (a session's inactivity, consolidation) are not waited for.
        """


class ForwardedVerbs:
    """The verbs, each a call that is made elsewhere."""

    remember = forwarded(MemoryApi.remember, finish=True)
    end_session = forwarded(MemoryApi.end_session, finish=True)
    add = forwarded(MemoryApi.add, finish=True)
    edit = forwarded(MemoryApi.edit, finish=True)
    pin = forwarded(MemoryApi.pin, finish=True)
    forget = forwarded(MemoryApi.forget, finish=True)
    undo = forwarded(MemoryApi.undo, finish=True)
    confirm = forwarded(MemoryApi.confirm, finish=True)
    reject = forwarded(MemoryApi.reject, finish=True)
    feedback = forwarded(MemoryApi.feedback, finish=True)
    recall = forwarded(MemoryApi.recall)
    get = forwarded(MemoryApi.get)
    list = forwarded(MemoryApi.list)
    history = forwarded(MemoryApi.history)
    stats = forwarded(MemoryApi.stats)
    scopes = forwarded(MemoryApi.scopes)
    jobs = forwarded(MemoryApi.jobs)
    retry_job = forwarded(MemoryApi.retry_job, finish=True)
    drop_job = forwarded(MemoryApi.drop_job, finish=True)
    prune = forwarded(MemoryApi.prune, finish=True)
    forget_tenant = forwarded(MemoryApi.forget_tenant, finish=True)
    import_ = forwarded(MemoryApi.import_)
    receipts = forwarded(MemoryApi.receipts)
    check_receipts = forwarded(MemoryApi.check_receipts)
    audit = forwarded(MemoryApi.audit)
    consolidate = forwarded(MemoryApi.consolidate)
    check = forwarded(MemoryApi.check)
    drain = forwarded(MemoryApi.drain)


class ForwardingMemories(ForwardedVerbs, MemoryApi):
    """The verbs of memories that are reached another way."""

    @abstractmethod
    async def _forward(self, call: Call[Result], *, finish: bool) -> Result:
        """The answer of a call; `finish`: what was begun is not undone when the caller goes away."""


class BlockingVerbs:
    """The verbs as plain methods, for programs without an event loop."""

    remember = blocking(MemoryApi.remember)
    end_session = blocking(MemoryApi.end_session)
    add = blocking(MemoryApi.add)
    edit = blocking(MemoryApi.edit)
    pin = blocking(MemoryApi.pin)
    forget = blocking(MemoryApi.forget)
    undo = blocking(MemoryApi.undo)
    confirm = blocking(MemoryApi.confirm)
    reject = blocking(MemoryApi.reject)
    feedback = blocking(MemoryApi.feedback)
    recall = blocking(MemoryApi.recall)
    get = blocking(MemoryApi.get)
    list = blocking(MemoryApi.list)
    history = blocking(MemoryApi.history)
    stats = blocking(MemoryApi.stats)
    scopes = blocking(MemoryApi.scopes)
    jobs = blocking(MemoryApi.jobs)
    retry_job = blocking(MemoryApi.retry_job)
    drop_job = blocking(MemoryApi.drop_job)
    prune = blocking(MemoryApi.prune)
    forget_tenant = blocking(MemoryApi.forget_tenant)
    import_ = blocking(MemoryApi.import_)
    receipts = blocking(MemoryApi.receipts)
    check_receipts = blocking(MemoryApi.check_receipts)
    audit = blocking(MemoryApi.audit)
    consolidate = blocking(MemoryApi.consolidate)
    check = blocking(MemoryApi.check)
    drain = blocking(MemoryApi.drain)
