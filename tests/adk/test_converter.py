"""Reading a session right: which parts of ADK's events become messages."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.genai import types
from pydantic import BaseModel

from kagent_memory import KagentMemoryService
from kagent_memory.adk.converter import is_user_turn, live_events, messages
from kagent_memory.models.prompts.fence import CLOSING, OPENING, fenced_answer

from .scripted import call, contents, session_of


def event(*parts: Any, author: str = "user", invocation: str = "i1", **fields: Any) -> Event:
    content_parts = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
    content = (
        types.Content(role="user" if author == "user" else "model", parts=content_parts)
        if content_parts
        else None
    )
    return Event(author=author, invocation_id=invocation, content=content, **fields)


def answer(name: str, response: Any) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(name=name, response=response))


def spoken(*events: Event) -> list[tuple[str, str, str]]:
    return [(message.role, message.author, message.text) for message in messages(events)]


def heard(text: str, *, finished: bool = True) -> types.Transcription:
    return types.Transcription(text=text, finished=finished)


def test_a_message_names_its_event_and_time():
    """A message has the id and the time of its event."""
    greeting = event("Hello", timestamp=1_700_000_000.0)
    [message] = messages([greeting])
    at = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert (message.event_id, message.at) == (greeting.id, at)


CODE = types.ExecutableCode(code="print(1)", language=types.Language.PYTHON)
OUTPUT = types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="42")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (event("Hello", "there"), ("user", "user", "Hello\nthere")),
        (event("Hi!", author="a"), ("agent", "a", "Hi!")),
        (event(answer("f", {"warm": False}), author="a"), ("tool", "f", '{"warm": false}')),
        # a person answered in the place of a tool
        (event(answer("f", {"is": "blue"})), ("user", "f", '{"is": "blue"}')),
        (event(types.Part(code_execution_result=OUTPUT), author="a"), ("agent", "a", "42")),
        (event(input_transcription=heard("Tea")), ("user", "user", "Tea")),
        (event(output_transcription=heard("Noted"), author="a"), ("agent", "a", "Noted")),
        (event(input_transcription=heard("I li", finished=False)), None),
        (event(types.Part(text="I think", thought=True), author="a"), None),
        (event(types.Part(executable_code=CODE), author="a"), None),
        (event(call("f", x=1), author="a"), None),
        (event("par", author="a", partial=True), None),
    ],
)
def test_what_is_said_becomes_a_message(source: Event, message: tuple[str, str, str] | None):
    """Texts, answers of tools, output of code and finished transcriptions are said, by the user, an
    agent or a tool; thoughts, calls, code and partials are not.
    """
    assert spoken(source) == ([message] if message else [])


@pytest.mark.parametrize(
    ("name", "response"),
    [
        ("adk_request_credential", {"token": "s3cret"}),
        ("adk_request_confirmation", {"token": "s3cret"}),
        ("transfer_to_agent", {"token": "s3cret"}),
        ("save_memory", {"status": "saved", "id": "1", "message": "Saved."}),
        ("f", {}),
        ("f", {"result": None}),
    ],
)
def test_answers_that_tell_nothing_are_left_out(name: str, response: dict[str, Any]):
    """Credentials, plumbing, the answer to a save and empty answers say nothing."""
    assert spoken(event(answer(name, response))) == []


def test_a_compaction_is_a_summary_of_its_range():
    """A compaction is the agent's summary of its range, and no user's turn."""
    compaction = EventCompaction(
        start_timestamp=1.0,
        end_timestamp=2.0,
        compacted_content=types.Content(parts=[types.Part(text="SUMMARY")]),
    )
    compacted = event(actions=EventActions(compaction=compaction))
    (message,) = messages([compacted])
    assert (message.role, message.text, message.compaction) == ("agent", "SUMMARY", (1.0, 2.0))
    assert not is_user_turn(compacted)


def test_rewound_invocations_are_dropped():
    """What was rewound is not read: a message without text takes it back."""
    back = event(
        author="user", invocation="i4", actions=EventActions(rewind_before_invocation_id="i2")
    )
    events = [
        event(text, invocation=f"i{number}")
        for number, text in enumerate(("one", "two", "three"), start=1)
    ]
    later = event("four", invocation="i5")
    read = messages([*events, back, later])
    assert [message.text for message in read] == ["", "", "one", "four"]
    assert [message.event_id for message in read[:2]] == [event.id for event in events[1:]]
    assert live_events([*events, back]) == events[:1]


def by_mcp(text: str) -> dict[str, Any]:
    """A tool's answer as ADK's toolset for MCP hands it on."""
    return {"content": [{"type": "text", "text": text}], "isError": False}


@pytest.mark.parametrize(
    ("name", "response"),
    [
        ("load_memory", fenced_answer([{"text": "Ada likes tea"}])),
        ("recall_memory", {"memories": [{"text": "Ada likes tea"}]}),
        (
            "load_memory",
            {
                "result": {
                    "memories": [{"content": {"parts": [{"text": "Ada likes tea"}]}, "id": "1"}]
                }
            },
        ),
        (
            "notes_load_memory",
            by_mcp(json.dumps(fenced_answer([{"id": "1", "text": "Ada likes tea"}]))),
        ),
    ],
)
def test_what_memory_answered_is_recalled_and_never_text(name: str, response: dict[str, Any]):
    """What a memory tool answered is recalled text, also over MCP and by ADK's own tools."""
    (message,) = messages([event(answer(name, response), author="assistant")])
    assert (message.text, message.recalled) == ("", ("Ada likes tea",))


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": '{"begin": "' + OPENING + '", "memories": [{"te'}],  # cut off
        [{"type": "text", "text": 7}, "text", None],
        "text",
    ],
)
def test_other_mcp_answers_are_tool_output(content: Any):
    """An answer over MCP that is none of memory is read as a tool's output."""
    (message,) = messages(
        [event(answer("weather", {"content": content, "isError": False}), author="assistant")]
    )
    assert message.text
    assert message.recalled == ()


def test_a_fenced_block_is_recalled_not_text():
    """A fenced block that reached a session is recalled text, not news."""
    (message,) = messages([event(f"{OPENING}\n- Ada likes tea\n{CLOSING}\nWhat do I like?")])
    assert (message.text, message.recalled) == ("What do I like?", ("- Ada likes tea",))


def test_user_turns_are_what_people_began():
    """A turn is an invocation that a person began by words or a file, whatever else is in it."""
    scoped = event("do this", isolation_scope="fc1")
    events = [
        event("one"),
        event("again", invocation="i1"),
        event(answer("form", {"ok": True}), invocation="i2"),
        event("reply", author="assistant", invocation="i1"),
        event(types.Part.from_bytes(data=b"x", mime_type="image/png"), invocation="i3"),
        event(invocation="i4"),
    ]
    assert {event.invocation_id for event in events if is_user_turn(event)} == {"i1", "i3"}
    assert not is_user_turn(scoped)


# -- odd events: kept as far as they can be --


class Forecast(BaseModel):
    city: str = "Oslo"
    at: datetime = datetime(2026, 5, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Forecast(), '{"city": "Oslo", "at": "2026-05-03 00:00:00+00:00"}'),
        ({1}, '"{1}"'),
        (b"\x00\xff" * 500, '"<1000 bytes>"'),
        (float("nan"), "NaN"),
    ],
)
def test_objects_in_a_tools_answer_become_text(value: Any, text: str):
    """A tool may answer with any object; it is kept as JSON, or as what it says of itself."""
    ((role, _, content),) = spoken(event(answer("lookup", {"value": value}), author="assistant"))
    assert (role, content) == ("tool", f'{{"value": {text}}}')


def test_an_unreadable_event_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture):
    """One event that cannot be read does not keep its session from being saved."""
    cycle: dict[str, Any] = {"city": "Oslo"}
    cycle["self"] = cycle
    broken = event(answer("lookup", cycle), author="assistant", id="broken")
    assert [text for _, _, text in spoken(event("before"), broken, event("after"))] == [
        "before",
        "after",
    ]
    assert "Skipped an unreadable event: 'broken' (ValueError)" in caplog.text


NO_TIME = EventCompaction(
    start_timestamp=float("nan"),
    end_timestamp=2.0,
    compacted_content=types.Content(parts=[types.Part(text="SUMMARY")]),
)


@pytest.mark.parametrize(
    "odd",
    [
        event("when?", timestamp=float("nan")),
        event(actions=EventActions(compaction=NO_TIME)),
        *(event("who?", id=id) for id in ("é" * 600, "lone \ud800")),
    ],
)
async def test_an_odd_event_does_not_keep_back_the_others(service: KagentMemoryService, odd: Event):
    """What no store takes is left out, also once it is rewound, and the other turns are learnt."""
    session = session_of("I like tea")
    session.events = [odd, *session.events]
    await service.remember(session)
    assert await service.drain()
    assert await contents(service) == ["I like tea"]
    undo = Event(author="user", invocation_id="undo")
    undo.actions.rewind_before_invocation_id = odd.invocation_id
    session.events = [odd, undo, event("I live in Oslo", invocation="i2")]
    await service.remember(session)
    assert await service.drain()
    assert await contents(service) == ["I like tea", "I live in Oslo"]


# -- files: their names and URIs are kept --


def file(**fields: Any) -> types.Part:
    return types.Part(file_data=types.FileData(**fields))


def blob(**fields: Any) -> types.Part:
    return types.Part(inline_data=types.Blob(data=b"\x89PNG", **fields))


@pytest.mark.parametrize(
    ("part", "line"),
    [
        (
            blob(display_name="kitchen plan.png", mime_type="image/png"),
            "[attached: kitchen plan.png, image/png]",
        ),
        (blob(mime_type="image/png"), "[attached: image/png]"),
        (file(file_uri="gs://b/x", display_name="rent.pdf"), "[attached: rent.pdf, gs://b/x]"),
        (
            file(file_uri="data:image/png;base64,AAAA" + "A" * 9_000),
            "[attached: data:image/png;base64]",
        ),
        (
            blob(display_name="two\nlines\tand more", mime_type="text/plain"),
            "[attached: two lines and more, text/plain]",
        ),
        (
            file(
                file_uri="artifact://a/u/s/_adk_live/adk_live_audio_1.pcm#1", mime_type="audio/pcm"
            ),
            None,
        ),
    ],
)
def test_a_files_name_and_uri_are_part_of_what_was_said(part: types.Part, line: str | None):
    """A file stands in the text by its name, URI and kind; recorded speech does not."""
    assert spoken(event("See this:", part)) == [
        ("user", "user", "\n".join(filter(None, ("See this:", line))))
    ]
    assert spoken(event(part, author="painter")) == ([("agent", "painter", line)] if line else [])


def test_files_in_a_tools_answer_are_named():
    """Files in a tool's answer are named."""
    parts = [
        types.FunctionResponsePart(
            file_data=types.FunctionResponseFileData(file_uri="gs://b/plot.png")
        )
    ]
    both = types.Part(
        function_response=types.FunctionResponse(name="plot", response={"rows": 3}, parts=parts)
    )
    alone = types.Part(function_response=types.FunctionResponse(name="plot", parts=parts))
    assert spoken(event(both, alone, author="assistant")) == [
        ("tool", "plot", '{"rows": 3}\n[attached: gs://b/plot.png]'),
        ("tool", "plot", "[attached: gs://b/plot.png]"),
    ]


def test_many_rewinds_are_read_in_no_time():
    """Reading a session takes time that grows with it, however often it was rewound."""
    turns = [event(f"turn {number}", invocation=f"i{number}") for number in range(5_000)]
    backs = [
        event(
            author="user",
            invocation=f"b{n}",
            actions=EventActions(rewind_before_invocation_id="i4999"),
        )
        for n in range(200)
    ]
    begin = time.process_time()
    assert len(live_events([*turns, *backs])) == 4_999
    assert time.process_time() - begin < 2
