"""Reading a session right: ADK's events become messages; `entries` does the same for single memories.

An event that is odd in some way (a time in milliseconds, a tool's answer that holds itself) is kept as far as it can
be, and a warning says which it is: the rest of its session must not be lost for it.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, TypeVar, cast

from google.adk.events.event import Event
from google.genai import types

from ..models.prompts.fence import fenced_answer_in, without_fenced
from ..records import Message
from .answers import CUT, plain, storable_id

log = logging.getLogger("kagent_memory")
Item = TypeVar("Item")

MEMORY_TOOLS = frozenset(
    {"load_memory", "recall_memory", "preload_memory", "prefetch_memory", "save_memory", "forget_memory"}
    | {"confirm_memory", "list_memories"}  # the latter is MCP's
)
CONFIRMATION = "adk_request_confirmation"  # ADK's request to a person, and the name of their answer
UNSPOKEN_TOOLS = frozenset({"adk_request_credential", CONFIRMATION, "transfer_to_agent", "exit_loop"})
MAX_RECALLED = 200
LATEST_SECONDS = 253_402_300_799  # the end of the year 9999
SUBDIVISIONS = (1, 1e3, 1e6, 1e9)  # of the second: in which clocks of others count
NAMED_AT_MOST = 20  # odd events in one warning
LIVE_STREAM = "/_adk_live/"  # artifacts of ADK's that hold speech, whose words are in the transcription
MAX_ID_CHARS, MAX_NAME_CHARS, MAX_URI_CHARS = 80, 200, 2_000


def messages(events: Sequence[Event], prefetched: Iterable[str] = ()) -> list[Message]:
    """What was said in these events, in order.

    Left out: thoughts, partials, calls, code, credentials, and what was rewound. Of files their names and URIs are
    kept. Answers of memory tools are not text: they go to `recalled`. The last message carries all that memory put
    into the conversation so far, since an echo may come turns after its source.

    Args:
        events: of one session, oldest first.
        prefetched: texts that prefetch put before the model; they leave no event.
    """
    odd: dict[str, list[str]] = {}
    heard = [message for event in live_events(events) for message in _Reading(event, odd).messages()]
    if odd:
        shown = [f"{id[:MAX_ID_CHARS]!r} ({', '.join(dict.fromkeys(what))})" for id, what in odd.items()]
        more = f" and {len(shown) - NAMED_AT_MOST} more" if len(shown) > NAMED_AT_MOST else ""
        log.warning("Malformed events were stored as far as possible: %s%s.", "; ".join(shown[:NAMED_AT_MOST]), more)
    recalled = [*prefetched, *(text for message in heard for text in message.recalled)]
    if heard and recalled:
        heard[-1] = replace(heard[-1], recalled=tuple(dict.fromkeys(recalled))[-MAX_RECALLED:])
    return heard


def live_events(events: Sequence[Event]) -> list[Event]:
    """The events without partial ones and without what a rewind took back."""
    first: dict[str, int] = {}
    for place, event in enumerate(events):
        first.setdefault(event.invocation_id, place)
    kept: list[Event] = []
    place = len(events) - 1
    while place >= 0:
        event = events[place]
        rewound = event.actions.rewind_before_invocation_id if event.actions else None
        if rewound:
            place = min(first.get(rewound, place), place) - 1
            continue
        if not event.partial:
            kept.append(event)
        place -= 1
    return kept[::-1]


def is_user_turn(event: Event) -> bool:
    """Whether a person spoke: not a compaction, a tool's or form's answer, or an agent's order to another."""
    if event.author != "user" or (event.actions and event.actions.compaction):
        return False
    if event.isolation_scope:
        return False
    if event.input_transcription and event.input_transcription.text:
        return not event.partial
    parts = (event.content.parts if event.content else None) or []
    if any(part.function_response for part in parts):
        return False
    return any(part.text or part.inline_data or part.file_data for part in parts)


def user_turns(events: Sequence[Event]) -> int:
    """How many invocations of these events a person began."""
    return len({event.invocation_id for event in events if is_user_turn(event)})


def text_of(content: types.Content | None, between: str = "\n") -> str:
    """The spoken text of a content: all text parts, without thoughts."""
    parts = (content.parts if content else None) or []
    return between.join(part.text for part in parts if part.text and not part.thought)


class _Reading:
    """One event as it is read; what is odd about it goes into `odd`, under its id."""

    def __init__(self, event: Event, odd: dict[str, list[str]]) -> None:
        self.event = event
        self._odd = odd
        self._id = storable_id(event.id)

    def messages(self) -> list[Message]:
        """What it says; without what cannot be read at all."""
        if self._id != (self.event.id or ""):
            self._note("its id")
        return self._readable(self._said)

    def _readable(self, read: Callable[[], Iterable[Item]]) -> list[Item]:
        """What can be read: whatever objects an event holds, the rest of it and of its session is saved."""
        items: list[Item] = []
        try:
            items += read()
        except Exception as error:
            self._note(f"{type(error).__name__}, a part of it is left out")
        return items

    def _note(self, what: str) -> None:
        self._odd.setdefault(str(self.event.id), []).append(what)

    def _said(self) -> Iterator[Message]:
        event = self.event
        compaction = event.actions.compaction if event.actions else None
        at = self._time(event.timestamp, "its time")
        if compaction:
            start = self._seconds(compaction.start_timestamp, "its compaction's start")
            end = self._seconds(compaction.end_timestamp, "its compaction's end")
            if start is not None and end is not None:  # else the turns that it covers stand for themselves
                covered = (max(start, 0.0), max(end, 0.0))
                yield self._message(text_of(compaction.compacted_content), "agent", at=at, compaction=covered)
            return
        by_user = event.author == "user" and not event.isolation_scope
        parts = (event.content.parts if event.content else None) or []
        texts = [text for part in parts for text in self._readable(partial(_spoken, part))]
        voices = (event.input_transcription, event.output_transcription)
        texts += [voice.text for voice in voices if voice and voice.text and voice.finished is not False]
        spoken, recalled = without_fenced("\n".join(texts))
        if spoken or recalled:
            role = "user" if by_user else "agent"
            yield self._message(spoken, role, author=str(event.author or ""), at=at, recalled=recalled)
        for part in parts:
            if part.function_response:
                yield from self._readable(partial(self._answered, part.function_response, at))

    def _answered(self, answer: types.FunctionResponse, at: datetime | None) -> Iterator[Message]:
        name = str(answer.name or "")
        files = list(attached(answer.parts or ()))
        response, whole = plain(answer.response)
        if not whole:
            self._note(f"an answer of the tool {name!r}, cut at {CUT}")
        values = response.values() if hasattr(response, "values") else [response]
        nothing = not response or all(value is None for value in values)
        if name in UNSPOKEN_TOOLS or (nothing and not files):
            return
        fenced = fenced_answer_in(response)
        if name in MEMORY_TOOLS or fenced is not None:
            recalled = tuple(dict.fromkeys(_texts(response if fenced is None else fenced)))
            if recalled:
                yield self._message("", "tool", author=name, at=at, recalled=recalled)
            return
        said = [] if nothing else [json.dumps(response, ensure_ascii=False)]
        role = "user" if self.event.author == "user" else "tool"
        yield self._message("\n".join((*said, *files)), role, author=name, at=at)

    def _message(
        self,
        text: str,
        role: Literal["user", "agent", "tool"],
        *,
        author: str = "",
        at: datetime | None,
        recalled: tuple[str, ...] = (),
        compaction: tuple[float, float] | None = None,
    ) -> Message:
        return Message(
            text=text, role=role, author=author, event_id=self._id, at=at, recalled=recalled, compaction=compaction
        )

    def _time(self, timestamp: object, what: str) -> datetime | None:
        seconds = self._seconds(timestamp, what)
        try:
            return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
        except (OverflowError, OSError, ValueError):  # before the year 1; on Windows, before 1970
            self._note(what)
            return None

    def _seconds(self, timestamp: object, what: str) -> float | None:
        """Epoch seconds, of clocks that count in smaller units too; None for what is not a time."""
        try:
            value = float(cast("float", timestamp))
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        seconds = next((value / unit for unit in SUBDIVISIONS if abs(value / unit) <= LATEST_SECONDS), None)
        if seconds != value:
            self._note(what)
        return seconds


def _spoken(part: types.Part) -> Iterator[str]:
    if part.text and not part.thought:
        yield str(part.text)
    elif part.code_execution_result and part.code_execution_result.output:
        yield part.code_execution_result.output
    else:
        yield from attached([part])


def attached(parts: Iterable[types.Part | types.FunctionResponsePart], *, named: bool = False) -> Iterator[str]:
    """A line for each file: its name, URI and kind; `named`: only for those that have one of the first two."""
    for part in parts:
        for file in (part.inline_data, part.file_data):
            uri = str(getattr(file, "file_uri", None) or "")
            uri = uri.partition(",")[0] if uri.startswith("data:") else uri
            name = " ".join(str(getattr(file, "display_name", None) or "").split())[:MAX_NAME_CHARS]
            kind = (file.mime_type if file else None) or ""
            speech = LIVE_STREAM in uri or (kind.startswith("audio/") and not name and not uri)
            if (name or uri or (kind and not named)) and not speech:
                yield f"[attached: {', '.join(filter(None, (name, uri[:MAX_URI_CHARS], kind)))}]"


def _texts(value: Any, key: str = "") -> Iterator[str]:
    """The memories' texts in a memory tool's answer, ADK's own tools included."""
    if isinstance(value, str):
        if key in ("text", "content") and value.strip():
            yield value
    elif isinstance(value, Mapping):
        for name, item in cast("Mapping[str, Any]", value).items():
            yield from _texts(item, name)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _texts(item, key)
