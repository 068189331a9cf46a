"""Language models: prompts answered with an object of the wanted shape."""

from __future__ import annotations

from typing import Any, Protocol

from ...errors import ConfigurationError
from ...settings import MemorySettings
from .custom_llm import CheckedLlm
from .meter import Meter, count_call, metered
from .provider_model import ProviderModel
from .reply_parser import Answer, json_prompt, parse_answer, read_answer
from .structured_output import FinalFailure, StructuredOutput

__all__ = [
    "Answer",
    "CheckedLlm",
    "FinalFailure",
    "Llm",
    "Meter",
    "ProviderModel",
    "StructuredOutput",
    "count_call",
    "json_prompt",
    "metered",
    "open_llm",
    "parse_answer",
    "read_answer",
]


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


def open_llm(choice: Any, settings: MemorySettings) -> Llm | None:
    """The model of a choice: None or False, a LiteLLM model name, or any object with `complete`.

    Nothing is loaded or called before its first use.

    Raises:
        ConfigurationError: the choice is of no known kind.
    """
    if choice is None or choice is False or choice == "":
        return None
    if choice is True:
        raise ConfigurationError("llm=True names no model; give its name, or False for none.")
    if isinstance(choice, str):
        return ProviderModel(choice, settings)
    return choice if isinstance(choice, (ProviderModel, CheckedLlm)) else CheckedLlm(choice, settings)
