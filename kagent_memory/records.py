"""The values that flow through the rivers: frozen, without I/O, importing nothing of ours but the errors."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, overload

from .errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MemoryType: TypeAlias = Literal["semantic", "episodic", "procedural", "reflective"]
Origin: TypeAlias = Literal["user", "agent", "tool", "import"]
State: TypeAlias = Literal["active", "superseded", "quarantined", "short_term"]
Mode: TypeAlias = Literal["hybrid", "vector", "keyword"]
Vector: TypeAlias = "npt.NDArray[np.float32]"
Metadata: TypeAlias = Mapping[str, Any]

MEMORY_TYPES: tuple[MemoryType, ...] = ("semantic", "episodic", "procedural", "reflective")
ORIGINS: tuple[Origin, ...] = ("user", "agent", "tool", "import")
MAX_QUERY_CHARS = 16_384
LONGEST_NAME = 1024  # characters of a tenant's, user's or app's
MAX_KEY_BYTES = 1024  # of what a row is found by, such as an id or a session's
GATED = "gated"  # in `Recall.degraded`: the gate held the query not worth a search
DROPPED = ""  # in place of the id of what was not stored
DEEPEST = 100  # levels of nesting in a value of metadata; what is deeper no answer over HTTP could carry
EASY_EXPONENT = 8  # of a vector's greatest number: float32 and float16 keep every digit that counts

_ids = threading.Lock()
_last_id = 0


def new_id(at: datetime | None = None) -> str:
    """A UUIDv7 as text (RFC 9562 §5.7): of one process, ids made later sort later, also within a millisecond."""
    global _last_id
    milliseconds = (int(at.timestamp() * 1000) if at else time.time_ns() // 1_000_000) & (1 << 48) - 1
    with _ids:
        if _last_id >> 80 == milliseconds:
            value = _last_id + 1 + int.from_bytes(os.urandom(4), "big")
        else:
            value = milliseconds << 80 | int.from_bytes(os.urandom(10), "big")
            value = value & ~(0xF << 76) | 0x7 << 76
            value = value & ~(0x3 << 62) | 0x2 << 62
        _last_id = value
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def scaled(rows: npt.NDArray[np.float64]) -> Vector:
    """Vectors along the last axis as float32 of a size that half precision keeps too.

    One whose greatest number lies beyond 2^±8 is multiplied by the power of two that brings it near 1. That leaves its
    direction as it is, to the last bit; only the direction counts. One that a store kept comes back as it is, also
    where half precision rounded it up to 2^8.
    """
    import numpy as np

    greatest = np.abs(rows).max(axis=-1, keepdims=True, initial=0.0)
    if ((greatest >= 0.5**EASY_EXPONENT) & (greatest <= 2.0**EASY_EXPONENT)).all():
        return rows.astype(np.float32)
    _, exponents = np.frexp(greatest)
    hard = (np.abs(exponents) > EASY_EXPONENT) & (greatest != 2.0**EASY_EXPONENT)
    shift = np.where(hard, -exponents, 0)
    return (np.ldexp(rows, shift) if shift.any() else rows).astype(np.float32)


def is_easy(rows: npt.NDArray[np.float32]) -> bool:
    """Whether float32 vectors along the last axis are finite, not zero, and what `scaled` would leave as they are: told
    by the sums of their squares, so that one that is near the edge may not be taken for easy.
    """
    import numpy as np

    most = 2.0 ** (2 * EASY_EXPONENT - 1)
    least = rows.shape[-1] / most
    if rows.size == rows.shape[-1]:  # a single one, several times quicker
        return least <= float(np.vdot(rows, rows)) <= most
    squares = np.einsum("...i,...i->...", rows, rows)
    return bool(((squares >= least) & (squares <= most)).all())


def checked_text(value: str, what: str) -> str:
    """`value` itself.

    Raises:
        InvalidInput: not a string, contains NUL, or is not valid Unicode (a lone surrogate).
    """
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
        raise InvalidInput(f"{what} must be text, not {type(value).__name__}.")
    if "\0" in value:
        raise InvalidInput(f"{what} holds a NUL character; remove it.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{what} is not valid Unicode ({error.reason}); decode it again.") from error
    return value


def checked_name(value: str, what: str) -> str:
    """`value` itself, the name of a tenant, a user or an app.

    Raises:
        InvalidInput: no text that can be kept, or too long.
    """
    if len(checked_text(value, what)) > LONGEST_NAME:
        raise InvalidInput(f"{what} has {len(value):,} characters; at most {LONGEST_NAME:,} are allowed.")
    return value


def valid_text(value: str) -> str:
    """The text with what no database keeps (NUL, lone surrogates) shown as U+FFFD."""
    if "\0" not in value:
        try:
            value.encode()
        except UnicodeEncodeError:
            pass
        else:
            return value
    return value.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def json_text(value: Any, what: str, *, compact: bool = False) -> str:
    """The value as JSON text that any database and any JSON parser takes.

    Raises:
        InvalidInput: JSON cannot hold it (another type, NaN, infinity, a lone surrogate), or it is nested too deep.
    """
    try:
        separators = (",", ":") if compact else None
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=separators)
        text.encode()
    except RecursionError as error:
        raise InvalidInput(f"{what} is nested too deep; a value may have at most {DEEPEST} levels.") from error
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} is not valid JSON: {error}.") from error
    return text


def too_deep(value: Any) -> bool:
    """Whether lists and mappings are nested in a JSON value, itself included, more than `DEEPEST` levels deep."""
    level = _containers([value])
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _containers(outer)]
    return bool(level)


def _containers(values: Any) -> list[Any]:
    parts: Any = values.values() if isinstance(values, dict) else values  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] raw JSON
    return [part for part in parts if isinstance(part, (list, dict))]


def checked_time(at: datetime | None, what: str) -> datetime | None:
    """The same moment in UTC.

    Raises:
        InvalidInput: not a datetime, has no time zone, or lies outside the years 1 to 9999 in UTC.
    """
    if at is None:
        return None
    if not isinstance(at, datetime):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
        raise InvalidInput(f"{what} must be a datetime, not {type(at).__name__}.")
    if at.tzinfo is None:
        raise InvalidInput(f"{what} must be an aware datetime; give it a time zone.")
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(f"{what} is out of range; use a time between the years 1 and 9999.") from error


def parsed_time(value: Any, what: str) -> datetime:
    """The moment that a text names in ISO 8601; without a zone it is UTC.

    Raises:
        InvalidInput: it names none.
    """
    try:
        at = datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} must be an ISO 8601 date, such as 2026-01-31.") from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Scope:
    """Whose memories: the whole (tenant, user, app) triple, compared whole and never by a part."""

    tenant: str
    user: str
    app: str

    def __post_init__(self) -> None:
        for name in ("tenant", "user", "app"):
            checked_name(getattr(self, name), f"The scope's {name}")

    @cached_property
    def id(self) -> bytes:
        """16 bytes that stand for the triple in every table; each part is hashed with its length."""
        digest = hashlib.blake2b(digest_size=16, person=b"kagent_memory")
        for part in (self.tenant, self.user, self.app):
            raw = part.encode()
            digest.update(len(raw).to_bytes(8, "big") + raw)
        return digest.digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scopes:
    """All scopes of a tenant that there are; with a user or an app, only those of that user or app."""

    tenant: str
    user: str | None = None
    app: str | None = None

    def __post_init__(self) -> None:
        for name in ("tenant", "user", "app"):
            if name == "tenant" or getattr(self, name) is not None:
                checked_name(getattr(self, name), f"The {name} of the scopes")


WhichScopes: TypeAlias = Scope | Scopes | Sequence[Scope | Scopes]

_tenant: ContextVar[str | None] = ContextVar("kagent_memory_tenant", default=None)
_tenant_was_named = threading.Event()


@contextmanager
def tenant(name: str) -> Generator[None, None, None]:
    """Whose run this is: what a service does inside, its tools, its auto-save and work begun here included, is done in
    the scopes of this tenant. For the application alone to say: nothing that a user or a model writes is read for it.

    Args:
        name: the tenant; inside another `with tenant(…)` the inner one holds.

    Raises:
        InvalidInput: it is empty, or can be no part of a scope.
    """
    if not checked_name(name, "The tenant"):
        raise InvalidInput("The tenant must not be empty; leave `with tenant(…)` out for the setting's.")
    _tenant_was_named.set()
    before = _tenant.set(name)
    try:
        yield
    finally:
        _tenant.reset(before)


def current_tenant() -> str | None:
    """The tenant that the application has said this is for; None: it has not."""
    return _tenant.get()


def names_tenants() -> bool:
    """Whether the application has said `with tenant(…)` anywhere in this process so far."""
    return _tenant_was_named.is_set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One utterance of a transcript, already free of thoughts, partials and credentials.

    Attributes:
        role: who speaks: the user, an agent, or a tool's answer.
        author: the speaker's name (the agent's name, say); may be empty.
        event_id: the ADK event it came from; the same id is never taken in twice in one session.
        at: when it was said (aware UTC), if known.
        recalled: texts that memory itself put into this event; never learnt again.
        compaction: (start, end) in epoch seconds when the text is ADK's summary of that range.
    """

    text: str
    role: Literal["user", "agent", "tool"] = "user"
    author: str = ""
    event_id: str = ""
    at: datetime | None = None
    recalled: tuple[str, ...] = ()
    compaction: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """Something worth remembering, before it is stored.

    Attributes:
        text: what is remembered.
        verbatim: a turn kept as said: unique by (text, event), not by its normalised text.
        ttl_days: None takes the setting; 0 or less never expires.
        subject, attribute: the slot it fills ("user", "favourite tea"); needed for supersession.
        category: a label of the caller's own beside the type, one a memory.
        said_at: when it was said, which decides between two values of a slot; None: when its last source message was
            said, or now.
    """

    text: str
    type: MemoryType = "semantic"
    topics: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    is_error: bool = False
    origin: Origin = "user"
    author: str | None = None
    session_id: str | None = None
    event_ids: tuple[str, ...] = ()
    subject: str | None = None
    attribute: str | None = None
    metadata: Metadata = field(default_factory=dict[str, Any])
    happened_at: datetime | None = None
    ttl_days: int | None = None
    pinned: bool = False
    verbatim: bool = False
    said_at: datetime | None = None
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """How a memory fared: counters of one memory.

    Attributes:
        retrieved: times it was a candidate that reached the ranking's end.
        delivered: times it was handed over since the last prune that extended it.
        delivered_total: the same over its lifetime.
    """

    retrieved: int = 0
    delivered: int = 0
    delivered_total: int = 0
    last_delivered_at: datetime | None = None
    successes: int = 0
    failures: int = 0


MAX_LINKS = 4
"""Memories that one may be linked with as saying the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One stored memory as it is now. Times are aware UTC.

    Attributes:
        id: UUIDv7 text.
        position: its place among the memories of its session, from 0; None without a session.
        said_at: when it was said; None: unknown, then when it was added.
        category: a label of the caller's own beside the type.
        explicit: a caller saved it as it is; nothing unites it with another in the background.
        links: ids of memories that say the same in other words, or contradict what was saved here; at most
            `MAX_LINKS`. Each lives by itself, and an answer hands over one of two that are linked.
        revision: 1 when added, one more with every change.
    """

    id: str
    content: str
    type: MemoryType = "semantic"
    topics: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    is_error: bool = False
    origin: Origin = "user"
    author: str | None = None
    session_id: str | None = None
    position: int | None = None
    event_ids: tuple[str, ...] = ()
    subject: str | None = None
    attribute: str | None = None
    metadata: Metadata = field(default_factory=dict[str, Any])
    created_at: datetime
    updated_at: datetime
    happened_at: datetime | None = None
    said_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    expires_at: datetime | None = None
    ttl_days: int | None = None
    pinned: bool = False
    verbatim: bool = False
    explicit: bool = False
    state: State = "active"
    superseded_by: str | None = None
    links: tuple[str, ...] = ()
    revision: int = 1
    category: str | None = None
    usage: Usage = Usage()

    @property
    def is_summary(self) -> bool:
        """Whether its slot is one that a later value always takes over: that of a session's summary."""
        return (self.attribute or "").startswith(("compaction:", "session:"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One memory as it will be, and the account of it for the history.

    Attributes:
        kind: "add" inserts (or revives what is already there); every other kind replaces the row
            whose revision is `memory.revision - 1`, whose former state becomes a revision.
        group: joins the changes that one decision made, so that `undo` takes them back together.
        explicit: a caller asked for exactly this text; tombstones do not hold it back.
    """

    kind: Literal["add", "edit", "pin", "update", "supersede", "merge", "link", "undo", "confirm", "promote"]
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
        revision: the revision number that `before` had; 0 when the change brought the memory into being.
        before: the memory as it was; None when the change brought it into being.
        final: it cannot be undone: something else that the same decision changed has expired or was erased.
    """

    memory_id: str
    revision: int
    kind: str
    before: Memory | None
    at: datetime
    who: str = ""
    why: str = ""
    event_ids: tuple[str, ...] = ()
    group: str | None = None
    final: bool = False


def every_state(memory: Memory, revisions: Sequence[Revision]) -> Sequence[Memory]:
    """A memory as it is, and as it ever was."""
    return (memory, *(revision.before for revision in revisions if revision.before is not None))


def with_after(memory: Memory, revisions: Sequence[Revision]) -> Iterator[tuple[Revision, Memory | None]]:
    """The changes of a memory's history, oldest first, each with the memory as it was right after it."""
    return zip(revisions, (*(revision.before for revision in revisions[1:]), memory), strict=False)


def _check_names(names: Sequence[object], what: str, known: Sequence[str] | None) -> None:
    if not isinstance(names, list | tuple) or not all(isinstance(one, str) for one in names):
        raise InvalidInput(f"A filter's {what} must be a tuple of texts, not {names!r}.")
    if known is not None and (unknown := [one for one in names if one not in known]):
        raise InvalidInput(f"A filter's {what} must be of {', '.join(known)}, not {unknown[0]!r}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which memories count; every field that is set must hold. Empty: all.

    Attributes:
        types, topics: any of these.
        tags: all of these.
        author, category: exactly this one; a memory without one has none, not "".
        metadata: every key is there, at top level, with an equal JSON scalar.
        created_after, happened_after, …: half-open: after is inclusive, before is exclusive.
        superseded: also memories that are no longer active; "only": those alone that others have taken the place of;
            "quarantined": those alone that wait to be confirmed; "short_term": those alone of single sessions (for
            lists, never for search).
    """

    types: tuple[MemoryType, ...] = ()
    topics: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()
    metadata: Mapping[str, str | int | float | bool | None] = field(default_factory=dict[str, Any])
    session_id: str | None = None
    author: str | None = None
    category: str | None = None
    min_importance: float | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    happened_after: datetime | None = None
    happened_before: datetime | None = None
    superseded: bool | Literal["only", "quarantined", "short_term"] = False

    def __post_init__(self) -> None:
        for name, known in (("types", MEMORY_TYPES), ("origins", ORIGINS), ("topics", None), ("tags", None)):
            _check_names(getattr(self, name), name, known)
        for name in ("session_id", "author", "category"):
            if not isinstance(getattr(self, name), str | None):
                raise InvalidInput(f"A filter's {name} must be text.")
        if not isinstance(self.metadata, Mapping) or not all(isinstance(key, str) for key in self.metadata):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
            raise InvalidInput("A filter's metadata must be a mapping with text keys.")
        if isinstance(self.min_importance, bool) or not isinstance(self.min_importance, float | int | None):  # pyright: ignore[reportUnnecessaryIsInstance] as above
            raise InvalidInput("A filter's min_importance must be a number.")
        for name in ("created_after", "created_before", "happened_after", "happened_before"):
            checked_time(getattr(self, name), name)
        if self.superseded not in (False, True, "only", "quarantined", "short_term"):
            raise InvalidInput('superseded must be True, False, "only", "quarantined" or "short_term".')


EVERYTHING: Final = Filter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One question to memory, after its settings were filled in.

    Attributes:
        limit: how many hits at most.
        min_score: floor on the full query's cosine for rows that only the vector leg found, before the limit.
        deliver: counts the hits as delivered.
    """

    text: str
    limit: int = 5
    min_score: float = 0.0
    filter: Filter = Filter()
    explain: bool = False
    deliver: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A memory that answers a query.

    Attributes:
        scope: whose memory it is.
        score: the fused score it was ranked by, in 0..1, comparable within one recall only.
        cosine: the full query's cosine, when the vector leg saw it.
        why: legs, ranks and boosts by name, when asked to explain.
    """

    memory: Memory
    scope: Scope
    score: float
    cosine: float | None = None
    why: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A memory that matched and was not handed over, and for which reason."""

    memory_id: str
    reason: Literal[
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
        "gap",
    ]
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Recall(Sequence[Hit]):
    """The answer to a query: the hits in order, and how they were found.

    Attributes:
        mode: which legs answered; "keyword" too when the embedder did not answer in time.
        degraded: why a leg or step that should have answered did not; empty when all is well.
    """

    hits: tuple[Hit, ...] = ()
    mode: Mode = "keyword"
    left_out: tuple[LeftOut, ...] = ()
    degraded: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | Sequence[Hit]:
        return self.hits[index]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)
