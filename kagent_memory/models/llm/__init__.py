"""Language models: prompts answered with an object of the wanted shape."""

from __future__ import annotations

from typing import Any, Protocol

from ...errors import ConfigurationError
from ...settings import MemorySettings
from ..calls import check_provider
from .asking import CheckedLlm, Meter, StructuredOutput, count_call, metered
from .provider_model import ProviderModel
from .reply_parser import Answer, json_prompt, parse_answer, read_answer

__all__ = [
    "Answer",
    "CheckedLlm",
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
        """Return which model this is."""
        ...

    async def complete(self, prompt: str, *, schema: type[Answer]) -> Answer:
        """Return the answer to the prompt.

        Raises:
            ModelError: unavailable, or an answer that does not fit the schema.
        """
        ...


def open_llm(choice: Any, settings: MemorySettings) -> Llm | None:
    """Return the model of a choice: None or False, a LiteLLM model name, or an object with
    `complete`.

    No model is loaded or called. The name of an uncommon provider imports LiteLLM: call this in a
    thread.

    Raises:
        ConfigurationError: the choice is of no known kind, or names no known provider.
    """
    if choice is None or choice is False or choice == "":
        return None
    if choice is True:
        raise ConfigurationError("llm=True names no model; give its name, or False for none.")
    if isinstance(choice, str):
        model = ProviderModel(choice, settings)
        check_provider(model.name)
        return model
    return (
        choice if isinstance(choice, (ProviderModel, CheckedLlm)) else CheckedLlm(choice, settings)
    )
