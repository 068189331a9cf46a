"""The values that go into and come out of a store, frozen, and the checks of keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, get_args

import numpy as np
import numpy.typing as npt

from ..checks import checked_key
from ..errors import InvalidInput
from ..records import (
    EVERYTHING,
    SEARCHED,
    Change,
    Filter,
    Memory,
    Revision,
    Scope,
    Sealed,
    Vector,
    new_id,
)
from .codec import MAX_LIMIT, Texts, is_id

JobKind: TypeAlias = Literal["transcript", "session_end", "embed"]
JobState: TypeAlias = Literal["queued", "running", "dead"]
Numbers: TypeAlias = npt.NDArray[np.int64]
SESSION_END = ""
WITH_SHORT_TERM = SEARCHED | {"short_term"}
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
"""A time before any memory expires: what is visible then is all that is kept."""


class OpenOptions(TypedDict, total=False):
    """The options of opening a store; a store ignores those without meaning for it.

    Attributes:
        schema: the schema in the server's database; two schemas are two stores.
        cache_mb: the memory for the indexes of the scopes searched last, in MiB.
        pool_size: the most connections.
        statement_timeout_seconds: the time limit of a statement.
        rls: switch row level security on; then every store uses it.
        encryption_keys: the keys for `KeyRing.parse`; None: rows are not encrypted.
        read_uri: a standby for searches and lists; None: read from the primary.
        pool: the caller's own connections to PostgreSQL, or a function that makes them; None: ours.
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
    """Conditions on scopes: tenant, user and app, and the last scope of the previous page."""

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
    """A query for visible memories of a scope. At most one of ids, slots and lacking is set,
    without other conditions.

    Attributes:
        now: the time of visibility.
        filter: the filter that they match.
        ids: only these, kept turns included, in any order and any state that the filter names.
        slots: only memories with subject and attribute in one of these (`tokenizer.slot`), no
            turns, oldest first.
        lacking: only memories without a vector of the embedding space with this number, kept turns
            and short-term ones included, oldest first.
        order: by creation time, ties by id.
        after: the time and id of the memory before the first.
        limit: the most memories.
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
    """A request to forget memories.

    Attributes:
        ids: the ids of memories.
        session_id: a whole session.
        everything: everything of the scope.
        event_ids: events that must not be ingested any more.
        dry_run: erase nothing, only report what would be erased.
        who: who asked for it; None: no receipt.
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
    """Raised by a view whose answer is out of date: see `MemoryStore.view`."""


class Behind(Stale):
    """Raised if the answering server has not seen what was written or read before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A queued piece of work.

    Attributes:
        key: queued jobs with the same scope, kind and key (not "") coalesce: the later one replaces
            payload and run_after, and their `messages` are united. An inactivity timer is such a
            job.
        payload: the data of the work; each of its `messages`, if any, has an `event_id`.
        provider, model: the summary provider and model that it needs; "" means none.
        lease_until: by the database's clock.
        fence: increased by every claim; holders of an older one cannot end the job any more.
        attempts: how often it was claimed and not given back unharmed.
        failures: the attempts that count towards a dead letter; temporary failures do not.
        calls, tokens: the model costs so far.
    """

    id: str
    scope: Scope
    kind: JobKind
    session_id: str = ""
    key: str = ""
    payload: Sealed[Mapping[str, Any]] = field(default_factory=dict[str, Any])
    provider: str = ""
    model: str = ""
    state: JobState = "queued"
    attempts: int = 0
    run_after: datetime
    created_at: datetime
    lease_until: datetime | None = None
    owner: str = ""
    fence: int = 0
    error: Sealed[str] = ""
    calls: int = 0
    tokens: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The writes of one `apply`, all or none.

    Attributes:
        vectors: vectors by memory id, in `space_number`; the vector of a duplicate goes to the
            existing memory.
        taken: (session_id, event_id) pairs that this batch ingests; if one was ingested before:
            Conflict. `SESSION_END` as an event id ends the session until a later batch ingests an
            event of it.
        reinforced: ids of memories that were met again; their expiry is renewed by their own TTL.
        job: (id, fence) of the job that this batch ends; its row goes. Another fence: Conflict.
        calls, tokens: the model costs of this batch, added to the scope's totals.
        expected_version: the scope's version when the changes were planned; another one: Conflict.
        jobs: follow-on jobs of the same scope, queued in the same transaction.
        texts: the prepared texts of its memories.
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


Use: TypeAlias = Literal["retrieved", "delivered", "successes", "failures"]
"""A counted use of a memory. Callers report the last two: it helped, or did not."""
USES = get_args(Use)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Counts of uses of one scope's memories.

    Attributes:
        counts: use → memory id → number of times; missing ones are 0.
        at: the time of the last of them.
    """

    scope: Scope
    counts: Mapping[Use, Mapping[str, int]]
    at: datetime


class TextMatches(NamedTuple):
    """The statistics of one scope for BM25, over the memories that are visible and match the
    filter.

    Attributes:
        documents: the number of memories.
        average_length: the mean number of index terms per memory; 0.0 without memories.
        frequencies: the document count of each term; terms without documents are left out.
        matches: at most `limit` matches, those with the rarest terms first.
    """

    documents: int
    average_length: float
    frequencies: Mapping[str, int]
    matches: TermMatrix


class TermMatrix(NamedTuple):
    """The matches of a text search as arrays.

    Attributes:
        rows: (n,) the rows of the memories in their index, in the order of the matches.
        terms: the terms of the columns of `counts`.
        lengths: (n,) the number of index terms of each memory.
        counts: (n, terms) how often each memory holds each term.
    """

    rows: Numbers
    terms: Sequence[str]
    lengths: Numbers
    counts: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of memories in order, and the cursor of the next page (None at the end)."""

    memories: tuple[Memory, ...]
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeStats:
    """The counts of one scope: visible memories by type, expired and superseded ones, jobs by
    state, model costs.

    Attributes:
        quarantined: memories that wait to be confirmed.
        short_term: memories that are found only in their session.
        unused: expired memories with too few deliveries, which the next prune deletes.
        oldest_job_at: when the oldest open job was accepted; None without one. During an outage of
            the model or the embedder it shows since when saves have been waiting.
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
    """The open jobs of all scopes.

    Attributes:
        count: the number of jobs.
        oldest_at: when the oldest was accepted; None without one.
    """

    count: int = 0
    oldest_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """A memory with usage and history, oldest first: everything that is transferred between stores.

    Attributes:
        vectors: the vectors for `restore`, by the number of the embedding space; `whole` returns
            none.
    """

    memory: Memory
    revisions: tuple[Revision, ...] = ()
    vectors: Mapping[int, Vector] = field(default_factory=dict[int, Vector])


def every_state(memory: Memory, revisions: Sequence[Revision]) -> Sequence[Memory]:
    """Return all states of a memory: the current one, then the former ones, oldest first."""
    return (memory, *(revision.before for revision in revisions if revision.before is not None))


def with_after(
    memory: Memory, revisions: Sequence[Revision]
) -> Iterator[tuple[Revision, Memory | None]]:
    """Return the changes of a memory, oldest first, each with the memory right after it."""
    return zip(revisions, (*(revision.before for revision in revisions[1:]), memory), strict=False)


def last_change(history: Sequence[Revision]) -> Revision | None:
    """Return the last change of a memory that is not undone, or None.

    An undo is a revision too: undoing twice goes two changes back.
    """
    standing: list[Revision] = []
    for revision in history:
        if revision.kind != "undo":
            standing.append(revision)
        elif standing:
            standing.pop()
    return standing[-1] if standing else None


Restored: TypeAlias = Literal["added", "present", "equal", "forgotten"]
"""What came of a memory that was to be restored: it is there now; it was there, by its id; another
one says the same; or it was forgotten here, and stays so."""


@dataclass(frozen=True, slots=True)
class Facets:
    """The number of memories that match a filter, and their topics and tags with counts, most
    frequent first.
    """

    total: int = 0
    topics: Mapping[str, int] = field(default_factory=dict[str, int])
    tags: Mapping[str, int] = field(default_factory=dict[str, int])


PruneReason: TypeAlias = Literal["expired", "faded", "capacity"]
MAX_LISTED = 100_000


@dataclass(frozen=True, slots=True)
class Gone:
    """A memory that a prune erased or would erase, and why: it expired, faded, or its scope held
    too many.
    """

    scope: Scope
    memory_id: str
    reason: PruneReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """The result of a prune or of its dry run.

    Attributes:
        deleted: the number of expired memories that were erased.
        extended: the number of expired memories that live on because they are popular.
        evicted: the number of living memories erased because their scope held too many.
        faded: the number of living memories erased because their importance had faded.
        gone: the erased memories with their reasons, the first 100,000.
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
        """Return the number of erased memories."""
        return sum(self.counts.values()) - self.extended

    def __add__(self, other: Pruned) -> Pruned:
        total = {name: count + other.counts[name] for name, count in self.counts.items()}
        return Pruned(**total, gone=(*self.gone, *other.gone)[:MAX_LISTED])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """The counts of a key rotation.

    Attributes:
        key: the id of the key that everything is encrypted with now.
        scopes: the number of scopes with values that were plain or under another key.
        rows: the number of memories, revisions, jobs and digest keys that were rewritten.
    """

    key: str
    scopes: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenTenant:
    """The counts of forgetting a tenant.

    Attributes:
        scopes: the number of scopes that are gone completely.
        memories: the number of erased memories.
        tokens: the number of revoked bearer tokens.
        done: True if nothing is left; otherwise repeat the call to continue.
    """

    scopes: int = 0
    memories: int = 0
    tokens: int = 0
    done: bool = True

    def __add__(self, other: ForgottenTenant) -> ForgottenTenant:
        return replace(
            other,
            scopes=self.scopes + other.scopes,
            memories=self.memories + other.memories,
            tokens=self.tokens + other.tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A bearer token of the server.

    Attributes:
        digest: the SHA-256 of the secret in hex; the secret itself is not stored.
        tenant, user: the memories that it opens; without a user those of the whole tenant.
        label: a name for people.
        is_operator: it opens every tenant, and the verbs that cross them.
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
    """Return `job` if a queue can keep it.

    Raises:
        InvalidInput: its id is no UUID, or its session id or key is too long.
    """
    if not is_id(job.id):
        raise InvalidInput(f"The job's id {job.id!r} is not a UUID.")
    checked_key(job.session_id, "The job's session id")
    checked_key(job.key, "The job's key")
    return job


def embed_job(scope: Scope, now: datetime, space: str = "") -> Job:
    """Return the job that embeds the memories of a scope without a vector; one at a time is enough.

    Args:
        scope: the scope.
        now: when it is due.
        space: the name of the embedder that must do it; "": any.
    """
    # names are longer than keys may be
    digest = hashlib.blake2b(space.encode(), digest_size=8).hexdigest() if space else ""
    return Job(
        id=new_id(now),
        scope=scope,
        kind="embed",
        key=f"embed {digest}".strip(),
        model=space,
        run_after=now,
        created_at=now,
    )
