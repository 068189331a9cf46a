"""Schemas that tolerate a model's mistakes, and the facts that its answers become.

A model reads the docstrings of the schemas with its prompt.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
)

from ..checks import checked_time, parsed_time, valid_text
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
    """Return a text on one line, with its escaped characters restored."""
    return " ".join(unescaped(valid_text(text)).split())


def _text(value: object) -> str:
    return _plain(str(value)) if isinstance(value, (str, int)) else ""


def _name(value: object) -> str:
    """Return a name from a prompt, such as "M3", also if the model put it in brackets."""
    return _text(value).upper().strip("[] ")


def _type(value: object) -> str:
    return value.strip().lower() if isinstance(value, str) else "semantic"


def _texts(value: object) -> list[str]:
    """Return a list of texts; a single text counts as a list of one."""
    listed = cast("list[object]", value if isinstance(value, list) else [value])
    return list(filter(None, map(_text, listed)))


def _or(default: object) -> WrapValidator:
    """Return a validator that replaces a value that does not fit by a default."""

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
    topics: Texts = []
    importance: Annotated[float, AfterValidator(clamped), _or(0.5)] = 0.5
    is_error: Annotated[bool, _or(False)] = False
    happened_at: Text | None = None
    subject: Text | None = None
    attribute: Text | None = None
    sources: Texts = []


def _worded(value: object) -> object:
    return {"text": value} if isinstance(value, str) else value


NO_FACT = ExtractedFact(text="")
"""Placeholder for a list item that is not a fact: it has no text, or an unknown type."""


class ExtractedFacts(BaseModel):
    """The facts of one part of a transcript.

    Invalid items are left out. An empty list is valid; a list of invalid items only is not.
    """

    facts: list[Annotated[ExtractedFact, BeforeValidator(_worded), _or(NO_FACT)]]

    @field_validator("facts")
    @classmethod
    def only_facts(cls, items: list[ExtractedFact]) -> list[ExtractedFact]:
        """Return the items that are facts, including those with an empty text."""
        facts = [item for item in items if item is not NO_FACT]
        if items and not facts:
            raise ValueError("no item of the list is a fact")
        if left_out := len(items) - len(facts):  # without their text, which is private
            logger.warning("Left out %s of a model's facts: no text, or an unknown type.", left_out)
        return facts


class ExtractedSession(ExtractedFacts):
    """The facts of the last part of a session, with a summary of the whole session."""

    summary: Text = ""


class Decision(BaseModel):
    """A model's decision about one new fact."""

    fact: Name = ""
    # any other word of a model counts as ADD
    action: Annotated[
        Literal["ADD", "UPDATE", "SUPERSEDE", "NOOP"], BeforeValidator(_name), _or("ADD")
    ] = "ADD"
    memory: Name | None = None
    text: Text | None = None


class Decisions(BaseModel):
    """All decisions of a call."""

    # an invalid decision names no fact
    decisions: list[Annotated[Decision, _or(Decision())]]


def read_fact(item: ExtractedFact, part: Sequence[Message], transcript: Transcript) -> Fact | None:
    """Return a model's item as a fact, or None if its text is empty.

    Its sources are the messages of this part that it names by number, by default the whole part. It
    gets the origin of the least trusted source, and values out of bounds are clamped or dropped.
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
    """Return the summary of an ended session as a fact, which also has the sources of the session's
    short-term memories and outlives them.
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
    """Parse an ISO 8601 time, date, month or year into aware UTC.

    The default zone is UTC, the default day the first. Return None for any other text, and for
    times more than 100 years away from `now`.
    """
    if short := _YEAR_OR_MONTH.fullmatch(value):
        value = f"{short[1]}-{short[2] or '01'}-01"
    try:
        at = checked_time(parsed_time(value, "The date"))
    except InvalidInput:
        return None
    return at if abs(at - now) <= _MAX_DISTANCE else None


def storable(
    facts: Sequence[Fact],
    transcript: Transcript,
    *,
    outputs: Sequence[str],
    said_at: datetime,
    max_bytes: int,
) -> list[Fact]:
    """Return the facts with their session, sources and the origin that they deserve.

    Long facts are cut between sentences; unfit ones are left out and logged.

    Args:
        facts: the facts of a provider.
        transcript: their transcript; all its events are the sources of a fact that names none.
        outputs: the texts of the session's tools.
        said_at: the default time of a fact whose sources have no time.
        max_bytes: the longest content of one fact, in bytes of UTF-8.
    """
    checked_facts: list[Fact] = []
    sources = {message.event_id: message for message in transcript}
    tool_terms = content_terms("\n".join(outputs))
    user_terms = content_terms(
        "\n".join(message.text for message in transcript if outputs and message.role == "user")
    )
    for fact in facts:
        fact_messages = [sources[id] for id in fact.event_ids or sources if id in sources]
        fact = replace(
            _with_fields(fact, fact_messages),
            event_ids=fact.event_ids or tuple(sources),
            session_id=fact.session_id or transcript.session_id or None,
            said_at=fact.said_at or _last_at(fact_messages) or _last_at(transcript) or said_at,
        )
        if outputs and _repeats(fact, tool_terms, user_terms):
            fact = replace(fact, origin="tool")
        fits = len(fact.text.encode(errors="replace")) <= max_bytes
        # a token is at most 4 bytes
        texts = [fact.text] if fits else pieces(fact.text, max(1, max_bytes // 4))
        for number, text in enumerate(texts, 1):
            # each part has a slot of its own: no part is a later value of another
            is_further = fact.attribute and number > 1
            attribute = f"{fact.attribute} ({number})" if is_further else fact.attribute
            part = replace(fact, text=text, attribute=attribute)
            try:
                checked_facts.append(checked_fact(part, max_bytes=max_bytes, redact=str))
            except InvalidInput as error:
                logger.warning("The summary provider gave a fact that cannot be stored: %s", error)
    return checked_facts


def _repeats(fact: Fact, tool_terms: Set[str], user_terms: Set[str]) -> bool:
    """Return True for a fact that deserves no more trust than the output of tools.

    This is true of the summary of a session in which a tool was used, and of facts with a sentence
    most of whose content words, the user's own words excepted, come from a tool. A turn of the user
    stays the user's.
    """
    if fact.verbatim and fact.origin == "user":
        return False
    sentence_terms = (content_terms(sentence) - user_terms for sentence in sentences_of(fact.text))
    return fact.attribute == SESSION_SUMMARY or any(
        2 * len(terms & tool_terms) > len(terms) for terms in sentence_terms
    )


def _with_fields(fact: Fact, sources: Iterable[Message]) -> Fact:
    """Return the fact with the fields of its messages: labels and metadata are merged with its own,
    other fields replaced by the last message that has them.
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
    """Return the distinct ids of the events of these messages."""
    return tuple(dict.fromkeys(message.event_id for message in sources if message.event_id))


def _last_at(sources: Sequence[Message]) -> datetime | None:
    return max((message.at for message in sources if message.at), default=None)
