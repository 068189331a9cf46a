"""An agent configured as kagent's runtime configures it."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent

from kagent_memory.adk.kagent_agent import SUFFIX, configure_agent

from .scripted import names

ON = {"embedding": {"provider": "ollama", "model": "nomic-embed-text"}}


@pytest.mark.parametrize("config", [{}, ON, {"memory": ON, "model": {}}])
def test_memory_that_is_on_brings_tools_a_suffix_and_a_callback(config: Any):
    """kagent's configuration brings tools, its word about them and auto-save, on a copy."""
    given = LlmAgent(name="a", model="m", instruction="Help {user} with {braces}.")
    made = configure_agent(given, config)
    assert names(made) == ["prefetch_memory", "load_memory", "save_memory"]
    assert made.instruction == "Help {user} with {braces}." + SUFFIX
    assert len(made.canonical_after_agent_callbacks) == 1
    assert (given.tools, given.instruction, given.after_agent_callback) == (
        [],
        "Help {user} with {braces}.",
        None,
    )


def test_the_suffix_goes_to_a_static_instruction():
    """The suffix goes to the static instruction where there is one."""
    made = configure_agent(
        LlmAgent(name="a", model="m", static_instruction="Static.", instruction="Dynamic."), ON
    )
    assert (made.static_instruction, made.instruction) == ("Static." + SUFFIX, "Dynamic.")


def test_an_instruction_made_at_run_time_stays_what_it_is():
    """An instruction that is a function stays, and the word is told beside it."""

    def instruction(_: Any) -> str:
        return "made"

    made = configure_agent(LlmAgent(name="a", model="m", instruction=instruction), ON)
    assert made.instruction is instruction
    assert names(made)[-1] == "memory_instruction"


@pytest.mark.parametrize("config", [None, {"memory": None, "model": {}}])
def test_memory_that_is_off_leaves_the_agent_as_it_is(config: Any):
    """Without memory in the configuration the agent itself comes back."""
    given = LlmAgent(name="a", model="m", instruction="Help.")
    assert configure_agent(given, config) is given
