"""What /api/v1 takes; what it gives are the records themselves."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, JsonValue

from ..ingest.payload import LATEST_SECONDS, LONGEST_MINUTES
from ..records import DEEPEST, Fact, Filter, MemoryType, Message, Mode, Origin, too_deep
from ..stores.base import Order

MOST_ITEMS = 500
MOST_FOUND = 1000
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


def _storable(value: JsonValue) -> JsonValue:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("holds a number that JSON cannot say")
    if isinstance(value, int) and abs(value) > LARGEST_INT:
        raise ValueError("holds a whole number beyond 2^53; send it as text")
    if isinstance(value, str):
        _plain(value)
    for part in value if isinstance(value, list) else ():
        _storable(part)
    for key, part in value.items() if isinstance(value, dict) else ():
        _plain(key)
        _storable(part)
    return value


def _storable_object(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if any(too_deep(part) for part in value.values()):
        raise ValueError(f"has a value nested deeper than {DEEPEST} levels")
    return cast("dict[str, JsonValue]", _storable(value))


def _storable_scalars(value: dict[str, Scalar]) -> dict[str, Scalar]:
    return cast("dict[str, Scalar]", _storable(cast("JsonValue", value)))


Text = Annotated[str, AfterValidator(_plain)]
Label = Annotated[str, Field(max_length=256), AfterValidator(_plain)]
Key = Annotated[str, Field(max_length=1024), AfterValidator(_plain)]
Moment = Annotated[AwareDatetime, AfterValidator(_utc)]
Scalar = str | int | float | bool | None
JsonObject = Annotated[dict[str, JsonValue], AfterValidator(_storable_object)]
Scalars = Annotated[dict[str, Scalar], AfterValidator(_storable_scalars)]
EpochSeconds = Annotated[float, Field(ge=0, le=LATEST_SECONDS, allow_inf_nan=False)]
Importance = Annotated[float, Field(ge=0, le=1)]
TtlDays = Annotated[int, Field(ge=0, le=36_500, description="Days to live; 0: for ever.")]
Score = Annotated[float, Field(ge=0, le=1)]
Vectors = Annotated[
    list[Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=1, max_length=4000)]],
    Field(max_length=MOST_ITEMS),
]


class Strict(BaseModel):
    """A body without unknown fields: a misspelt one is an error, not silence."""

    model_config = ConfigDict(extra="forbid")


class NewMemory(Strict):
    """A memory to be stored as given."""

    text: Text
    type: MemoryType = "semantic"
    topics: list[Label] = Field(default_factory=list, max_length=64)
    tags: list[Label] = Field(default_factory=list, max_length=64)
    importance: Importance = 0.5
    is_error: bool = False
    origin: Origin = "user"
    author: Label | None = None
    session_id: Key | None = None
    event_ids: list[Key] = Field(default_factory=list, max_length=1000)
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

    items: list[NewMemory | Text] = Field(max_length=MOST_ITEMS)
    replaces: Key | None = Field(default=None, description="The memory that the single item corrects.")
    vectors: Vectors | None = Field(default=None, description="One an item, when the caller embeds itself.")
    generation: Label | None = None
    who: Label = ""


class Added(BaseModel):
    """The ids that now hold the items, in their order."""

    ids: list[str]


class Changes(Strict):
    """What an edit sets; absent fields stay as they are."""

    content: Text | None = None
    type: MemoryType | None = None
    topics: list[Label] | None = Field(default=None, max_length=64)
    tags: list[Label] | None = Field(default=None, max_length=64)
    importance: Importance | None = None
    metadata: JsonObject | None = None
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


class Which(Strict):
    """Which memories to erase: some ids, a session's, or everything of the scope."""

    ids: list[Key] = Field(default_factory=list, max_length=10_000)
    session_id: Key | None = None
    everything: bool = False


class Erased(BaseModel):
    """The ids that were erased."""

    ids: list[str]


class FilterParams(BaseModel):
    """Which memories count; see `kagent_memory.records.Filter`."""

    types: list[MemoryType] = Field(default_factory=list, max_length=4)
    topics: list[Label] = Field(default_factory=list, max_length=64)
    tags: list[Label] = Field(default_factory=list, max_length=64)
    origins: list[Origin] = Field(default_factory=list, max_length=4)
    session_id: Key | None = None
    min_importance: Importance | None = None
    created_after: Moment | None = None
    created_before: Moment | None = None
    happened_after: Moment | None = None
    happened_before: Moment | None = None
    superseded: bool = False

    def record(self, metadata: dict[str, Scalar] | None = None) -> Filter:
        """The record that the verbs take."""
        values: dict[str, Any] = {name: getattr(self, name) for name in FilterParams.model_fields}
        values.update((name, tuple(values[name])) for name in ("types", "topics", "tags", "origins"))
        return Filter(**values, metadata=metadata or {})


class FilterBody(FilterParams):
    """The same, with metadata: every key is there with an equal scalar."""

    model_config = ConfigDict(extra="forbid")

    metadata: Scalars = Field(default_factory=dict)


class ListParams(FilterParams):
    """A page of a filtered list."""

    metadata: Annotated[str, Field(max_length=16_384, description="A JSON object of scalars.")] = "{}"
    order: Order = "newest"
    limit: Annotated[int, Field(ge=1, le=MOST_FOUND)] = 50
    cursor: Annotated[str, Field(max_length=4096)] | None = None


class Question(Strict):
    """A question to memory."""

    query: Text
    limit: Annotated[int, Field(ge=0, le=MOST_FOUND)] | None = None
    min_score: Score | None = None
    filter: FilterBody = Field(default_factory=FilterBody)
    explain: bool = Field(default=False, description="Says why each was found; then nothing counts as delivered.")
    deliver: bool = Field(default=True, description="Counts the hits as delivered.")
    gate: bool = Field(default=False, description="May answer nothing to a text that asks for nothing.")
    tool: bool = Field(default=False, description="Tells the gate that the query is meant for a tool.")
    is_fact: bool | None = Field(default=None, description="Tells the gate whether it asks for general knowledge.")
    history: list[Text] = Field(default_factory=list, max_length=50, description="The last turns of the user.")
    budget_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    timeout_seconds: Annotated[float, Field(gt=0, le=3600, description="How long the caller waits.")] | None = None
    vector: Annotated[list[float], Field(min_length=1, max_length=4000)] | None = None
    generation: Label | None = None


class Utterance(Strict):
    """One utterance of a transcript."""

    text: Text
    role: Literal["user", "agent", "tool"] = "user"
    author: Label = ""
    event_id: Key = ""
    at: Moment | None = None
    recalled: list[Text] = Field(default_factory=list, max_length=1000)
    compaction: tuple[EpochSeconds, EpochSeconds] | None = None

    def message(self) -> Message:
        """The record that `Memories.remember` takes."""
        values: dict[str, Any] = dict(self)
        values["recalled"] = tuple(self.recalled)
        return Message(**values)


class Transcript(Strict):
    """All of a session so far, or some of it; what was taken in before is left out."""

    session_id: Key
    messages: list[Utterance] = Field(max_length=10_000)
    ended: bool = False
    save: bool = Field(default=True, description="False only arms the inactivity timer.")
    end_after_minutes: Annotated[float, Field(ge=0, le=LONGEST_MINUTES)] | None = None
    compaction: bool = Field(default=False, description="Uses the summaries that ADK's compaction made.")
    model: Label = Field(default="", description="The model at hand when the server has none of its own.")


class Queued(BaseModel):
    """The job that will take a transcript in; none when nothing in it was new."""

    job: str | None


class EndedSession(Strict):
    """A session that is over."""

    session_id: Key


class DryRun(Strict):
    """Whether to only say what would be done."""

    dry_run: bool = False


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
