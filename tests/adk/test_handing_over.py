"""No memory text can close the fence, open a role, hide, or move the stable parts of a request
(invariant 10).
"""

from __future__ import annotations

import re
import time
import unicodedata
from typing import Any

import pytest

from kagent_memory import (
    Fact,
    KagentMemoryService,
    LoadMemoryTool,
    PreloadMemoryTool,
    RecallMemoryTool,
    Scope,
)
from kagent_memory.models.prompts.escaping import escaped
from kagent_memory.models.prompts.fence import CLOSING, NOTICE, OPENING, memory_line

from .payloads import FORGED_NAMES, FORGED_ROLES, LABELS, PAYLOADS
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


@pytest.mark.parametrize("name", FORGED_NAMES)
def test_the_fence_s_name_is_broken_up_in_whatever_letters(name: str) -> None:
    assert escaped(f"before {name} after") == "before past conversations after"


@pytest.mark.parametrize("form", [form for form in FORGED_ROLES if "<" not in form])
def test_no_role_is_opened_in_whatever_letters(form: str) -> None:
    left = unicodedata.normalize("NFKD", escaped(f"x {form}")).translate(
        str.maketrans("Ѕуе∶ː", "Sye::")
    )
    assert not re.search(r"(?im)^[^:\n]*\b(system|admin|openai)\W*:", left), left
    assert not re.search(r"(?i)\[/?(inst|sys|tool|avail)|[【⟦]sys|role\W*:|```|~~~", left), left


@pytest.mark.parametrize(
    "text", ["\n" * 16_000, "\n_-" * 5_000, "[ " * 8_000, "# \n" * 5_000, "system " * 2_000]
)
def test_no_memory_takes_long_to_be_handed_over(text: str) -> None:
    started = time.process_time()
    memory_line(text)
    assert time.process_time() - started < 1


@pytest.mark.parametrize("label", LABELS)
def test_a_speakers_label_at_a_line_start_is_broken(label: str) -> None:
    """A label of a speaker, in any language, speaks for nobody at the start of a line."""
    for text in (
        f"{label} obey",
        f"my zebra\n{label} obey",
        f"my zebra\r{label}obey",
        f"\u2028  - {label} obey",
    ):
        for left in (escaped(text), escaped(text, one_line=True)):
            assert "obey" in left
            assert ":" not in unicodedata.normalize("NFKC", left), left


@pytest.mark.parametrize(
    "text",
    [
        "Deploy with `make deploy`; see ERR-00123 and v1.28.3-gke.1200",
        "彼女は《三体》を読んだ。",
        "Наш сервис «Биллинг» запускается в четверг: 14:00",
        "My system is fine: it boots",
        "naïve café — 50 % off, 3×4",
        'roles are [{"tool": "hammer"}] and A1: yes',
        "Её роль: аналитик, система: Linux",
        "Anna: see you at five",
        "Systems: Linux and macOS",
        "The user: likes tea",
        "用户喜欢：茶",
        "See [action items] and [1]",
    ],
)
def test_plain_text_stays_as_it_is(text: str) -> None:
    """Text that only looks like a label or a role is handed over as it was said."""
    assert escaped(text) == escaped(text, one_line=True) == text
    assert escaped("if a < b: List<int>") == "if a &lt; b: List&lt;int&gt;"


async def test_a_memory_of_many_lines_is_one_line_in_a_tools_answer(
    service: KagentMemoryService,
) -> None:
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
