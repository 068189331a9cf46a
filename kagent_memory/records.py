"""The values of the package: frozen, without I/O, importing only checks and errors."""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cached_property, partial
from itertools import count
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeAlias,
    TypeVar,
    get_args,
    get_type_hints,
    overload,
)

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
)

from .checks import (
    checked_name,
    checked_scalar,
    checked_text,
    checked_time,
    described,
    fields_adapter,
)
from .errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MemoryType: TypeAlias = Literal["semantic", "episodic", "procedural", "reflective"]
Origin: TypeAlias = Literal["user", "agent", "tool", "import"]
State: TypeAlias = Literal["active", "superseded", "quarantined", "short_term", "source"]
Mode: TypeAlias = Literal["hybrid", "vector", "keyword"]
ChangeKind: TypeAlias = Literal[
    "add", "edit", "pin", "update", "supersede", "merge", "link", "undo", "confirm", "promote"
]
Vector: TypeAlias = "npt.NDArray[np.float32]"
Metadata: TypeAlias = Mapping[str, Any]
Item = TypeVar("Item")
VALID_TEXT = AfterValidator(partial(checked_text, what="The text"))
Text: TypeAlias = Annotated[str, VALID_TEXT]
Time: TypeAlias = Annotated[datetime, AfterValidator(checked_time)]
EpochSeconds: TypeAlias = Annotated[float, Field(ge=0, le=253_402_300_799)]  # to the year 9999
MAX_INTEGER = 2**31 - 2  # with room for one more
Count: TypeAlias = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
ID_PATTERN = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
Id: TypeAlias = Annotated[str, Field(pattern=ID_PATTERN)]
Several = Field(max_length=1000, strict=False)  # also in a list
Sealed: TypeAlias = Annotated[Item, "sealed"]
"""A field that is encrypted if the store encrypts rows."""
Scalar: TypeAlias = Annotated[str | int | float | bool | None, BeforeValidator(checked_scalar)]

MEMORY_TYPES = get_args(MemoryType)
# memories, and the turns that facts come from
SEARCHED = frozenset(("active", "source"))
ORIGINS = get_args(Origin)
MAX_QUERY_CHARS = 16_384
GATED = "gated"  # in `Recall.degraded`: the gate judged the query not worth a search
DROPPED = ""  # in place of the id of a fact that was not stored
EASY_EXPONENT = 8  # of a vector's greatest number: up to it float16 loses no significant digit

_SOURCES = uuid.UUID("9c1f6c7e-5d0b-4a57-8f0e-4f2d7b1f5a10")  # the name space of kept turns' ids
_id_counter = count(int.from_bytes(os.urandom(5), "big"))  # from a random start


def new_id(at: datetime | None = None) -> str:
    """Return a UUIDv7 as text (RFC 9562 §5.7).

    The ids of one process rise in the order in which they are made, even within a millisecond.
    """
    milliseconds = int((at.timestamp() if at else time.time()) * 1000)
    tail = next(_id_counter) << 32 | int.from_bytes(os.urandom(4), "big")
    value = (milliseconds & (1 << 48) - 1) << 80 | 0x7 << 76 | tail >> 62 << 64
    return str(uuid.UUID(int=value | 0x2 << 62 | tail & (1 << 62) - 1))


def source_id(session_id: str | None, event_id: str) -> str:
    """Return the id of the turn that is kept of an event, which follows from the event alone."""
    return str(uuid.uuid5(_SOURCES, f"{len(session_id or '')}:{session_id or ''}{event_id}"))


def scaled(rows: npt.NDArray[np.float64]) -> Vector:
    """Return vectors along the last axis as float32, scaled to fit half precision.

    A vector whose greatest number lies beyond 2^±8 is multiplied by the power of two that brings it
    near 1, which keeps its direction to the last bit; only the direction counts. A stored vector
    comes back unchanged, even if half precision rounded it up to 2^8.
    """
    import numpy as np

    greatest = np.abs(rows).max(axis=-1, keepdims=True, initial=0.0)
    _, exponents = np.frexp(greatest)
    is_beyond = (np.abs(exponents) > EASY_EXPONENT) & (greatest != 2.0**EASY_EXPONENT)
    shift = np.where(is_beyond, -exponents, 0)
    return np.ldexp(rows, shift).astype(np.float32)


@dataclass(frozen=True)
class Scope:
    """The owner of memories: the (tenant, user, app) triple, always compared as a whole."""

    tenant: str
    user: str
    app: str

    def __post_init__(self) -> None:
        for name in ("tenant", "user", "app"):
            checked_name(getattr(self, name), f"The scope's {name}")

    @cached_property
    def id(self) -> bytes:
        """Return the 16 bytes that identify the triple in every table."""
        digest = hashlib.blake2b(digest_size=16, person=b"kagent_memory")
        for part in (self.tenant, self.user, self.app):
            data = part.encode()
            digest.update(len(data).to_bytes(8, "big") + data)  # so that no two triples agree
        return digest.digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scopes:
    """All existing scopes of a tenant, or only those of a user or an app in it."""

    tenant: str
    user: str | None = None
    app: str | None = None

    def __post_init__(self) -> None:
        for name in ("tenant", "user", "app"):
            if name == "tenant" or getattr(self, name) is not None:
                checked_name(getattr(self, name), f"The {name} of the scopes")


_tenant = ContextVar[str | None]("kagent_memory_tenant", default=None)


@contextmanager
def tenant(name: str) -> Generator[None, None, None]:
    """Run a block for a tenant: the service, its tools, auto-save and the work begun there use
    scopes of this tenant.

    Only the application may call it; no text of a user or a model decides the tenant.

    Args:
        name: the tenant; the innermost `with tenant(…)` counts.

    Raises:
        InvalidInput: the name is empty or invalid.
    """
    if not checked_name(name, "The tenant"):
        raise InvalidInput(
            "The tenant must not be empty; leave `with tenant(…)` out for the setting's."
        )
    token = _tenant.set(name)
    try:
        yield
    finally:
        _tenant.reset(token)


def current_tenant() -> str | None:
    """Return the tenant of the enclosing `with tenant(…)`; None outside of one."""
    return _tenant.get()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """An utterance of a transcript, without thoughts, partial text and credentials.

    Attributes:
        role: the kind of speaker: the user, an agent, or a tool's answer.
        author: the speaker's name, such as the agent's; may be empty.
        event_id: its ADK event; the same id is never ingested twice in one session.
        at: when it was said (aware UTC), if known.
        recalled: texts that memory put into this event; they are never learnt again.
        compaction: (start, end) in epoch seconds if the text is ADK's summary of that range.
        fields: fields of `Fact` for every fact that is extracted from it: `ttl_days`, `tags`,
            `metadata`, ….
    """

    text: str
    role: Literal["user", "agent", "tool"] = "user"
    author: str = ""
    event_id: str = ""
    at: Time | None = None
    recalled: tuple[str, ...] = ()
    compaction: tuple[EpochSeconds, EpochSeconds] | None = None
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact to remember, before it is stored.

    Attributes:
        text: the text to remember.
        verbatim: True for a turn kept as said, which is identified by its text and event.
        ttl_days: days to live; None: the setting; 0: forever.
        subject, attribute: the slot it fills ("user", "favourite tea").
        category: a label of the caller's own beside the type.
        said_at: when it was said, which decides between two values of a slot; None: when its last
            source message was said, or now.
    """

    text: Text
    type: MemoryType = "semantic"
    topics: tuple[Text, ...] = ()
    tags: tuple[Text, ...] = ()
    importance: Annotated[float, Field(ge=0, le=1)] = 0.5
    is_error: bool = False
    origin: Origin = "user"
    author: Text | None = None
    session_id: str | None = None
    event_ids: tuple[str, ...] = ()
    subject: Text | None = None
    attribute: Text | None = None
    metadata: Metadata = field(default_factory=dict[str, Any])
    happened_at: Time | None = None
    ttl_days: Annotated[int, Field(ge=0, le=36_500)] | None = None
    pinned: bool = False
    verbatim: bool = False
    said_at: Time | None = None
    category: Text | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Counters of one memory's use.

    Attributes:
        retrieved: how often it was ranked for an answer.
        delivered: how often it was delivered since the last prune that extended it.
        delivered_total: how often it was delivered in its lifetime.
    """

    retrieved: Count = 0
    delivered: Count = 0
    delivered_total: Count = 0
    last_delivered_at: Time | None = None
    successes: Count = 0
    failures: Count = 0


MAX_LINKS = 4  # links of one memory to others that say the same
MAX_SOURCES = 4  # events of a fact; a memory of more events is a summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A stored memory as it is now. Times are aware UTC.

    Attributes:
        id: UUIDv7 text.
        position: its place among the memories of its session, from 0; None without a session.
        said_at: when it was said; None if unknown, and then the time it was added counts.
        category: a label of the caller's own beside the type.
        explicit: True if a caller saved it; background work never merges it.
        state: "source" is a kept turn, whose `links` are the ids of its facts; searches find it,
            lists and counts do not.
        links: ids of memories that say the same in other words, or contradict an explicit save; at
            most `MAX_LINKS`. Each expires by itself, and an answer delivers one of two linked ones.
        revision: 1 when added, one more with every change.
    """

    id: str
    content: Sealed[str]
    type: MemoryType = "semantic"
    topics: Sealed[tuple[str, ...]] = ()
    tags: Sealed[tuple[str, ...]] = ()
    importance: Annotated[float, Field(ge=0, le=1)] = 0.5
    is_error: bool = False
    origin: Origin = "user"
    author: Sealed[str | None] = None
    session_id: str | None = None
    position: Count | None = None
    event_ids: tuple[str, ...] = ()
    subject: Sealed[str | None] = None
    attribute: Sealed[str | None] = None
    metadata: Sealed[Metadata] = field(default_factory=dict[str, Any])
    created_at: Time
    updated_at: Time
    happened_at: Time | None = None
    said_at: Time | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None
    expires_at: Time | None = None
    ttl_days: Annotated[int, Field(ge=-36_500, le=36_500)] | None = None
    pinned: bool = False
    verbatim: bool = False
    explicit: bool = False
    state: State = "active"
    superseded_by: Id | None = None
    links: tuple[Id, ...] = ()
    revision: Annotated[int, Field(ge=1, le=MAX_INTEGER + 1)] = 1
    category: Sealed[str | None] = None
    usage: Usage = Usage()

    @property
    def is_summary(self) -> bool:
        """Return True for the summary of a session, which a later summary always replaces."""
        return (self.attribute or "").startswith(("compaction:", "session:"))

    @property
    def source_ids(self) -> tuple[str, ...]:
        """Return the ids of the turns it came from; none for a turn and for a summary."""
        if self.verbatim or not 0 < len(self.event_ids) <= MAX_SOURCES or self.is_summary:
            return ()
        return tuple(source_id(self.session_id, event_id) for event_id in self.event_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A new state of a memory and its account for the history.

    Attributes:
        kind: "add" inserts (or revives an existing memory); every other kind replaces the row whose
            revision is `memory.revision - 1`, and its former state becomes a revision.
        group: joins the changes of one decision, so that `undo` reverts them together.
        explicit: True if a caller asked for exactly this text; tombstones do not block it.
    """

    kind: ChangeKind
    memory: Memory
    who: str = ""
    why: str = ""
    event_ids: tuple[str, ...] = ()
    group: str | None = None
    explicit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A former state of a memory and the change that ended it.

    Attributes:
        revision: the revision number of `before`; 0 if the change created the memory.
        before: the memory before the change; None if the change created it.
        final: True if it cannot be undone, because another memory of the same decision has expired
            or was erased.
    """

    memory_id: str
    revision: Count
    kind: Text
    before: Sealed[Memory | None]
    at: Time
    who: Sealed[Text] = ""
    why: Sealed[Text] = ""
    event_ids: tuple[str, ...] = ()
    group: Text | None = None
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Conditions on memories, all of which must hold. An empty filter matches all memories.

    Attributes:
        types, topics: any of these.
        tags: all of these.
        author, category: exactly this one; a memory without one has None, not "".
        metadata: every key is present at top level with an equal JSON scalar.
        created_after, happened_after: inclusive.
        created_before, happened_before: exclusive.
        superseded: True: superseded memories too. For lists, never for search, the memories of one
            state: "only" (superseded), "quarantined", "short_term" (of single sessions) or
            "source" (kept turns).
    """

    types: Annotated[tuple[MemoryType, ...], Several] = ()
    topics: Annotated[tuple[Text, ...], Several] = ()
    tags: Annotated[tuple[Text, ...], Several] = ()
    origins: Annotated[tuple[Origin, ...], Several] = ()
    metadata: Annotated[Mapping[Text, Scalar], Several] = field(default_factory=dict[str, Any])
    session_id: Text | None = None
    author: Text | None = None
    category: Text | None = None
    min_importance: float | None = None
    created_after: Time | None = None
    created_before: Time | None = None
    happened_after: Time | None = None
    happened_before: Time | None = None
    superseded: bool | Literal["only", "quarantined", "short_term", "source"] = False

    def __post_init__(self) -> None:
        try:
            values = _FILTER.validate_python(
                {field.name: getattr(self, field.name) for field in fields(self)}
            )
        except ValidationError as error:
            raise InvalidInput(f"Invalid filter: {described(error)}.") from None
        for name, value in values.items():
            object.__setattr__(self, name, value)


_FILTER = fields_adapter(get_type_hints(Filter, include_extras=True), strict=True)
EVERYTHING = Filter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A memory that answers a query.

    Attributes:
        scope: the scope of the memory.
        score: the fused score of the ranking, in 0..1, comparable only within one recall.
        cosine: the cosine to the full query, if the vector leg saw the memory.
        relevance: how likely it answers the query, in 0..1, comparable between queries.
        excerpt: for a long memory in a search with a budget, the passage that fits the query; "":
            the whole text.
        sources: for a fact, the kept turns that it came from, if the budget allows.
        why: the scores of the ranking signs by name, if the search explains.
    """

    memory: Memory
    scope: Scope
    score: float
    cosine: float | None = None
    relevance: float = 0.0
    excerpt: str = ""
    sources: tuple[Memory, ...] = ()
    why: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Listed(Sequence[Item]):
    """The base of answers that are sequences of their `items`."""

    __slots__ = ()

    @property
    @abstractmethod
    def items(self) -> tuple[Item, ...]:
        """Return the items of the sequence."""

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)


Exclusion: TypeAlias = Literal[
    "expired",
    "superseded",
    "quarantined",
    "short_term",
    "below_min_score",
    "irrelevant",
    "duplicate",
    "same",
    "budget",
    "limit",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A memory that matched but was not delivered, and the reason."""

    memory_id: str
    reason: Exclusion
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Recall(Listed[Hit]):
    """The answer to a query: the hits in order, and how they were found.

    Attributes:
        mode: the searches that answered; "keyword" also if the embedder did not answer in time.
        degraded: the reasons why a search or step did not answer; empty if all did.
    """

    hits: tuple[Hit, ...] = ()
    mode: Mode = "keyword"
    left_out: tuple[LeftOut, ...] = ()
    degraded: tuple[str, ...] = ()

    @property
    def items(self) -> tuple[Hit, ...]:
        """Return the hits."""
        return self.hits
