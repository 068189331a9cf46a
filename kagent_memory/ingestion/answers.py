"""What models and other providers answer: schemas that read whatever a model wrote as far as it can
be used, and facts as they may be stored, with their sources.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
)

from ..checks import valid_text
from ..errors import InvalidInput
from ..models.prompts.escaping import unescaped
from ..records import Fact, MemoryType, Message
from ..retrieval.ranking.importance import clamped
from .echoes import content_terms
from .editing import checked_fact
from .splitting import pieces, sentences_of
from .summary_provider import Transcript

logger = logging.getLogger(__name__)

MAX_TOPICS = 5
MAX_TOPIC_CHARS = 40
MAX_SLOT_CHARS = 120
SESSION_SUMMARY = "session:summary"
SUMMARY_IMPORTANCE = 0.6
_YEAR_OR_MONTH = re.compile(r"(\d{4})(?:-(\d{2}))?")
_MAX_DISTANCE = timedelta(days=100 * 365)


def _plain(text: str) -> str:
    """Return a text on one line, with the signs that its prompt had escaped."""
    return " ".join(unescaped(valid_text(text)).split())


def _text(value: object) -> str:
    return _plain(str(value)) if isinstance(value, (str, int)) else ""


def _name(value: object) -> str:
    """Return a name that a prompt gave, such as "M3", of a text that may stand in brackets."""
    return _text(value).upper().strip("[] ")


def _type(value: object) -> str:
    return value.strip().lower() if isinstance(value, str) else "semantic"


def _texts(value: object) -> list[str]:
    """Return a list of texts, of which one may stand alone."""
    listed = cast("list[object]", value if isinstance(value, list) else [value])
    return list(filter(None, map(_text, listed)))


def _or(default: object) -> WrapValidator:
    """Return what takes a default for a value that does not fit."""

    def read(value: Any, fitting: ValidatorFunctionWrapHandler) -> Any:
        try:
            return fitting(value)
        except ValidationError:
            return default

    return WrapValidator(read)


Text: TypeAlias = Annotated[str, BeforeValidator(_text)]
Name: TypeAlias = Annotated[str, BeforeValidator(_name)]
Texts: TypeAlias = Annotated[list[str], BeforeValidator(_texts)]


class ExtractedFact(BaseModel):
    """One fact."""

    text: Annotated[str, AfterValidator(_plain)]
    type: Annotated[MemoryType, BeforeValidator(_type)] = "semantic"
    topics: Texts = Field(default_factory=list[str])
    importance: Annotated[float, AfterValidator(clamped), _or(0.5)] = 0.5
    is_error: Annotated[bool, _or(False)] = False
    happened_at: Text | None = None
    subject: Text | None = None
    attribute: Text | None = None
    sources: Texts = Field(default_factory=list[str])


def _worded(value: object) -> object:
    return {"text": value} if isinstance(value, str) else value


NO_FACT = ExtractedFact(text="")
"""Stands for an item of a list that is no fact: no text, or an unknown type."""


class ExtractedFacts(BaseModel):
    """The facts of one part of a transcript.

    Items that are none are left out. An empty list is a good answer; a list of nothing but such
    items is none.
    """

    facts: list[Annotated[ExtractedFact, BeforeValidator(_worded), _or(NO_FACT)]]

    @field_validator("facts")
    @classmethod
    def only_facts(cls, items: list[ExtractedFact]) -> list[ExtractedFact]:
        """Return the items that have the text of a fact, which may be empty, and no unknown
        type.
        """
        facts = [item for item in items if item is not NO_FACT]
        if items and not facts:
            raise ValueError("no item of the list is a fact")
        if left_out := len(items) - len(facts):  # not what they say: it is of a conversation
            logger.warning("Left out %s of a model's facts: no text, or an unknown type.", left_out)
        return facts


class ExtractedSession(ExtractedFacts):
    """The same at a session's end, with a summary of the whole session."""

    summary: Text = ""


class Decision(BaseModel):
    """Decision of a model about one new fact."""

    fact: Name = ""
    # whatever else a model says counts as ADD
    action: Annotated[
        Literal["ADD", "UPDATE", "SUPERSEDE", "NOOP"], BeforeValidator(_name), _or("ADD")
    ] = "ADD"
    memory: Name | None = None
    text: Text | None = None


class Decisions(BaseModel):
    """All decisions of a call."""

    # one that does not fit is of no fact
    decisions: list[Annotated[Decision, _or(Decision())]]


def read_fact(item: ExtractedFact, part: Sequence[Message], transcript: Transcript) -> Fact | None:
    """Return a model's item as a fact; None when it says nothing.

    Its sources are messages of this part, named by their number; when it names none of them, the
    whole part. Its origin is that of the least trusted of them, and what is out of bounds is
    brought back.
    """
    if not item.text:
        return None
    numbered = {str(number): message for number, message in enumerate(part, 1)}
    refs = [source.strip(" []#") for source in item.sources]
    sources = [numbered[ref] for ref in refs if ref in numbered] or part
    subject, attribute = slot = item.subject or "", item.attribute or ""
    # half a slot identifies nothing, and compaction summaries have slots of their own
    is_reserved = attribute.casefold().startswith("compaction:")
    if is_reserved or not all(0 < len(name) <= MAX_SLOT_CHARS for name in slot):
        subject = attribute = None
    authors = {message.author for message in sources if message.author}
    roles = {message.role for message in sources}
    topics = (topic.casefold().strip(" #.,;:\"'") for topic in item.topics)
    return Fact(
        text=item.text,
        type=item.type,
        topics=tuple(dict.fromkeys(topic for topic in topics if 0 < len(topic) <= MAX_TOPIC_CHARS))[
            :MAX_TOPICS
        ],
        importance=item.importance,
        is_error=item.is_error,
        origin="tool" if "tool" in roles else "user" if "user" in roles else "agent",
        author=authors.pop() if len(authors) == 1 else None,
        event_ids=event_ids(sources),
        subject=subject,
        attribute=attribute,
        happened_at=resolved_time(item.happened_at or "", transcript.now) or _last_at(sources),
    )


def session_fact(summary: str, said: Sequence[Message], transcript: Transcript) -> Fact:
    """Return the summary of a session that is over; it outlives the session's short-term memories,
    and has their sources.
    """
    before = (memory.event_ids for memory in transcript.earlier if memory.state == "short_term")
    return Fact(
        text=summary,
        type="episodic",
        importance=SUMMARY_IMPORTANCE,
        origin="agent",
        event_ids=tuple(dict.fromkeys((*event_ids(said), *chain.from_iterable(before)))),
        subject=transcript.session_id or "session",
        attribute=SESSION_SUMMARY,
        happened_at=_last_at(said),
    )


def resolved_time(value: str, now: datetime) -> datetime | None:
    """Return an ISO 8601 time, date, month or year as aware UTC.

    Without a zone it is UTC, without a day the first. None when it is none of these, or more than
    100 years away from `now`.
    """
    text = value.strip()
    if short := _YEAR_OR_MONTH.fullmatch(text):
        text = f"{short[1]}-{short[2] or '01'}-01"
    try:
        read = datetime.fromisoformat(text)
        read = (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)
        return read if abs(read - now) <= _MAX_DISTANCE else None
    except (ValueError, OverflowError):
        return None


def storable(
    facts: Sequence[Fact],
    transcript: Transcript,
    *,
    outputs: Sequence[str],
    said_at: datetime,
    max_bytes: int,
) -> list[Fact]:
    """Return the facts with their session, sources and the origin that they deserve.

    Long ones are cut between sentences, unfit ones left out and logged.

    Args:
        facts: what a provider found.
        transcript: what it was found in; a fact that names no events has all of its.
        outputs: what tools said in the session.
        said_at: when a fact was said of whose sources none tells a time.
        max_bytes: of one fact.
    """
    kept: list[Fact] = []
    sources = {message.event_id: message for message in transcript}
    tool_terms = content_terms("\n".join(outputs))
    of_user = (message.text for message in transcript if outputs and message.role == "user")
    user_terms = content_terms("\n".join(of_user))
    for fact in facts:
        own = [sources[id] for id in fact.event_ids or sources if id in sources]
        fact = replace(
            _with_fields(fact, own),
            event_ids=fact.event_ids or tuple(sources),
            session_id=fact.session_id or transcript.session_id or None,
            said_at=fact.said_at or _last_at(own) or _last_at(transcript) or said_at,
        )
        if outputs and _repeats(fact, tool_terms, user_terms):
            fact = replace(fact, origin="tool")
        fits = len(fact.text.encode(errors="replace")) <= max_bytes
        # a token is at most 4 bytes
        texts = [fact.text] if fits else pieces(fact.text, max(1, max_bytes // 4))
        for number, text in enumerate(texts, 1):
            part = replace(fact, text=text)
            if fact.attribute and number > 1:
                # each part has a slot of its own: no part is a later value of another
                part = replace(part, attribute=f"{fact.attribute} ({number})")
            try:
                kept.append(checked_fact(part, max_bytes=max_bytes, redact=str))
            except InvalidInput as error:
                logger.warning("The summary provider gave a fact that cannot be stored: %s", error)
    return kept


def _repeats(fact: Fact, tool_terms: Set[str], user_terms: Set[str]) -> bool:
    """Return True for a fact that is as trusted as what tools said.

    These are the summary of a session with a tool's output, and facts with a sentence most of whose
    content words, but for the user's own, are a tool's. What the user said in a turn stays the
    user's.
    """
    if fact.verbatim and fact.origin == "user":
        return False
    own = (content_terms(sentence) - user_terms for sentence in sentences_of(fact.text))
    return fact.attribute == SESSION_SUMMARY or any(
        2 * len(terms & tool_terms) > len(terms) for terms in own
    )


def _with_fields(fact: Fact, sources: Iterable[Message]) -> Fact:
    """Return the fact with the fields that its messages brought: labels beside its own, of all
    others the last.
    """
    for fields in (message.fields for message in sources if message.fields):
        labels = {
            name: (*getattr(fact, name), *fields[name])
            for name in ("topics", "tags")
            if name in fields
        }
        metadata = {**fact.metadata, **fields.get("metadata", {})}
        fact = replace(fact, **{**fields, **labels, "metadata": metadata})
    return fact


def event_ids(sources: Sequence[Message]) -> tuple[str, ...]:
    """Return the ids of the events that messages come from, each once."""
    return tuple(dict.fromkeys(message.event_id for message in sources if message.event_id))


def _last_at(sources: Sequence[Message]) -> datetime | None:
    return max((message.at for message in sources if message.at), default=None)
