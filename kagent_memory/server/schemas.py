"""What /api/v1 takes; what it gives are the records themselves."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, StrictBool

from ..ingestion.payload import LATEST_SECONDS, LONGEST_MINUTES
from ..memories.options import ForgetOptions
from ..records import (
    DEEPEST,
    LONGEST_NAME,
    MAX_QUERY_CHARS,
    Fact,
    Filter,
    MemoryType,
    Message,
    Mode,
    Origin,
    Scope,
    Scopes,
)
from ..retrieval.options import RecallOptions
from ..stores.base import Order, checked_vector
from .body import Strict

MOST_ITEMS = 500
MOST_SCOPES = 100  # that one request names
MOST_FOUND = 1000
MOST_KEYS = 64  # of a filter's metadata
MOST_PARTS = 20_000  # keys and values in one metadata, however they are nested
MOST_DIMENSIONS = 16_000
LARGEST_INT = 2**53


def _plain(value: str) -> str:
    if "\0" in value:
        raise ValueError("holds a NUL character")
    return value


def _utc(value: datetime) -> datetime:
    try:
        value = value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("is out of range") from error
    if value.year < 1000:
        raise ValueError("is before the year 1000")
    return value


def _storable(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The value itself, looked through part by part, and no further than what may be stored."""
    level: list[JsonValue] = [*value, *value.values()]
    count = 0
    for _ in range(DEEPEST + 1):
        count += len(level)
        if count > MOST_PARTS:
            raise ValueError(f"holds more than {MOST_PARTS:,} keys and values")
        inner: list[JsonValue] = []
        for part in level:
            if isinstance(part, dict):
                inner += part
                inner += part.values()
            elif isinstance(part, list):
                inner += part
            else:
                _check_scalar(part)
        if not inner:
            return value
        level = inner
    raise ValueError(f"has a value nested deeper than {DEEPEST} levels")


def _check_scalar(value: Scalar) -> None:
    if isinstance(value, str):
        _plain(value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("holds a number that JSON cannot represent")
    elif isinstance(value, int) and abs(value) > LARGEST_INT:
        raise ValueError("holds a whole number beyond 2^53; send it as text")


Text = Annotated[str, AfterValidator(_plain)]
Turn = Annotated[str, Field(max_length=MAX_QUERY_CHARS), AfterValidator(_plain)]
Label = Annotated[str, Field(max_length=256), AfterValidator(_plain)]
Labels = Annotated[list[Label], Field(max_length=64, fail_fast=True)]
Key = Annotated[str, Field(max_length=1024), AfterValidator(_plain)]
Keys = Annotated[list[Key], Field(max_length=1000, fail_fast=True)]
Moment = Annotated[AwareDatetime, AfterValidator(_utc)]
Scalar = str | int | float | bool | None
# what was read from JSON is JSON: its parts need no validation of their own, which takes long
JsonObject = Annotated[dict[str, Any], AfterValidator(_storable)]
Scalars = Annotated[dict[str, Scalar], Field(max_length=MOST_KEYS), AfterValidator(_storable)]
EpochSeconds = Annotated[float, Field(ge=0, le=LATEST_SECONDS, allow_inf_nan=False)]
Importance = Annotated[float, Field(ge=0, le=1)]
TtlDays = Annotated[int, Field(ge=0, le=36_500, description="Days to live; 0: for ever.")]
Score = Annotated[float, Field(ge=0, le=1)]
Numbers = Annotated[
    list[Annotated[float, Field(allow_inf_nan=False)]],
    Field(min_length=1, max_length=MOST_DIMENSIONS, fail_fast=True),
    AfterValidator(partial(np.asarray, dtype=np.float64)),
]


class NewMemory(Strict):
    """A memory to be stored as given."""

    text: Text
    type: MemoryType = "semantic"
    topics: Labels = Field(default_factory=list)
    tags: Labels = Field(default_factory=list)
    importance: Importance = 0.5
    is_error: bool = False
    origin: Origin = "user"
    author: Label | None = None
    category: Label | None = None
    session_id: Key | None = None
    event_ids: Keys = Field(default_factory=list)
    subject: Label | None = None
    attribute: Label | None = None
    metadata: JsonObject = Field(default_factory=dict)
    happened_at: Moment | None = None
    ttl_days: TtlDays | None = None
    pinned: bool = False
    verbatim: bool = False
    said_at: Moment | None = None

    def fact(self) -> Fact:
        """The record that `Memories.add` takes."""
        values: dict[str, Any] = dict(self)
        values.update((name, tuple(values[name])) for name in ("topics", "tags", "event_ids"))
        return Fact(**values)


class Additions(Strict):
    """Memories to store, whole or not at all."""

    items: list[Annotated[NewMemory | Text, Field(union_mode="left_to_right")]] = Field(
        fail_fast=True, max_length=MOST_ITEMS
    )
    replaces: Key | None = Field(default=None, description="The memory that the single item corrects.")
    vectors: Annotated[list[Numbers], Field(max_length=MOST_ITEMS, fail_fast=True)] | None = Field(
        default=None, description="One an item, when the caller embeds itself."
    )
    embedding_space: Label | None = None
    who: Label = ""


class Added(BaseModel):
    """The ids that now hold the items, in their order."""

    ids: list[str]


class Changes(Strict):
    """What an edit sets; absent fields stay as they are."""

    content: Text | None = None
    type: MemoryType | None = None
    topics: Labels | None = None
    tags: Labels | None = None
    importance: Importance | None = None
    metadata: JsonObject | None = None
    category: Label | None = Field(default=None, description="An empty one takes it off.")
    ttl_days: TtlDays | None = None
    happened_at: Moment | None = None
    revision: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        default=None, description="The revision that was read; another one by now is a conflict."
    )
    who: Label = ""
    why: Label = ""


class Pin(Strict):
    """Whether the memory stays whatever the prune says."""

    pinned: bool = True
    who: Label = ""


class By(Strict):
    """Who asks."""

    who: Label = ""


class Feedback(Strict):
    """Whether the memory helped."""

    success: bool


class Erased(BaseModel):
    """The ids that were erased, or in a dry run those that would be."""

    ids: list[str]


class FilterParams(BaseModel):
    """Which memories count; see `kagent_memory.records.Filter`."""

    types: list[MemoryType] = Field(default_factory=list, max_length=4)
    topics: Labels = Field(default_factory=list)
    tags: Labels = Field(default_factory=list)
    origins: list[Origin] = Field(default_factory=list, max_length=4)
    session_id: Key | None = None
    author: Label | None = None
    category: Label | None = None
    min_importance: Importance | None = None
    created_after: Moment | None = None
    created_before: Moment | None = None
    happened_after: Moment | None = None
    happened_before: Moment | None = None
    superseded: bool | Literal["only", "quarantined", "short_term"] = False

    def record(self, metadata: dict[str, Scalar] | None = None) -> Filter:
        """The record that the verbs take."""
        values: dict[str, Any] = {name: getattr(self, name) for name in FilterParams.model_fields}
        values.update((name, tuple(values[name])) for name in ("types", "topics", "tags", "origins"))
        return Filter(**values, metadata=metadata or {})


class FilterBody(FilterParams):
    """The same, with metadata: every key is there with an equal scalar."""

    model_config = ConfigDict(extra="forbid")

    metadata: Scalars = Field(default_factory=dict)


class Which(Strict):
    """Which memories to erase: some ids, those that meet every condition, or everything of the scope."""

    ids: list[Key] = Field(fail_fast=True, default_factory=list, max_length=10_000)
    session_id: Key | None = None
    tag: Label | None = None
    author: Label | None = None
    before: Moment | None = Field(default=None, description="Added before this time.")
    after: Moment | None = Field(default=None, description="Added at this time or later.")
    filter: FilterBody | None = None
    everything: StrictBool = False
    dry_run: StrictBool = Field(default=False, description="Erases nothing; gives the ids that would be erased.")
    who: Label = ""

    def options(self) -> ForgetOptions:
        """What `MemoryApi.forget` takes beside the ids."""
        return ForgetOptions(
            session_id=self.session_id,
            tag=self.tag,
            author=self.author,
            before=self.before,
            after=self.after,
            filter=self.filter and self.filter.record(self.filter.metadata),
            everything=self.everything,
            dry_run=self.dry_run,
        )


class ListParams(FilterParams):
    """A page of a filtered list."""

    metadata: Annotated[str, Field(max_length=16_384, description="A JSON object of up to 64 scalars.")] = "{}"
    order: Order = "newest"
    limit: Annotated[int, Field(ge=1, le=MOST_FOUND)] = 50
    cursor: Annotated[str, Field(max_length=4096)] | None = None


class Question(Strict):
    """A question to memory."""

    query: Turn
    limit: Annotated[int, Field(ge=0, le=MOST_FOUND)] | None = None
    min_score: Score | None = None
    filter: FilterBody = Field(default_factory=FilterBody)
    explain: bool = Field(default=False, description="Says why each was found; then nothing counts as delivered.")
    deliver: bool = Field(default=True, description="Counts the hits as delivered.")
    gate: bool = Field(default=False, description="May answer nothing to a text that asks for nothing.")
    tool: bool = Field(default=False, description="Tells the gate that the query is meant for a tool.")
    is_fact: bool | None = Field(default=None, description="Tells the gate whether it asks for general knowledge.")
    history: list[Turn] = Field(
        fail_fast=True, default_factory=list, max_length=50, description="The last turns of the user; three count."
    )
    budget_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    timeout_seconds: Annotated[float, Field(gt=0, le=3600, description="How long the caller waits.")] | None = None
    as_of: Moment | None = Field(
        default=None, description="Answers as at this time, from the history; then nothing counts as delivered."
    )
    session_id: Key | None = Field(default=None, description="The session that asks, for its short-term memories.")
    vector: Numbers | None = None
    embedding_space: Label | None = None

    def options(self) -> RecallOptions:
        """What `MemoryApi.recall` takes beside the query."""
        return RecallOptions(
            limit=self.limit,
            min_score=self.min_score,
            filter=self.filter.record(self.filter.metadata),
            embedding=None if self.vector is None else checked_vector(self.vector, None),
            embedding_space=self.embedding_space,
            explain=self.explain,
            deliver=self.deliver,
            gate=self.gate,
            tool=self.tool,
            is_fact=self.is_fact,
            history=self.history,
            budget_tokens=self.budget_tokens,
            timeout_seconds=self.timeout_seconds,
            as_of=self.as_of,
            session_id=self.session_id,
        )


class WhoseParams(Strict):
    """Whose memories: an agent's about a user; all of a user's agents, an agent's users or a tenant, by leaving out."""

    tenant: Annotated[Key | None, Field(description="Default: the caller's, or the server's.")] = None
    user: Annotated[Key, Field(min_length=1)] | None = None
    app: Annotated[Key, Field(min_length=1)] | None = None

    def record(self, tenant: str) -> Scope | Scopes:
        """The record that `Memories.recall` takes, of this tenant when none is named."""
        tenant = tenant if self.tenant is None else self.tenant
        if self.user is None or self.app is None:
            return Scopes(tenant=tenant, user=self.user, app=self.app)
        return Scope(tenant, self.user, self.app)


class ScopesQuestion(Question):
    """A question to the memories of several agents or users."""

    scopes: Annotated[list[WhoseParams], Field(min_length=1, max_length=MOST_SCOPES, fail_fast=True)]


class Utterance(Strict):
    """One utterance of a transcript."""

    text: Text
    role: Literal["user", "agent", "tool"] = "user"
    author: Label = ""
    event_id: Key = ""
    at: Moment | None = None
    recalled: list[Text] = Field(fail_fast=True, default_factory=list, max_length=1000)
    compaction: tuple[EpochSeconds, EpochSeconds] | None = None

    def message(self) -> Message:
        """The record that `Memories.remember` takes."""
        values: dict[str, Any] = dict(self)
        values["recalled"] = tuple(self.recalled)
        return Message(**values)


class Transcript(Strict):
    """All of a session so far, or some of it; what was taken in before is left out."""

    session_id: Key
    messages: list[Utterance] = Field(fail_fast=True, max_length=10_000)
    ended: bool = False
    save: bool = Field(default=True, description="False only arms the inactivity timer.")
    end_after_minutes: Annotated[float, Field(ge=0, le=LONGEST_MINUTES)] | None = None
    compaction: bool = Field(default=False, description="Uses the summaries that ADK's compaction made.")
    model: Label = Field(default="", description="The model at hand when the server has none of its own.")

    def said(self) -> list[Message]:
        """The records that `Memories.remember` takes."""
        return [utterance.message() for utterance in self.messages]


class Queued(BaseModel):
    """The job that will take a transcript in; none when nothing in it was new."""

    job: str | None


class EndedSession(Strict):
    """A session that is over."""

    session_id: Key


class DryRun(Strict):
    """Whether to only say what would be done."""

    dry_run: StrictBool = False


class ForgetTenant(Strict):
    """Which tenant is erased, and about how many memories of it in this call."""

    tenant: str = Field(min_length=1, max_length=LONGEST_NAME)
    limit: int = Field(default=1000, ge=1, le=10_000)
    who: Label = ""


class Drain(Strict):
    """How long to wait for the queue."""

    timeout_seconds: Annotated[float, Field(ge=0, le=60)] = 30.0


class Drained(BaseModel):
    """Whether no accepted job is open."""

    drained: bool


class Info(BaseModel):
    """What this server is."""

    version: str
    mode: Mode
    needs_model: bool = Field(description="Sessions wait until a worker can make the model that their agent names.")
    search_limit: int
    ttl_days: int
    popular_after: int
    max_content_bytes: int
