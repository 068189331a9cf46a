"""From a model's item to a fact: what is unknown is dropped, what is out of bounds is brought back."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from ...models.prompts.escaping import unescaped
from ...records import Fact, Message
from .answer_schema import ExtractedFact, known_type
from .transcript import Transcript

MAX_TOPICS = 5
MAX_TOPIC_CHARS = 40
MAX_SLOT_CHARS = 120
SESSION_SUMMARY = "session:summary"
SUMMARY_IMPORTANCE = 0.6
_YEAR_OR_MONTH = re.compile(r"(\d{4})(?:-(\d{2}))?")
_FURTHEST = timedelta(days=100 * 365)


def read_fact(item: ExtractedFact, part: Sequence[Message], transcript: Transcript) -> Fact | None:
    """The item as a fact; None when it says nothing or its type is unknown.

    Its sources are messages of this part, named by their number; when it names none of them, the whole part.
    """
    kind = known_type(item.type)
    text = " ".join(unescaped(item.text).split())
    if not text or kind is None:
        return None
    numbered = {str(number): message for number, message in enumerate(part, 1)}
    refs = dict.fromkeys(source.strip(" []#") for source in item.sources)
    sources = [numbered[ref] for ref in refs if ref in numbered] or part
    subject, attribute = (" ".join(unescaped(part or "").split()) for part in (item.subject, item.attribute))
    reserved = attribute.casefold().startswith("compaction:")  # the slots that compaction summaries fill
    # half a slot identifies nothing
    has_slot = bool(subject and attribute) and max(len(subject), len(attribute)) <= MAX_SLOT_CHARS and not reserved
    authors = {message.author for message in sources if message.author}
    # The least trusted of its sources: what a tool said stays a tool's, whoever repeated it.
    roles = {message.role for message in sources}
    plain = (" ".join(unescaped(topic).casefold().strip(" #.,;:\"'").split()) for topic in item.topics)
    return Fact(
        text=text,
        type=kind,
        topics=tuple(dict.fromkeys(topic for topic in plain if 0 < len(topic) <= MAX_TOPIC_CHARS))[:MAX_TOPICS],
        importance=0.5 if math.isnan(item.importance) else min(max(item.importance, 0.0), 1.0),
        is_error=item.is_error,
        origin="tool" if "tool" in roles else "user" if "user" in roles else "agent",
        author=authors.pop() if len(authors) == 1 else None,
        session_id=transcript.session_id or None,
        event_ids=_event_ids(sources),
        subject=subject if has_slot else None,
        attribute=attribute if has_slot else None,
        happened_at=resolved_time(item.happened_at, transcript.now) or _last_at(sources),
    )


def session_fact(summary: str, said: Sequence[Message], transcript: Transcript) -> Fact:
    """The summary of a session that is over."""
    return Fact(
        text=" ".join(unescaped(summary).split()),
        type="episodic",
        importance=SUMMARY_IMPORTANCE,
        origin="agent",
        session_id=transcript.session_id or None,
        event_ids=_event_ids(said),
        subject=transcript.session_id or "session",
        attribute=SESSION_SUMMARY,
        happened_at=_last_at(said),
    )


def resolved_time(value: str | None, now: datetime) -> datetime | None:
    """An ISO 8601 time, date, month or year as aware UTC (without a zone it is UTC, without a day the first).

    None when it is none of these, or more than 100 years away from `now`.
    """
    text = (value or "").strip()
    if short := _YEAR_OR_MONTH.fullmatch(text):
        text = f"{short[1]}-{short[2] or '01'}-01"
    try:
        read = datetime.fromisoformat(text)
        read = (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)
        return read if abs(read - now) <= _FURTHEST else None
    except (ValueError, OverflowError):
        return None


def _event_ids(sources: Sequence[Message]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(message.event_id for message in sources if message.event_id))


def _last_at(sources: Sequence[Message]) -> datetime | None:
    return max((message.at for message in sources if message.at), default=None)
