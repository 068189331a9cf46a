"""Convert between ADK and us: events to messages, entries to facts, hits to entries."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from pydantic import BaseModel

from ..checks import checked_key, parsed_time
from ..errors import InvalidInput
from ..models.prompts.fence import fenced_answer_in, without_fenced
from ..records import Fact, Hit, Message
from .arguments import as_labels

log = logging.getLogger("kagent_memory")

MEMORY_TOOLS = frozenset(
    {
        "load_memory",
        "recall_memory",
        "preload_memory",
        "prefetch_memory",
        "save_memory",
        "forget_memory",
        "confirm_memory",
        "list_memories",  # MCP's
    }
)
CONFIRMATION = "adk_request_confirmation"  # ADK's request to a person, and the name of their answer
UNSPOKEN_TOOLS = frozenset(
    {"adk_request_credential", CONFIRMATION, "transfer_to_agent", "exit_loop"}
)
# in the URIs of ADK's recordings of speech, whose words are in the transcription
LIVE_STREAM = "/_adk_live/"
_SECONDS = re.compile(r"^\s*(\d{1,15}(?:\.\d+)?)\s*s\s*$")
_FIELDS = frozenset(
    {"session_id", "ttl_days", "type", "topics", "tags", "importance", "pinned", "origin"}
)
MAX_NAME_CHARS, MAX_URI_CHARS = 200, 2_000


# -- events ---------------------------------------------------------------------------------------


def messages(events: Sequence[Event], ingested: Container[str] = ()) -> list[Message]:
    """Convert events to messages, in order, after an empty message for each rewound event, which
    withdraws that event from the queue.

    Thoughts, partial events, calls, code and credentials are left out. Of files only names and URIs
    are kept. The answers of memory tools become `recalled` instead of text. A compaction is as
    trusted as what it covers: if that includes a tool's output, it is the tool's.

    Args:
        events: events of one session, oldest first. Unreadable ones are skipped with a warning.
        ingested: the ids of events to leave out.
    """
    live = live_events(events)
    live_ids = {id(event) for event in live}
    outputs = [
        event.timestamp
        for event in live
        if event.author != "user"
        and any(
            answer.name not in MEMORY_TOOLS | UNSPOKEN_TOOLS
            for answer in event.get_function_responses()
        )
    ]
    spoken, withdrawals = list[Message](), list[Message]()
    for event in events:
        if event.id in ingested:
            continue
        try:
            checked_key(event.id, "An event id")
            if id(event) in live_ids:
                spoken += _convert(event, outputs)
            elif event.content and not event.partial:
                withdrawals.append(Message(text="", event_id=event.id))
        except Exception as error:  # any object may be in a tool's answer; keep the other turns
            log.warning("Skipped an unreadable event: %.80r (%s)", event.id, type(error).__name__)
    return withdrawals + spoken


def live_events(events: Sequence[Event]) -> list[Event]:
    """Return the events that are neither partial nor rewound."""
    starts = {event.invocation_id: index for index, event in reversed([*enumerate(events)])}
    live = list[Event]()
    index = len(events) - 1
    while index >= 0:
        event = events[index]
        if target := event.actions.rewind_before_invocation_id:
            index = min(starts.get(target, index), index)
        elif not event.partial:
            live.append(event)
        index -= 1
    return live[::-1]


def is_user_turn(event: Event) -> bool:
    """Return True if a person spoke: not a compaction, an answer of a tool or form, or an agent's
    order.
    """
    if event.author != "user" or event.actions.compaction or event.isolation_scope:
        return False
    if event.input_transcription and event.input_transcription.text:
        return not event.partial
    if event.get_function_responses():
        return False
    parts = (event.content.parts if event.content else None) or []
    return any(part.text or part.inline_data or part.file_data for part in parts)


def text_of(content: types.Content | None, between: str = "\n") -> str:
    """Return the text parts of a content, without thoughts."""
    parts = (content.parts if content else None) or []
    return between.join(part.text for part in parts if part.text and not part.thought)


def _convert(event: Event, outputs: Sequence[float]) -> list[Message]:
    """Convert one event to messages; `outputs` are the times of the session's tool answers."""
    new_message = partial(
        Message, event_id=event.id, at=datetime.fromtimestamp(event.timestamp, UTC)
    )
    if compaction := event.actions.compaction:
        start, end = compaction.start_timestamp, compaction.end_timestamp
        role = "tool" if any(start <= second <= end for second in outputs) else "agent"
        text = text_of(compaction.compacted_content)
        for second in (start, end):
            datetime.fromtimestamp(second, UTC)  # raises for an invalid time
        return [new_message(text=text, role=role, compaction=(max(start, 0.0), max(end, 0.0)))]
    parts = (event.content.parts if event.content else None) or []
    texts = [text for part in parts for text in _spoken(part)]
    voices = (event.input_transcription, event.output_transcription)
    texts += [
        voice.text for voice in voices if voice and voice.text and voice.finished is not False
    ]
    text, recalled = without_fenced("\n".join(texts))
    role = "user" if event.author == "user" and not event.isolation_scope else "agent"
    spoken = [new_message(text=text, role=role, author=event.author or "", recalled=recalled)]
    for answer in event.get_function_responses():
        name = answer.name or ""
        text, recalled = _answer_texts(name, answer)
        role = "user" if event.author == "user" and not recalled else "tool"
        spoken.append(new_message(text=text, role=role, author=name, recalled=recalled))
    return [message for message in spoken if message.text or message.recalled]


def _answer_texts(name: str, answer: types.FunctionResponse) -> tuple[str, tuple[str, ...]]:
    """Return the text of a tool's answer, and the texts of memories in it."""
    response = plain(answer.response or {})
    if name in UNSPOKEN_TOOLS:
        return "", ()
    fenced = fenced_answer_in(response)
    if name in MEMORY_TOOLS or fenced is not None:
        return "", tuple(dict.fromkeys(_texts(response if fenced is None else fenced)))
    is_empty = all(value is None for value in response.values())
    texts = [] if is_empty else [json.dumps(response, ensure_ascii=False)]
    return "\n".join((*texts, *file_lines(answer.parts or ()))), ()


def _spoken(part: types.Part) -> Iterator[str]:
    if part.text and not part.thought:
        yield str(part.text)
    elif part.code_execution_result and part.code_execution_result.output:
        yield part.code_execution_result.output
    else:
        yield from file_lines([part])


def file_lines(
    parts: Iterable[types.Part | types.FunctionResponsePart], *, only_named: bool = False
) -> Iterator[str]:
    """Yield a line for each file with its name, URI and type.

    Args:
        parts: the parts of a content or of a tool's answer.
        only_named: True to skip files with neither name nor URI.
    """
    for part in parts:
        for file in (part.inline_data, part.file_data):
            uri = str(getattr(file, "file_uri", None) or "")
            uri = uri.partition(",")[0] if uri.startswith("data:") else uri
            name = " ".join(str(getattr(file, "display_name", None) or "").split())[:MAX_NAME_CHARS]
            kind = (file.mime_type if file else None) or ""
            speech = LIVE_STREAM in uri or (kind.startswith("audio/") and not name and not uri)
            if (name or uri or (kind and not only_named)) and not speech:
                yield f"[attached: {', '.join(filter(None, (name, uri[:MAX_URI_CHARS], kind)))}]"


def _texts(value: Any, key: str = "") -> Iterator[str]:
    """Yield the texts of memories in a memory tool's answer, ADK's own tools included."""
    if isinstance(value, str):
        if key in ("text", "content", "said") and value.strip():
            yield value
    elif isinstance(value, Mapping):
        for name, item in cast("Mapping[str, Any]", value).items():
            yield from _texts(item, name)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _texts(item, key)


def plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a tool's answer to JSON values: models to their fields, bytes to their length, other
    objects to text.
    """
    return json.loads(json.dumps(value, skipkeys=True, default=_jsonable))


def _jsonable(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump()
    return f"<{len(value)} bytes>" if isinstance(value, bytes) else str(value)


# -- single memories ------------------------------------------------------------------------------


def to_entry(hit: Hit) -> MemoryEntry:
    """Convert a hit to ADK's entry, with the time at which it happened or else was stored."""
    memory = hit.memory
    return MemoryEntry(
        id=memory.id,
        content=types.Content(role="user", parts=[types.Part(text=memory.content)]),
        author=memory.author,
        timestamp=(memory.happened_at or memory.created_at).isoformat(),
        custom_metadata=dict(memory.metadata),
    )


def to_fact(entry: MemoryEntry, call: Mapping[str, Any]) -> Fact:
    """Convert an entry to a fact; the entry's own metadata wins over that of the call.

    Raises:
        InvalidInput: its time or its `ttl` is invalid.
    """
    files = file_lines(entry.content.parts or (), only_named=True)
    text = "\n".join(filter(None, (text_of(entry.content), *files)))
    own = to_fields(entry.custom_metadata)
    values: dict[str, Any] = {
        "origin": "agent" if entry.content.role == "model" else "user",
        **call,
        **own,
        "metadata": {**call.get("metadata", {}), **own.get("metadata", {})},
    }
    return Fact(
        text=text,
        author=entry.author,
        happened_at=parsed_time(entry.timestamp, "A memory's timestamp")
        if entry.timestamp
        else None,
        **values,
    )


def to_fields(custom_metadata: Mapping[str, object] | None) -> dict[str, Any]:
    """Return the fields of a fact that custom metadata sets; all other keys become its `metadata`.

    Raises:
        InvalidInput: its `ttl` is invalid.
    """
    metadata: dict[str, Any] = dict(custom_metadata or {})
    fields = {"metadata": metadata, "ttl_days": _days(metadata.pop("ttl", None))}
    for name in _FIELDS & metadata.keys():
        value = metadata.pop(name)
        if value is not None:
            fields[name] = as_labels(value) if name in ("topics", "tags") else value
    return {name: value for name, value in fields.items() if value not in (None, {})}


def _days(ttl: object) -> int | None:
    """Return the days of a `ttl` in seconds as text ("6000s"); None for None."""
    match = _SECONDS.match(ttl) if isinstance(ttl, str) else None
    days = math.ceil(float(match[1]) / 86_400) if match else None
    if ttl is not None and not days:
        raise InvalidInput(
            'ttl must be seconds as text, more than 0, such as "6000s"; ttl_days=0 keeps for ever.'
        )
    return days
