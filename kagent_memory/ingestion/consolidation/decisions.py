"""The one model call: how new facts stand to the memories near them, over a closed set of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal, TypeAlias

from ...models.llm import Llm
from ...models.prompts import batches, filled, prompt
from ...models.prompts.escaping import escaped, unescaped
from ...records import Memory
from ..answers import Decisions
from .similarity import said

Action: TypeAlias = Literal["ADD", "UPDATE", "SUPERSEDE", "NOOP"]
MAX_NEIGHBOURS = 5
_ACTIONS: dict[str, Action] = {"UPDATE": "UPDATE", "SUPERSEDE": "SUPERSEDE", "NOOP": "NOOP"}


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision about one new fact: `memory` is the one meant, None for ADD."""

    action: Action = "ADD"
    memory: Memory | None = None
    text: str = ""


async def decided(
    facts: Mapping[int, Memory], near: Mapping[int, Sequence[Memory]], llm: Llm
) -> dict[int, Decision]:
    """Return the model's decisions.

    A memory or action that was not offered counts as ADD, a fact that it passed over has none. One
    call, or several when the prompt would grow beyond 48,000 characters.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used.
    """
    numbers = count(1)  # through all facts: each name stands once in a prompt
    offered = {
        number: {f"M{next(numbers)}": memory for memory in near[number][:MAX_NEIGHBOURS]}
        for number in facts
    }

    def lines(number: int) -> str:
        shown = (f"\n  {name}: {_line(memory)}" for name, memory in offered[number].items())
        return f"F{number + 1}: {_line(facts[number])}{''.join(shown)}"

    decisions: dict[int, Decision] = {}
    for batch in batches((number, lines(number)) for number in facts):
        asked = filled(prompt("consolidate_facts"), facts="\n".join(batch.values()))
        answer = await llm.complete(asked, schema=Decisions)
        named = {f"F{number + 1}": number for number in batch}
        for item in answer.decisions:
            number = named.pop(_name(item.fact), None)
            if number is None:
                continue
            action = _ACTIONS.get(item.action.strip().upper(), "ADD")
            memory = offered[number].get(_name(item.memory or ""))
            is_offered = action != "ADD" and memory is not None
            text = unescaped(item.text or "")
            decisions[number] = Decision(action, memory, text) if is_offered else Decision()
    return decisions


def _name(value: str) -> str:
    return value.upper().strip("[] ")


def _line(memory: Memory) -> str:
    day = said(memory).date().isoformat()
    slot = (
        f" (subject: {memory.subject}; attribute: {memory.attribute})"
        if memory.subject and memory.attribute
        else ""
    )
    return " ".join(f"[{day}] {escaped(memory.content)}{escaped(slot)}".split())
