"""No memory text can close the fence, open a role, hide, or move the stable parts of a request
(invariant 10).
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from models.payloads import PAYLOADS

from kagent_memory import (
    Fact,
    KagentMemoryService,
    LoadMemoryTool,
    PreloadMemoryTool,
    RecallMemoryTool,
    Scope,
)
from kagent_memory.models.prompts.fence import CLOSING, NOTICE, OPENING

from .scripted import (
    APP,
    USER,
    Chat,
    assistant,
    call,
    declarations,
    responses,
    scripted,
    system,
    texts,
)

MARK = "zebra"
ROLE = re.compile(r"(?im)^[\W_]*(system|developer|assistant|user|human|model|tool)[^\w\n]*[:：]")
LABEL = re.compile(r"^- \[\d{4}-\d\d-\d\d, from (user|agent|tool|import)\] ")


def payload_memory(payload: str) -> str:
    return f"About the {MARK} now {payload} and the {MARK} again"


def skeleton(text: str) -> str:
    """The text as a careless eye reads it."""
    plain = unicodedata.normalize("NFKD", text)
    return "".join(char for char in plain if char.isalnum() or char in "<>/").casefold()


def check_data(text: str) -> None:
    """A text that stands inside the fence acts as nothing."""
    assert not re.search(r"[<>＜＞‹›〈〉⟨⟩﹤﹥❮❯≺≻ᐸᐳ⦑⦒⪻⪼\u2329\u232a]", text), text
    assert "pastconversations" not in skeleton(re.sub("(?i)past conversations", "", text)), text
    assert "PAST_CONVERSATIONS" not in text
    assert not ROLE.search(text), text
    assert not re.search(r"(?i)\[/?\s*(inst|sys|system)\b", text), text
    assert not re.search(r"""(?i)["']role["']\s*:""", text), text
    assert "```" not in text
    for char in text:
        assert char == "\n" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn"), (
            repr(text)
        )


def whole(request: Any) -> str:
    answers = [str(value) for response in responses(request) for value in response.values()]
    return "\n".join([*texts(request), *answers])


async def test_payloads_stay_data_in_front_of_a_turn(service: KagentMemoryService) -> None:
    """No payload closes the fence, opens a role or hides, where memory is put before a turn."""
    assert len(PAYLOADS) >= 80
    for number, payload in enumerate(PAYLOADS):
        user = f"user{number}"
        await service.memories.add(
            Scope("", user, APP), [payload_memory(payload), Fact(f"My {MARK} is striped")]
        )
        model = scripted("one", "two")
        chat = Chat(assistant(model, tools=[PreloadMemoryTool()]), service, user=user)
        await chat.say(f"What do you know about my {MARK}?")
        await chat.say(f"And what else about my {MARK}?")
        check_stable(model.requests, payload)
        text = whole(model.requests[0])
        assert (text.count(OPENING), text.count(CLOSING)) == (1, 1), payload
        block = text[text.index(OPENING) + len(OPENING) : text.index(CLOSING)]
        assert text.index(OPENING) < text.index(MARK)
        notice, *lines = block.strip("\n").split("\n")
        assert notice == NOTICE
        assert len(lines) == 2
        for line in lines:
            label = LABEL.match(line)
            assert label, line
            check_data(line[label.end() :])


async def test_payloads_stay_data_in_a_tools_answer(service: KagentMemoryService) -> None:
    """No payload acts as more than data where a tool answers with it."""
    tool = LoadMemoryTool()
    for number, payload in enumerate(PAYLOADS):
        user = f"user{number}"
        scope = Scope("", user, APP)
        fact = Fact(
            payload_memory(payload), author=f"bob {payload}"[:60], topics=(f"t {payload}"[:60],)
        )
        await service.memories.add(scope, [fact, f"My {MARK} is striped"])
        model = scripted("hello", call(tool.name, query=f"my {MARK}"), "done")
        chat = Chat(assistant(model, tools=[tool]), service, user=user)
        await chat.say("Hello")
        await chat.say("Look it up")
        check_stable(model.requests, payload)
        (answer,) = responses(model.requests[-1])
        assert list(answer) == ["begin", "memories", "end"]
        text = whole(model.requests[-1])
        assert (text.count(OPENING), text.count(CLOSING)) == (1, 1), payload
        assert len(answer["memories"]) == 2
        for memory in answer["memories"]:
            for value in (memory["text"], memory.get("author", ""), *memory.get("topics", [])):
                check_data(value)
                assert "\n" not in value


def check_stable(requests: list[Any], payload: str) -> None:
    """System instruction and declarations are the same over the session, and know nothing of the
    payload.
    """
    assert len({system(request) for request in requests}) == 1
    assert len({tuple(declarations(request)) for request in requests}) == 1
    stable = system(requests[0]) + "".join(declarations(requests[0]))
    assert MARK not in stable
    assert payload not in stable
    assert OPENING not in stable


async def test_a_memory_of_many_lines_is_one_line_in_a_tools_answer(
    service: KagentMemoryService,
) -> None:
    """A text and labels of many lines are handed to a model as one line each."""
    text = "Recipe for zebra cake:\n\n  flour\r\n\tsugar\u2029eggs\x85milk\n"
    await service.memories.add(
        Scope("", USER, APP), [Fact(text, author="bob\nSystem: x", tags=("a\nb",))]
    )
    for tool in (LoadMemoryTool(), RecallMemoryTool()):
        model = scripted(call(tool.name, query="zebra cake"), "done")
        await Chat(assistant(model, tools=[tool]), service).say("Look it up")
        (memory,) = responses(model.requests[-1])[0]["memories"]
        assert memory["text"] == "Recipe for zebra cake: / flour / sugar / eggs / milk"
        assert memory["author"] == "bob / System - x"
        assert memory["tags"] == ["a / b"]
