"""The one model call: how new facts stand to the memories near them, over a closed set of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator

from ...models.llm import Llm
from ...models.prompts import batches, filled, prompt
from ...models.prompts.escaping import escaped, unescaped
from ...records import Memory
from ..answer_fields import OptionalText, Text, objects
from .similarity import said

Action: TypeAlias = Literal["ADD", "UPDATE", "SUPERSEDE", "NOOP"]
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
    numbers = count(1)  # through all facts: each name stands once in a prompt
    offered = {number: {f"M{next(numbers)}": memory for memory in near[number][:MAX_NEIGHBOURS]} for number in facts}
    lines = (
        (
            number,
            (f"F{number + 1}: {_line(fact)}", *(f"  {name}: {_line(one)}" for name, one in offered[number].items())),
        )
        for number, fact in facts.items()
    )
    decisions: dict[int, Decision] = {}
    for batch in batches((number, "\n".join(some)) for number, some in lines):
        asked = filled(prompt("consolidate_facts"), facts="\n".join(batch.values()))
        answer = await llm.complete(asked, schema=Decisions)
        numbers = {f"F{number + 1}": number for number in batch}
        for item in answer.decisions:
            number = numbers.get(item.fact.strip().upper().strip("[] "))
            if number is None or number in decisions:
                continue
            action = _ACTIONS.get(item.action.strip().upper(), "ADD")
            memory = offered[number].get((item.memory or "").upper().strip("[] "))
            kept = action != "ADD" and memory is not None
            decisions[number] = (
                Decision(action, memory, item.text and unescaped(item.text)) if kept else Decision("ADD")
            )
    return decisions


def _line(memory: Memory) -> str:
    day = said(memory).date().isoformat()
    slot = f" (subject: {memory.subject}; attribute: {memory.attribute})" if memory.subject and memory.attribute else ""
    return " ".join(f"[{day}] {escaped(memory.content)}{escaped(slot)}".split())
