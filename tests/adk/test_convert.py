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

from kagent_memory.adk.event_converter import is_user_turn, live_events, messages, user_turns
from kagent_memory.models.prompts.fence import CLOSING, OPENING, fenced_answer


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


def by_mcp(text: str) -> dict[str, Any]:
    """A tool's answer as ADK's toolset for MCP hands it on."""
    return {"content": [{"type": "text", "text": text}], "isError": False}


@pytest.mark.parametrize(
    ("name", "response"),
    [
        ("load_memory", fenced_answer([{"text": "Ada likes tea"}])),
        ("recall_memory", {"memories": [{"text": "Ada likes tea"}]}),
        ("my_own_memory_search", fenced_answer([{"id": "1", "text": "Ada likes tea"}])),
        ("load_memory", {"result": {"memories": [{"content": {"parts": [{"text": "Ada likes tea"}]}, "id": "1"}]}}),
        ("prefetch_memory", {"memories": [{"content": "Ada likes tea"}]}),
        ("notes_load_memory", by_mcp(json.dumps(fenced_answer([{"id": "1", "text": "Ada likes tea"}])))),
        ("list_memories", by_mcp(json.dumps(fenced_answer([{"id": "1", "text": "Ada likes tea"}])))),
    ],
)
def test_what_memory_answered_is_recalled_and_never_text(name: str, response: dict[str, Any]) -> None:
    (message,) = messages([event(answer(name, response), author="assistant")])
    assert (message.text, message.recalled) == ("", ("Ada likes tea",))


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "{}"}],
        [{"type": "text", "text": '{"begin": "' + OPENING + '", "memories": [{"te'}],  # cut off
        [{"type": "text", "text": '{"begin": "' + OPENING + '", "memories": ' + "[" * 100_000}],
        [{"type": "text", "text": 7}, "text", None],
        "text",
    ],
)
def test_an_answer_of_mcp_that_is_no_answer_of_memory_is_an_answer(content: Any) -> None:
    (message,) = messages([event(answer("weather", {"content": content, "isError": False}), author="assistant")])
    assert message.text
    assert message.recalled == ()


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


# -- odd events: kept as far as they can be --

MAY = 1_777_777_777.0  # 2026-05-03 03:09:37 UTC
AT = datetime(2026, 5, 3, 3, 9, 37, tzinfo=UTC)


def odd_event(text: str = "I like tea", **fields: Any) -> Event:
    """An event as a session may hold it that did not come from ADK: nothing is checked."""
    made = event(text)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


@pytest.mark.parametrize(
    ("timestamp", "at"),
    [
        (MAY, AT),
        (MAY * 1e3, AT),
        (MAY * 1e6, AT),
        (int(MAY) * 10**9, AT),
        (str(MAY), AT),
        (-1.0, datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        *(
            (wrong, None)
            for wrong in (float("nan"), float("inf"), float("-inf"), -1e11, 1e300, 10**400, None, "now", {})
        ),
    ],
)
def test_a_time_is_read_in_whatever_unit_and_a_turn_without_one_is_kept(timestamp: Any, at: datetime | None) -> None:
    (message,) = messages([odd_event(timestamp=timestamp)])
    assert (message.text, message.at) == ("I like tea", at)


class Unspeakable:
    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


def circular() -> dict[str, Any]:
    held: dict[str, Any] = {"city": "Oslo"}
    held["self"] = held
    held["list"] = [held]
    return held


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"city": "Oslo"}
    for _ in range(levels):
        value = {"within": value}
    return {"city": "Oslo", "rest": value}


def shared(levels: int) -> list[Any]:
    value: list[Any] = ["x"]
    for _ in range(levels):
        value = [value, value]
    return value


class Looped(BaseModel):
    city: str = "Oslo"
    other: Any = None


def looped() -> Looped:
    one = Looped()
    one.other = {"back": one}
    return one


@pytest.mark.parametrize(
    ("response", "expected", "cut"),
    [
        ({"city": "Oslo", ("a", 1): "tuple", 7: "seven", None: "none", True: "yes"}, "tuple", False),
        ({"city": "Oslo", frozenset({1}): {b"k": 1}}, "frozenset", False),
        ({"city": "Oslo", 1: "one", "1": "two"}, "two", False),
        (circular(), "…", True),
        (deep(5_000), "within", True),
        ({"city": "Oslo", "rest": shared(40)}, "…", True),
        ({"city": "Oslo", "many": list(range(200_000))}, "99000", True),
        ({"city": "Oslo", "odd": Unspeakable()}, "<Unspeakable>", False),
        ({"city": "Oslo", Unspeakable(): 1}, "<Unspeakable>", False),
        ({"city": "Oslo", "big": 10**5000, "small": -3}, "-3", False),
        ({"city": "Oslo", "data": b"\x00\xff" * 500}, "<1000 bytes>", False),
        ({"city": "Oslo", "nan": float("nan"), "set": {1}}, "[1]", False),
        ({"city": "Oslo", "nul": "a\0b", "lone": "\ud800"}, "a", False),
        ({"model": looped()}, "Oslo", True),
        ({"city": "Oslo", "at": datetime(2026, 5, 3, tzinfo=UTC)}, "2026-05-03", False),
    ],
)
def test_whatever_a_tool_answered_is_kept_as_far_as_it_can_be(
    response: Any, expected: str, cut: bool, caplog: pytest.LogCaptureFixture
) -> None:
    answered = types.FunctionResponse(name="lookup")
    object.__setattr__(answered, "response", response)
    part = types.Part()
    object.__setattr__(part, "function_response", answered)
    used = event("found it", author="assistant", timestamp=MAY)
    used.content.parts.append(part)  # type: ignore[union-attr]
    said, told_by_tool = messages([used])
    assert (said.text, told_by_tool.role) == ("found it", "tool")
    assert "Oslo" in told_by_tool.text
    assert expected in told_by_tool.text
    assert len(told_by_tool.text) < 2_000_000
    assert (used.id in caplog.text) is cut
    assert ("lookup" in caplog.text) is cut


@pytest.mark.parametrize("response", [circular(), deep(5_000), {"memories": [circular(), {"text": "likes rain"}]}])
def test_memory_answers_of_any_shape_are_recalled_as_far_as_they_can_be(response: Any) -> None:
    answered = types.FunctionResponse(name="load_memory", response={})
    object.__setattr__(answered, "response", {"text": "likes tea", **response})
    part = types.Part()
    object.__setattr__(part, "function_response", answered)
    used = event(author="assistant")
    used.content = types.Content(parts=[part])
    assert messages([used])[0].recalled[0] == "likes tea"


@pytest.mark.parametrize("id", ["e" * 1025, "é" * 600, "a\0b", "lone \ud800", "\0"])
def test_an_id_that_no_database_takes_becomes_one_that_it_takes_and_the_same_each_time(
    id: str, caplog: pytest.LogCaptureFixture
) -> None:
    (first,), (again,), (other,) = (messages([odd_event(id=given)]) for given in (id, id, id + "x"))
    assert first.event_id == again.event_id != other.event_id
    assert first.event_id.isprintable()
    assert len(first.event_id) < 64
    assert "its id" in caplog.text
    assert messages([odd_event(id="e" * 1024)])[0].event_id == "e" * 1024


@pytest.mark.parametrize(
    ("start", "end", "covered"),
    [
        (MAY * 1e3, MAY * 1e3 + 5_000, (MAY, MAY + 5)),
        (-5.0, MAY, (0.0, MAY)),
        (float("nan"), MAY, None),
        (MAY, float("inf"), None),
        (None, MAY, None),
    ],
)
def test_a_compaction_of_an_odd_range_leaves_its_turns_to_stand_for_themselves(
    start: Any, end: Any, covered: Any
) -> None:
    compaction = EventCompaction(
        start_timestamp=1.0, end_timestamp=2.0, compacted_content=types.Content(parts=[types.Part(text="SUMMARY")])
    )
    object.__setattr__(compaction, "start_timestamp", start)
    object.__setattr__(compaction, "end_timestamp", end)
    found = messages([event("I like tea"), event(actions=EventActions(compaction=compaction))])
    assert [message.text for message in found] == ["I like tea", *(["SUMMARY"] if covered else [])]
    assert found[-1].compaction == covered


def test_what_cannot_be_read_at_all_is_named_and_the_rest_is_there(caplog: pytest.LogCaptureFixture) -> None:
    broken = odd_event("first", id="broken-one")
    broken.content.parts += [types.Part(text="x"), types.Part(text="last")]  # type: ignore[union-attr,operator]
    object.__setattr__(broken.content.parts[1], "text", Unspeakable())  # type: ignore[union-attr,index]
    nameless = odd_event()
    object.__setattr__(nameless, "author", None)
    found = messages([event("before"), broken, nameless, event("after")])
    assert [message.text for message in found] == ["before", "first\nlast", "I like tea", "after"]
    assert found[2].author == ""
    assert "'broken-one' (ValueError" in caplog.text


def test_a_warning_names_some_odd_events_and_counts_the_others(caplog: pytest.LogCaptureFixture) -> None:
    messages([odd_event(id=f"odd{number}\n", timestamp=float("nan")) for number in range(40)])
    (warning,) = caplog.messages
    assert warning.count("its time") == 20
    assert "'odd0\\n'" in warning
    assert "and 20 more" in warning


# -- files: their names and URIs are kept --


def file(**fields: Any) -> types.Part:
    return types.Part(file_data=types.FileData(**fields))


def blob(**fields: Any) -> types.Part:
    return types.Part(inline_data=types.Blob(data=b"\x89PNG", **fields))


@pytest.mark.parametrize(
    ("part", "line"),
    [
        (blob(display_name="kitchen plan.png", mime_type="image/png"), "[attached: kitchen plan.png, image/png]"),
        (blob(mime_type="image/png"), "[attached: image/png]"),
        (file(file_uri="gs://b/rent.pdf", mime_type="application/pdf"), "[attached: gs://b/rent.pdf, application/pdf]"),
        (file(file_uri="gs://b/x", display_name="rent.pdf"), "[attached: rent.pdf, gs://b/x]"),
        (file(file_uri="data:image/png;base64,AAAA" + "A" * 9_000), "[attached: data:image/png;base64]"),
        (blob(display_name="memo.ogg", mime_type="audio/ogg"), "[attached: memo.ogg, audio/ogg]"),
        (
            blob(display_name="two\nlines\tand more", mime_type="text/plain"),
            "[attached: two lines and more, text/plain]",
        ),
        (blob(mime_type="audio/pcm"), None),
        (file(file_uri="artifact://a/u/s/_adk_live/adk_live_audio_1.pcm#1", mime_type="audio/pcm"), None),
    ],
)
def test_a_files_name_and_uri_are_part_of_what_was_said(part: types.Part, line: str | None) -> None:
    assert told(event("See this:", part)) == [("user", "user", "\n".join(filter(None, ("See this:", line))))]
    assert told(event(part, author="painter")) == ([("agent", "painter", line)] if line else [])


def test_files_in_a_tools_answer_are_named_beside_it_and_alone() -> None:
    parts = [types.FunctionResponsePart(file_data=types.FunctionResponseFileData(file_uri="gs://b/plot.png"))]
    both = types.Part(function_response=types.FunctionResponse(name="plot", response={"rows": 3}, parts=parts))
    alone = types.Part(function_response=types.FunctionResponse(name="plot", parts=parts))
    assert told(event(both, alone, author="assistant")) == [
        ("tool", "plot", '{"rows": 3}\n[attached: gs://b/plot.png]'),
        ("tool", "plot", "[attached: gs://b/plot.png]"),
    ]


def test_many_rewinds_of_a_long_session_are_read_in_no_time() -> None:
    turns = [event(f"turn {number}", invocation=f"i{number}") for number in range(20_000)]
    backs = [
        event(author="user", invocation=f"b{n}", actions=EventActions(rewind_before_invocation_id="i19999"))
        for n in range(500)
    ]
    begin = time.process_time()
    assert len(live_events([*turns, *backs])) == 19_999
    assert time.process_time() - begin < 2
