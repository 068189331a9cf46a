"""The changes that kagent's runtime makes to an agent whose configuration turns memory on."""

from __future__ import annotations

from typing import Any

from google.adk.agents.llm_agent import LlmAgent

from ..settings import MemorySettings
from .agent import enable_memory
from .autosave import AutoSave

SUFFIX = (
    "\n\nYou have long-term memory. Keep important findings, learnings and preferences of the "
    "user with save_memory; "
    "when you are unsure or miss context, search earlier conversations with load_memory."
)


def configure_agent(agent: LlmAgent, config: object) -> LlmAgent:
    """Return a copy of the agent with kagent's memory tools, its word about them, and auto-save
    every 5 user turns.

    Give the runner `KagentMemoryService(settings=MemorySettings.from_kagent(config))` as its memory
    service.

    Args:
        agent: never changed.
        config: kagent's configuration, as `MemorySettings.from_kagent` takes it.

    Returns:
        The agent itself when the configuration leaves memory off.

    Raises:
        ConfigurationError: the configuration does not fit.
    """
    if MemorySettings.from_kagent(config) is None:
        return agent
    field = "static_instruction" if getattr(agent, "static_instruction", None) else "instruction"
    text: Any = getattr(agent, field)
    if not isinstance(text, str):  # made at run time, or no text: told beside it instead
        return enable_memory(agent, auto_save=AutoSave(every_turns=5))
    remembering = enable_memory(agent, augment_instruction=False, auto_save=AutoSave(every_turns=5))
    if text.endswith(SUFFIX):
        return remembering
    return remembering.clone(update={field: text + SUFFIX})
