"""Structured output: objects from a model that answers with text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from pydantic import BaseModel

from ...errors import ModelError
from .reply_parser import Answer, json_prompt, read_answer

Ask: TypeAlias = Callable[[str, type[BaseModel] | None], Awaitable[str]]


class FinalFailure(Exception):
    """The model refused, was cut off or is unavailable: asking for JSON in words would not help.

    Attributes:
        error: what the caller of the model gets.
    """

    def __init__(self, error: ModelError) -> None:
        super().__init__(str(error))
        self.error = error


class StructuredOutput:
    """Holds a model to a schema where it takes one; asks for JSON in words where it refuses or ignores it.

    Args:
        ask: the model's text for a prompt, held to a schema or, with None, not. Raises `FinalFailure`.
        refuses_schema: whether a failure of `ask` may come of the schema.
    """

    def __init__(self, ask: Ask, refuses_schema: Callable[[Exception], bool]) -> None:
        self._ask = ask
        self._refuses_schema = refuses_schema
        self._takes_schema = True

    async def complete(self, prompt: str, schema: type[Answer]) -> Answer:
        """The answer to the prompt; after a schema was refused once, it is no longer sent.

        Raises:
            ModelError: a final failure, or an answer that does not fit the schema.
            Exception: any other failure of `ask`, as it came.
        """
        try:
            refused = False
            if self._takes_schema:
                try:
                    return await read_answer(await self._ask(prompt, schema), schema)
                except FinalFailure:
                    raise
                except ModelError:
                    pass  # it ignored the schema this time, and may keep to it the next
                except Exception as error:
                    if not self._refuses_schema(error):
                        raise
                    refused = True
            answer = await read_answer(await self._ask(json_prompt(prompt, schema), None), schema)
            self._takes_schema = self._takes_schema and not refused
            return answer
        except FinalFailure as failure:
            raise failure.error from failure.__cause__
