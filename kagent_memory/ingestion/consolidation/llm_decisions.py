"""The one model call: how new facts stand to the memories near them, over a closed set of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator

from ...models.llm import Llm
from ...models.prompts import filled, prompt
from ...models.prompts.escaping import escaped, unescaped
from ...records import Memory
from ..answer_fields import OptionalText, Text, objects
from .similarity import said

Action: TypeAlias = Literal["ADD", "UPDATE", "SUPERSEDE", "NOOP"]
MAX_PROMPT_CHARS = 48_000
MAX_NEIGHBOURS = 5
_ACTIONS: dict[str, Action] = {"ADD": "ADD", "UPDATE": "UPDATE", "SUPERSEDE": "SUPERSEDE", "NOOP": "NOOP"}


class Decided(BaseModel):
    """One decision as a model writes it; read tolerantly."""

    fact: Text = ""
    action: Text = ""
    memory: OptionalText = None
    text: OptionalText = None


class Decisions(BaseModel):
    """All decisions of a call; items that are none are left out."""

    decisions: Annotated[list[Decided], BeforeValidator(objects)]


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done with one new fact: `memory` is the one meant, None for ADD."""

    action: Action
    memory: Memory | None = None
    text: str | None = None


async def decided(facts: Mapping[int, Memory], near: Mapping[int, Sequence[Memory]], llm: Llm) -> dict[int, Decision]:
    """The model's decisions; a memory or action that was not offered counts as ADD, a fact it passed over has none.

    One call, or several when the prompt would grow beyond 48,000 characters.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used.
    """
    found: dict[int, Decision] = {}
    batch: dict[int, str] = {}
    size = 0
    for number, fact in facts.items():
        lines = (f"  M{place}: {_line(memory)}" for place, memory in enumerate(near[number][:MAX_NEIGHBOURS], 1))
        shown = "\n".join((f"F{number + 1}: {_line(fact)}", *lines))
        if batch and size + len(shown) > MAX_PROMPT_CHARS:
            found |= await _asked(batch, near, llm)
            batch, size = {}, 0
        batch[number] = shown
        size += len(shown)
    return found | await _asked(batch, near, llm) if batch else found


def _line(memory: Memory) -> str:
    day = said(memory).date().isoformat()
    slot = f" (subject: {memory.subject}; attribute: {memory.attribute})" if memory.subject and memory.attribute else ""
    return " ".join(f"[{day}] {escaped(memory.content)}{escaped(slot)}".split())


async def _asked(batch: Mapping[int, str], near: Mapping[int, Sequence[Memory]], llm: Llm) -> dict[int, Decision]:
    asked = filled(prompt("consolidate_facts"), facts="\n".join(batch.values()))
    answer = await llm.complete(asked, schema=Decisions)
    numbers = {f"F{number + 1}": number for number in batch}
    found: dict[int, Decision] = {}
    for item in answer.decisions:
        number = numbers.get(item.fact.strip().upper().strip("[] "))
        if number is not None and number not in found:
            offered = {f"M{place}": memory for place, memory in enumerate(near[number][:MAX_NEIGHBOURS], 1)}
            action = _ACTIONS.get(item.action.strip().upper(), "ADD")
            memory = offered.get((item.memory or "").upper().strip("[] "))
            kept = action != "ADD" and memory is not None
            found[number] = Decision(action, memory, item.text and unescaped(item.text)) if kept else Decision("ADD")
    return found
