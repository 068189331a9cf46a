"""The language model's door."""

from __future__ import annotations

from typing import Protocol, TypeVar

from pydantic import BaseModel

Answer = TypeVar("Answer", bound=BaseModel)


class Llm(Protocol):
    """Answers a prompt with an object of the wanted shape. Any object of this shape will do."""

    @property
    def name(self) -> str:
        """Which model this is."""
        ...

    async def complete(self, prompt: str, *, schema: type[Answer]) -> Answer:
        """The answer to the prompt.

        Raises:
            ModelError: unavailable, or an answer that does not fit the schema.
        """
        ...
