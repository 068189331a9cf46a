"""No memory text can close the fence, open a role, hide, or move the stable parts of a request
(invariant 10).
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import pytest
from models.payloads import PAYLOADS

from kagent_memory import (
    Fact,
    KagentMemoryService,
    LoadMemoryTool,
    PreloadMemoryTool,
)
from kagent_memory.models.prompts.fence import CLOSING, NOTICE, OPENING

from .scripted import (
    SCOPE,
    blocks,
    call,
    declarations,
    responses,
    system,
    talk,
    texts,
)

MARK = "zebra"
ROLE = re.compile(r"(?im)^[\W_]*(system|developer|assistant|user|human|model|tool)[^\w\n]*[:：]")
LABEL = re.compile(r"^- \[\d{4}-\d\d-\d\d, from (user|agent|tool|import)\] ")


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


def inside(text: str) -> str:
    """What stands between the one opening and the one closing of a text."""
    assert (text.count(OPENING), text.count(CLOSING)) == (1, 1)
    return text.partition(OPENING)[2].partition(CLOSING)[0]


@pytest.mark.parametrize("part", range(4))
async def test_payloads_stay_data_before_a_turn_and_in_an_answer(
    service: KagentMemoryService, part: int
):
    """No payload closes the fence, opens a role, hides, or moves what is stable in a request:
    neither where memory is put before a turn, nor where a tool answers with it.
    """
    assert len(PAYLOADS) >= 80
    payloads = PAYLOADS[part::4]
    hostile = [
        Fact(
            f"About the {MARK}{number} now {payload} and the {MARK}{number} again",
            author=f"bob {payload}"[:60],
            topics=(f"t {payload}"[:60],),
            tags=(f"t {payload}"[:60],),
        )
        for number, payload in enumerate(payloads)
    ]
    await service.memories.add(SCOPE, hostile)
    about = ", ".join(f"{MARK}{number}" for number in range(len(payloads)))
    steps = call("load_memory", query=about), "one", "two"
    room: dict[str, Any] = {"limit": 100, "budget_tokens": 50_000}
    chat = talk(service, *steps, tools=[PreloadMemoryTool(**room), LoadMemoryTool(**room)])
    await chat.say(f"What do you know about {about}?")
    await chat.say(f"And what else about {about}?")
    # system instruction and declarations know nothing of what was said
    [stable] = {system(request) + "".join(declarations(request)) for request in chat.requests}
    assert not any(text in stable for text in (MARK, *payloads, OPENING))

    (block,) = blocks(chat.requests[0])
    notice, *lines = inside("\n".join(texts(chat.requests[0]))).strip("\n").split("\n")
    assert inside(block).strip("\n").split("\n") == [notice, *lines]
    assert (notice, len(lines)) == (NOTICE, len(payloads))
    for line in lines:
        label = LABEL.match(line)
        assert label, line
        check_data(line[label.end() :])

    (answer,) = responses(chat.requests[1])
    assert list(answer) == ["begin", "memories", "end"]
    assert MARK in inside("\n".join(map(str, answer.values())))
    assert len(answer["memories"]) == len(payloads)
    for memory in answer["memories"]:
        labels = (*memory.get("topics", []), *memory.get("tags", []))
        for value in (memory["text"], memory.get("author", ""), *labels):
            check_data(value)
            assert "\n" not in value
