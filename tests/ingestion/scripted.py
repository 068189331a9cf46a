"""A model that answers by its input, for the extraction and consolidation tests."""

from collections.abc import Callable
from typing import Any

from kagent_memory.models.replies import parse_answer


class Scripted:
    name = "scripted"

    def __init__(self, answer: Callable[[str], str]):
        self.answer = answer
        self.prompts: list[str] = []

    async def complete(self, prompt: str, *, schema: Any) -> Any:
        self.prompts.append(prompt)
        return parse_answer(self.answer(prompt), schema)
