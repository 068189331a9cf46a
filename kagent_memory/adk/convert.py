"""Reading a session right: ADK's events become messages. Pure; `entries` does the same for single memories."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from google.adk.events.event import Event
from google.genai import types

from ..records import Message
from .fence import CLOSING, OPENING, is_fenced_answer

MEMORY_TOOLS = frozenset(
    {"load_memory", "recall_memory", "preload_memory", "prefetch_memory", "save_memory", "forget_memory"}
)
UNSPOKEN_TOOLS = frozenset({"adk_request_credential", "adk_request_confirmation", "transfer_to_agent", "exit_loop"})
MAX_RECALLED = 200


def messages(events: Sequence[Event], prefetched: Iterable[str] = ()) -> list[Message]:
    """What was said in these events, in order.

    Left out: thoughts, partials, calls, code, credentials, and what was rewound. Answers of memory tools are no
    text: they stand in `recalled`. The last message carries all that memory put into the conversation so far, since
    an echo may come turns after its source.

    Args:
        events: of one session, oldest first.
        prefetched: texts that prefetch put before the model; they leave no event.
    """
    found = [message for event in live_events(events) for message in _of_event(event)]
    recalled = [*prefetched, *(text for message in found for text in message.recalled)]
    if found and recalled:
        found[-1] = replace(found[-1], recalled=tuple(dict.fromkeys(recalled))[-MAX_RECALLED:])
    return found


def live_events(events: Sequence[Event]) -> list[Event]:
    """The events without partial ones and without what a rewind took back."""
    kept: list[Event] = []
    place = len(events) - 1
    while place >= 0:
        event = events[place]
        rewound = getattr(event.actions, "rewind_before_invocation_id", None) if event.actions else None
        if rewound:
            first = next((i for i in range(place) if events[i].invocation_id == rewound), place)
            place = first - 1
            continue
        if not event.partial:
            kept.append(event)
        place -= 1
    return kept[::-1]


def is_user_turn(event: Event) -> bool:
    """Whether a person spoke: not a compaction, a tool's or form's answer, or an agent's order to another."""
    if event.author != "user" or (event.actions and event.actions.compaction):
        return False
    if getattr(event, "isolation_scope", None):
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


def _of_event(event: Event) -> Iterator[Message]:
    at = datetime.fromtimestamp(event.timestamp, UTC)
    compaction = event.actions.compaction if event.actions else None
    if compaction:
        yield Message(
            text=text_of(compaction.compacted_content),
            role="agent",
            event_id=event.id,
            at=at,
            compaction=(compaction.start_timestamp, compaction.end_timestamp),
        )
        return
    spoken, recalled = _without_fenced(_spoken(event))
    if spoken or recalled:
        by_user = event.author == "user" and not getattr(event, "isolation_scope", None)
        role = "user" if by_user else "agent"
        yield Message(text=spoken, role=role, author=event.author, event_id=event.id, at=at, recalled=recalled)
    for part in (event.content.parts if event.content else None) or []:
        if part.function_response:
            yield from _of_response(part.function_response, event, at)


def _spoken(event: Event) -> str:
    texts: list[str] = []
    for part in (event.content.parts if event.content else None) or []:
        if part.text and not part.thought:
            texts.append(part.text)
        elif part.code_execution_result and part.code_execution_result.output:
            texts.append(part.code_execution_result.output)
    voices = (event.input_transcription, event.output_transcription)
    texts += [voice.text for voice in voices if voice and voice.text and voice.finished is not False]
    return "\n".join(texts)


def _without_fenced(text: str) -> tuple[str, tuple[str, ...]]:
    """The text without blocks that memory handed over, and those blocks' lines."""
    spoken: list[str] = []
    blocks: list[str] = []
    *closed, rest = text.split(CLOSING)
    for before in closed:
        said, opened, block = before.partition(OPENING)
        spoken.append(said if opened else before + CLOSING)
        blocks += [block] if opened else []
    lines = tuple(line.strip() for block in blocks for line in block.split("\n") if line.strip())
    return ("".join((*spoken, rest)).strip() if blocks else text), lines


def _of_response(answer: types.FunctionResponse, event: Event, at: datetime) -> Iterator[Message]:
    name, response = answer.name or "", answer.response
    if name in UNSPOKEN_TOOLS or not response or all(value is None for value in response.values()):
        return
    if name in MEMORY_TOOLS or is_fenced_answer(response):
        recalled = tuple(dict.fromkeys(_texts(response)))
        if recalled:
            yield Message(text="", role="tool", author=name, event_id=event.id, at=at, recalled=recalled)
        return
    text = json.dumps(response, ensure_ascii=False, default=str)
    yield Message(text=text, role="user" if event.author == "user" else "tool", author=name, event_id=event.id, at=at)


def _texts(value: Any, key: str = "") -> Iterator[str]:
    """The memories' texts in a memory tool's answer, ADK's own tools included."""
    if isinstance(value, str):
        if key in ("text", "content") and value.strip():
            yield value
    elif isinstance(value, Mapping):
        for name, item in cast("Mapping[str, Any]", value).items():
            yield from _texts(item, name)
    elif isinstance(value, (list, tuple)):
        for item in cast("Sequence[Any]", value):
            yield from _texts(item, key)
    elif hasattr(value, "model_dump"):
        yield from _texts(value.model_dump(), key)
