"""Reading a session right: which parts of ADK's events become messages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.genai import types

from kagent_memory.adk.convert import is_user_turn, live_events, messages, user_turns
from kagent_memory.adk.fence import CLOSING, OPENING, fenced_answer


def event(*parts: Any, author: str = "user", invocation: str = "i1", **fields: Any) -> Event:
    made = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
    content = types.Content(role="user" if author == "user" else "model", parts=made) if made else None
    return Event(author=author, invocation_id=invocation, content=content, **fields)


def answer(name: str, response: Any) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(name=name, response=response))


def told(*events: Event) -> list[tuple[str, str, str]]:
    return [(message.role, message.author, message.text) for message in messages(events)]


def test_user_agent_and_tool_text_become_messages_with_their_event() -> None:
    asked = event("Hello", "there", timestamp=1_700_000_000.0)
    replied = event("Hi!", author="assistant")
    used = event(answer("get_weather", {"city": "Oslo", "warm": False}), author="assistant")
    assert told(asked, replied, used) == [
        ("user", "user", "Hello\nthere"),
        ("agent", "assistant", "Hi!"),
        ("tool", "get_weather", '{"city": "Oslo", "warm": false}'),
    ]
    first = messages([asked])[0]
    assert (first.event_id, first.at) == (asked.id, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC))


def test_thoughts_calls_code_and_partials_are_not_text_but_codes_output_is() -> None:
    thought = types.Part(text="I think", thought=True)
    code = types.Part(executable_code=types.ExecutableCode(code="print(1)", language=types.Language.PYTHON))
    output = types.Part(code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="42"))
    called = types.Part(function_call=types.FunctionCall(name="f", args={"x": 1}))
    assert told(event(thought, code, output, called, author="a"), event("par", author="a", partial=True)) == [
        ("agent", "a", "42")
    ]


@pytest.mark.parametrize("name", ["adk_request_credential", "adk_request_confirmation", "transfer_to_agent"])
def test_credentials_and_plumbing_are_left_out(name: str) -> None:
    assert told(event(answer(name, {"token": "s3cret"}))) == []


def test_an_empty_tool_answer_says_nothing() -> None:
    assert told(event(answer("f", {}), answer("g", {"result": None}))) == []


def test_voice_is_read_from_its_transcriptions() -> None:
    heard = event(input_transcription=types.Transcription(text="I like tea", finished=True))
    spoken = event(output_transcription=types.Transcription(text="Noted", finished=True), author="assistant")
    running = event(input_transcription=types.Transcription(text="I li", finished=False))
    assert told(heard, running, spoken) == [("user", "user", "I like tea"), ("agent", "assistant", "Noted")]


def test_a_compaction_is_a_summary_of_its_range_and_no_user_text() -> None:
    compaction = EventCompaction(
        start_timestamp=1.0, end_timestamp=2.0, compacted_content=types.Content(parts=[types.Part(text="SUMMARY")])
    )
    compacted = event(actions=EventActions(compaction=compaction))
    (message,) = messages([compacted])
    assert (message.role, message.text, message.compaction) == ("agent", "SUMMARY", (1.0, 2.0))
    assert not is_user_turn(compacted)


def test_rewound_invocations_are_dropped() -> None:
    back = event(author="user", invocation="i4", actions=EventActions(rewind_before_invocation_id="i2"))
    events = [event(text, invocation=f"i{number}") for number, text in enumerate(("one", "two", "three"), start=1)]
    later = event("four", invocation="i5")
    assert [message.text for message in messages([*events, back, later])] == ["one", "four"]
    assert live_events([*events, back]) == events[:1]


@pytest.mark.parametrize(
    ("name", "response"),
    [
        ("load_memory", fenced_answer([{"text": "Ada likes tea"}])),
        ("recall_memory", {"memories": [{"text": "Ada likes tea"}]}),
        ("my_own_memory_search", fenced_answer([{"id": "1", "text": "Ada likes tea"}])),
        ("load_memory", {"result": {"memories": [{"content": {"parts": [{"text": "Ada likes tea"}]}, "id": "1"}]}}),
        ("prefetch_memory", {"memories": [{"content": "Ada likes tea"}]}),
    ],
)
def test_what_memory_answered_is_recalled_and_never_text(name: str, response: dict[str, Any]) -> None:
    (message,) = messages([event(answer(name, response), author="assistant")])
    assert (message.text, message.recalled) == ("", ("Ada likes tea",))


def test_a_save_answer_says_nothing() -> None:
    assert told(event(answer("save_memory", {"status": "saved", "id": "1", "message": "Saved."}))) == []


def test_the_last_message_knows_all_that_memory_put_into_the_conversation() -> None:
    loaded = event(answer("load_memory", {"memories": [{"text": "Ada likes tea"}]}), author="assistant")
    found = messages([event("hi"), loaded, event("later", invocation="i2")], prefetched=["Ada has a parrot"])
    assert found[0].recalled == ()
    assert found[-1].recalled == ("Ada has a parrot", "Ada likes tea")


def test_a_fenced_block_that_reached_a_session_is_recalled_not_text() -> None:
    (message,) = messages([event(f"{OPENING}\n- Ada likes tea\n{CLOSING}\nWhat do I like?")])
    assert (message.text, message.recalled) == ("What do I like?", ("- Ada likes tea",))


def test_user_turns_are_what_people_began() -> None:
    scoped = event("do this")
    if "isolation_scope" in Event.model_fields:
        scoped.isolation_scope = "fc1"
    events = [
        event("one"),
        event("again", invocation="i1"),
        event(answer("form", {"ok": True}), invocation="i2"),
        event("reply", author="assistant", invocation="i1"),
        event(types.Part.from_bytes(data=b"x", mime_type="image/png"), invocation="i3"),
        event(invocation="i4"),
    ]
    assert user_turns(events) == 2
    assert is_user_turn(scoped) is ("isolation_scope" not in Event.model_fields)


def test_a_tools_answer_given_by_a_person_is_theirs() -> None:
    assert told(event(answer("ask_person", {"answer": "blue"}))) == [("user", "ask_person", '{"answer": "blue"}')]
