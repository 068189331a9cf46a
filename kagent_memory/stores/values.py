"""Values that go into a store and come out of it, frozen, and the checks of keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from ..checks import checked_key
from ..errors import InvalidInput
from ..records import (
    EVERYTHING,
    SEALED,
    Change,
    Filter,
    Memory,
    Revision,
    Scope,
    Usage,
    Vector,
    new_id,
)
from .codec import MAX_LIMIT, Texts, is_id

JobKind: TypeAlias = Literal["transcript", "session_end", "embed"]
JobState: TypeAlias = Literal["queued", "running", "dead"]
Numbers: TypeAlias = npt.NDArray[np.int64]
SESSION_END = ""
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
"""A time before any memory expires: what is visible then is all that is kept."""


class OpenOptions(TypedDict, total=False):
    """Options of opening a store; a store leaves aside what means nothing to it, and what is
    left out is at its default.

    Attributes:
        schema: of the server's database; two schemas are two stores.
        cache_mb: the most that is kept in memory of the indexes of the scopes searched last, in
            MiB.
        pool_size: the most connections at a time.
        statement_timeout_seconds: the longest that one statement may take.
        rls: switches row level security on; once it is, every store finds out.
        encryption_keys: what `KeyRing.parse` takes; None: rows are not encrypted.
        read_uri: a standby that searches and lists are read from; None: all is read where it is
            written.
        pool: the caller's own connections to PostgreSQL, or a function that makes them, instead of
            ours.
    """

    schema: str
    cache_mb: int
    pool_size: int
    statement_timeout_seconds: float
    rls: bool
    encryption_keys: str | None
    read_uri: str | None
    pool: object


class ScopeQuery(TypedDict, total=False):
    """Conditions on scopes: their tenant, user and app, and the last one of the page before."""

    tenant: str | None
    user: str | None
    app: str | None
    after: Scope | None
    limit: int


Order: TypeAlias = Literal["newest", "oldest"]
Applied: TypeAlias = tuple[str | None, ...]
"""The result of a batch: for every change, in order, the id that now holds it; None: a tombstone
held it back.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQuery:
    """Which visible memories of a scope are read, in which order: at most one of ids, slots and
    lacking, which come without other conditions than here.

    Attributes:
        now: when they are visible.
        filter: lets them through.
        ids: these alone, kept turns too, in any order and state that the filter names.
        slots: those with subject and attribute in one of these (`tokenizer.slot`), no turns, oldest
            first, up to the limit.
        lacking: those without a vector of the embedding space of this number, kept turns and
            short-term ones too, oldest first, up to the limit.
        order: by the time they were made, ties by id.
        after: the time and the id of the one before the first.
        limit: how many at most.
    """

    now: datetime
    filter: Filter = EVERYTHING
    ids: Sequence[str] | None = None
    slots: Sequence[str] | None = None
    lacking: int | None = None
    order: Order = "newest"
    after: tuple[datetime, str] | None = None
    limit: int = MAX_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """Memories to forget.

    Attributes:
        ids: of memories.
        session_id: a whole session.
        everything: all of the scope.
        event_ids: events that must not be taken in any more.
        dry_run: erase nothing, only say what would be.
        who: asked for it; None: no receipt.
        now: the time.
    """

    ids: Sequence[str] = ()
    session_id: str | None = None
    everything: bool = False
    event_ids: Sequence[str] = ()
    dry_run: bool = False
    who: str | None = None
    now: datetime


class Stale(Exception):
    """Raised by a view that answered from what does not hold any more: see `MemoryStore.view`."""


class Behind(Stale):
    """The server that answers has not seen what was written or read before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A queued piece of work.

    Attributes:
        key: jobs of one scope, kind and key (not "") coalesce while queued: the later one replaces
            payload and run_after, and their `messages` are united. An inactivity timer lives as
            such a job.
        payload: what the work needs; each of its `messages`, if it has any, names its `event_id`.
        provider, model: which summary provider and model it must run with; "" means none.
        lease_until: on the database's clock.
        fence: moved by every claim; who holds an older one can no longer finish the job.
        attempts: times it was claimed, and not given back unharmed.
        failures: those of them that count towards a dead letter; what may pass does not.
        calls, tokens: what the model cost so far.
    """

    id: str
    scope: Scope
    kind: JobKind
    session_id: str = ""
    key: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any], metadata=SEALED)
    provider: str = ""
    model: str = ""
    state: JobState = "queued"
    attempts: int = 0
    run_after: datetime
    created_at: datetime
    lease_until: datetime | None = None
    owner: str = ""
    fence: int = 0
    error: str = field(default="", metadata=SEALED)
    calls: int = 0
    tokens: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Writes of one `apply`, whole or not at all.

    Attributes:
        vectors: by memory id, of `space_number`; a vector for a memory that exists already goes to
            the existing one.
        taken: (session_id, event_id) pairs taken in by this batch; if one was taken before:
            Conflict. `SESSION_END` as an event id says that the session has ended, until a later
            batch takes in an event of it.
        reinforced: ids of memories that were met again: expiry renewed by their own TTL.
        job: (id, fence) of the job that this batch ends; the row goes. Another fence: Conflict.
        calls, tokens: what the model cost for this batch; added to the scope's totals.
        expected_version: the scope's version that the changes were planned on; another: Conflict.
        jobs: follow-on jobs of the same scope, queued in the same transaction.
        texts: of its memories.
    """

    changes: Sequence[Change] = ()
    vectors: Mapping[str, Vector] = field(default_factory=dict[str, Vector])
    space_number: int | None = None
    taken: Sequence[tuple[str, str]] = ()
    reinforced: Sequence[str] = ()
    job: tuple[str, int] | None = None
    calls: int = 0
    tokens: int = 0
    expected_version: int | None = None
    jobs: Sequence[Job] = ()
    texts: Texts = field(default_factory=Texts, compare=False, repr=False)


USES = "retrieved", "delivered", "successes", "failures"
"""Of a memory, which are counted; the last two as a caller said that it helped, or did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Counts of uses of one scope's memories.

    Attributes:
        counts: each of `USES` → memory id → how many times; what is not there was none.
        at: when the last of them was.
    """

    scope: Scope
    counts: Mapping[str, Mapping[str, int]]
    at: datetime

    def added_to(self, memory: Memory) -> Usage:
        """Return the usage of a memory with these counts added to it."""
        old, times = memory.usage, self.counts.get("delivered", {}).get(memory.id, 0)
        new: dict[str, Any] = {
            name: getattr(old, name) + counts.get(memory.id, 0)
            for name, counts in self.counts.items()
        }
        if times:
            new["delivered_total"] = old.delivered_total + times
            new["last_delivered_at"] = max(old.last_delivered_at or self.at, self.at)
        return replace(old, **new)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatches:
    """Statistics of one scope for BM25, counted over the memories that are visible and pass the
    filter.

    Attributes:
        documents: how many memories there are.
        average_length: mean number of index terms of a memory; 0.0 when there are none.
        frequencies: term → in how many of them; terms that none holds are left out.
        matches: at most `limit`, those with the rarest terms first.
    """

    documents: int
    average_length: float
    frequencies: Mapping[str, int]
    matches: TermMatrix


class TermMatrix(NamedTuple):
    """The matches of a text search as arrays.

    Attributes:
        rows: (n,) of the memories in their index, in the order of the matches.
        terms: what the columns of `counts` stand for.
        lengths: (n,) number of index terms of each memory.
        counts: (n, terms) how often each memory holds each term.
    """

    rows: Numbers
    terms: Sequence[str]
    lengths: Numbers
    counts: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some memories in order, and the cursor of the next page (None at the end)."""

    memories: tuple[Memory, ...]
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeStats:
    """Counts of one scope: visible memories by type, expired not yet pruned, superseded, jobs by
    state, model costs.

    Attributes:
        quarantined: those that wait to be confirmed.
        short_term: those that are found in their session only.
        unused: those that have expired and were delivered too seldom to live on: the next prune
            deletes them.
        oldest_job_at: when the oldest job was accepted that is still open; None without one. In an
            outage of the model or the embedder it tells since when saves have been waiting.
    """

    visible: int = 0
    by_type: Mapping[str, int] = field(default_factory=dict[str, int])
    expired: int = 0
    unused: int = 0
    superseded: int = 0
    quarantined: int = 0
    short_term: int = 0
    pinned: int = 0
    delivered_total: int = 0
    jobs: Mapping[str, int] = field(default_factory=dict[str, int])
    oldest_job_at: datetime | None = None
    calls: int = 0
    tokens: int = 0
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingJobs:
    """The accepted jobs that are still open, over all scopes.

    Attributes:
        count: how many.
        oldest_at: when the oldest was accepted; None without one.
    """

    count: int = 0
    oldest_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """A memory with its usage, and its history, oldest first: all that travels from one store to
    another.

    Attributes:
        vectors: what `restore` is to keep of it, by the number of the embedding space; `whole`
            gives none.
    """

    memory: Memory
    revisions: tuple[Revision, ...] = ()
    vectors: Mapping[int, Vector] = field(default_factory=dict[int, Vector])


def every_state(memory: Memory, revisions: Sequence[Revision]) -> Sequence[Memory]:
    """Return a memory as it is, and as it ever was."""
    return (memory, *(revision.before for revision in revisions if revision.before is not None))


def with_after(
    memory: Memory, revisions: Sequence[Revision]
) -> Iterator[tuple[Revision, Memory | None]]:
    """Return the changes of a memory's history, oldest first, each with the memory as it was right
    after it.
    """
    return zip(revisions, (*(revision.before for revision in revisions[1:]), memory), strict=False)


Restored: TypeAlias = Literal["added", "present", "equal", "forgotten"]
"""What came of a memory that was to be restored: it is there now; it was there, by its id; another
one says the same; or it was forgotten here, and stays so."""


@dataclass(frozen=True, slots=True)
class Facets:
    """Number of memories that a filter lets through, and their topics and tags with counts, most
    frequent first.
    """

    total: int = 0
    topics: Mapping[str, int] = field(default_factory=dict[str, int])
    tags: Mapping[str, int] = field(default_factory=dict[str, int])


PruneReason: TypeAlias = Literal["expired", "faded", "capacity"]
MAX_LISTED = 100_000


@dataclass(frozen=True, slots=True)
class Gone:
    """A memory that a prune erased, or would erase, and why: its time to live was over, it had
    faded, or its scope held too many.
    """

    scope: Scope
    memory_id: str
    reason: PruneReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Result of a prune, or of a dry run of one.

    Attributes:
        deleted: expired ones that were erased.
        extended: expired ones that live on, because they are popular.
        evicted: living ones that were erased, because their scope held too many.
        faded: living ones that were erased, because little was left of their importance.
        gone: each of the erased ones with its reason; the first 100,000.
    """

    deleted: int = 0
    extended: int = 0
    evicted: int = 0
    faded: int = 0
    gone: tuple[Gone, ...] = field(default=(), compare=False)

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the numbers of memories by outcome."""
        names = ("deleted", "extended", "evicted", "faded")
        return {name: getattr(self, name) for name in names}

    @property
    def erased(self) -> int:
        """Return the number of memories that are gone."""
        return sum(self.counts.values()) - self.extended

    def __add__(self, other: Pruned) -> Pruned:
        total = {name: count + other.counts[name] for name, count in self.counts.items()}
        return Pruned(**total, gone=(*self.gone, *other.gone)[:MAX_LISTED])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """Counts of values that were encrypted anew.

    Attributes:
        key: the id of the key that it is encrypted with now.
        scopes: how many agents' users had something of another key, or plain.
        rows: how many memories, revisions, jobs and keys of digests were written anew.
    """

    key: str
    scopes: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenTenant:
    """Counts of what was erased of a tenant.

    Attributes:
        scopes: how many agents' users are gone whole.
        memories: how many memories were erased.
        tokens: how many bearer tokens were revoked.
        done: whether nothing is left; else the same call goes on.
    """

    scopes: int = 0
    memories: int = 0
    tokens: int = 0
    done: bool = True

    def __add__(self, other: ForgottenTenant) -> ForgottenTenant:
        return ForgottenTenant(
            scopes=self.scopes + other.scopes,
            memories=self.memories + other.memories,
            tokens=self.tokens + other.tokens,
            done=other.done,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A bearer token of the server.

    Attributes:
        digest: the SHA-256 of the secret, as hex; the secret itself is kept nowhere.
        tenant, user: whose memories it opens; without a user those of the whole tenant.
        label: for people.
        is_operator: opens every tenant, and what crosses them: the prune and the check.
    """

    id: str
    digest: str
    tenant: str
    user: str | None = None
    label: str = ""
    created_at: datetime
    expires_at: datetime | None = None
    is_operator: bool = False


def checked_job(job: Job) -> Job:
    """`job` itself, if a queue can keep it.

    Raises:
        InvalidInput: its id is not a UUID, or its session id or key is too long.
    """
    if not is_id(job.id):
        raise InvalidInput(f"The job's id {job.id!r} is not a UUID.")
    checked_key(job.session_id, "The job's session id")
    checked_key(job.key, "The job's key")
    return job


def embed_job(scope: Scope, now: datetime, space: str = "") -> Job:
    """Return the job that embeds whatever in the scope lacks a vector; one at a time is enough.

    Args:
        scope: whose.
        now: when it is due.
        space: the name of the embedder that must do it; "": any.
    """
    key = (
        f"embed {hashlib.blake2b(space.encode(), digest_size=8).hexdigest()}" if space else "embed"
    )
    return Job(
        id=new_id(now),
        scope=scope,
        kind="embed",
        key=key,
        model=space,
        run_after=now,
        created_at=now,
    )
