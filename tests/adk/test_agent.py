"""enable_memory and agents in YAML: on a copy, idempotent, with any instruction; our schemes in
ADK's registry.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.adk.cli.service_registry import get_service_registry
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.load_memory_tool import LoadMemoryTool as AdkLoadMemoryTool

from kagent_memory import (
    AutoSave,
    ConfigurationError,
    ConfirmMemoryTool,
    ForgetMemoryTool,
    KagentMemoryService,
    LoadMemoryTool,
    PrefetchMemoryTool,
    PreloadMemoryTool,
    SaveMemoryTool,
    auto_save_session_to_memory_callback,
    enable_memory,
    register,
)
from kagent_memory.adk.agent import MemoryInstruction

from .scripted import Chat, assistant, declarations, names, scripted, system

NO: Any = False
WORD: Any = "5"


def test_the_given_agent_is_never_changed():
    """Tools and callback are added to a copy."""
    agent = assistant(scripted(), tools=[])
    copy = enable_memory(agent)
    assert (agent.tools, agent.after_agent_callback, agent.instruction) == ([], None, "Help.")
    assert names(copy) == ["prefetch_memory", "load_memory", "save_memory", "memory_instruction"]
    assert copy.instruction == "Help."


def test_doing_it_twice_adds_nothing():
    """An agent that remembers gets nothing more."""
    once = enable_memory(assistant(scripted()))
    twice = enable_memory(once)
    assert names(twice) == names(once)
    for agent in (once, twice):
        assert len(agent.canonical_after_agent_callbacks) == 1


def test_what_the_agent_has_already_stays_its_own():
    """Tools and callbacks of the agent stay, and ours that do the same are not added."""

    async def mine(callback_context: Any) -> None: ...

    own = assistant(
        scripted(),
        tools=[AdkLoadMemoryTool(), PreloadMemoryTool()],
        after_agent_callback=[mine, auto_save_session_to_memory_callback],
    )
    agent = enable_memory(own)
    assert names(agent) == ["load_memory", "preload_memory", "save_memory", "memory_instruction"]
    assert isinstance(agent.tools[0], AdkLoadMemoryTool)
    assert agent.after_agent_callback == [mine, auto_save_session_to_memory_callback]


def test_other_tools_and_no_instruction_on_request():
    """Tools, instruction and auto-save are each the caller's to choose; of a tool that is not there
    nothing is said.
    """
    agent = enable_memory(
        assistant(scripted()), tools=[ForgetMemoryTool()], augment_instruction=False, auto_save=None
    )
    assert names(agent) == ["forget_memory"]
    assert agent.after_agent_callback is None
    for tools, is_mentioned in ((None, False), ([ConfirmMemoryTool()], True)):
        *_, instruction = enable_memory(assistant(scripted()), tools=tools).tools
        assert isinstance(instruction, MemoryInstruction)
        assert ("confirm_memory" in instruction.text) is is_mentioned


def test_functions_and_toolsets_are_tools_too():
    """Functions and toolsets are added once, as ADK takes them."""

    def look_up(word: str) -> str:
        """Looks a word up."""
        return word

    class Others(BaseToolset):
        async def get_tools(self, readonly_context: Any = None) -> list[Any]:
            return []

        async def close(self) -> None: ...

    mine, theirs = Others(), Others()
    once = enable_memory(
        assistant(scripted(), tools=[mine]), tools=[look_up, theirs], augment_instruction=False
    )
    assert once.tools == [mine, look_up, theirs]
    assert (
        enable_memory(once, tools=[look_up, theirs], augment_instruction=False).tools == once.tools
    )


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        (
            lambda: enable_memory(assistant(scripted()), auto_save=NO),
            "auto_save: .* instance of AutoSave",
        ),
        (lambda: enable_memory(WORD), "MemoryPlugin"),
        (lambda: AutoSave(every_turns=WORD), r"every_turns=…\): .* valid integer"),
        (lambda: AutoSave(inactivity_minutes=0), "inactivity_minutes"),
        (lambda: PrefetchMemoryTool(timeout_seconds=0), "timeout_seconds"),
        (lambda: LoadMemoryTool(limit=-1), "limit of load_memory"),
        (lambda: SaveMemoryTool(tags="work"), r"tags=…\): (?!.*work)"),
    ],
)
def test_a_developers_slip_is_told_at_once(wrong: Callable[[], Any], advice: str):
    """A wrong argument is a ConfigurationError where it is written."""
    with pytest.raises(ConfigurationError, match=advice):
        wrong()


def wish(context: Any) -> str:
    return f"Called for {context.agent_name} {{tea}}."


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"instruction": 'Answer as {"a": 1}.'}, 'Answer as {"a": 1}.'),
        ({"instruction": "State says {color}."}, "State says blue."),
        ({"instruction": wish}, "Called for assistant {tea}."),
        ({"instruction": "", "static_instruction": "Static {tea}."}, "Static {tea}."),
    ],
)
async def test_every_kind_of_instruction_survives(
    service: KagentMemoryService, options: dict[str, Any], expected: str
):
    """An instruction of any kind is expanded by ADK as ever, and ours stays the same."""
    model = scripted("one", "two")
    chat = Chat(enable_memory(assistant(model, **options)), service)
    created = await chat.sessions.create_session(
        app_name=chat.app, user_id=chat.user, state={"color": "blue"}
    )
    chat.session_id = created.id
    await chat.say("Hello there")
    await chat.say("And again")
    first, second = model.requests
    assert expected in system(first)
    assert system(first).count("You have a long-term memory") == 1
    assert system(first) == system(second)
    assert declarations(first) == declarations(second)


def test_registering_teaches_our_schemes_once_and_again(tmp_path: Path):
    """ADK's registry makes our service of each scheme, however often they are registered."""
    register()
    register()
    registry = get_service_registry()
    for uri in (
        f"libsql:///{tmp_path}/a.db",
        f"kagent+libsql:///{tmp_path}/a.db",
        "kagent://",
        "postgresql://h/d",
    ):
        assert isinstance(
            registry.create_memory_service(uri, agents_dir="agents"), KagentMemoryService
        )


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
async def test_yaml_agents_name_our_tools_and_callback(
    tmp_path: Path, service: KagentMemoryService
):
    """An agent in YAML gets our tools, with their arguments, and our callback."""
    from google.adk.agents.config_agent_utils import from_config

    (tmp_path / "root_agent.yaml").write_text(
        "name: yaml_agent\n"
        "model: gemini-2.5-flash\n"
        "instruction: Help.\n"
        "tools:\n"
        "  - name: kagent_memory.SaveMemoryTool\n"
        "    args: {ttl_days: 3}\n"
        "  - name: kagent_memory.PrefetchMemoryTool\n"
        "    args: {limit: 2}\n"
        "  - name: kagent_memory.RecallMemoryTool\n"
        "after_agent_callbacks:\n"
        "  - name: kagent_memory.auto_save_session_to_memory_callback\n"
    )
    agent: Any = from_config(str(tmp_path / "root_agent.yaml"))
    assert names(agent) == ["save_memory", "prefetch_memory", "recall_memory"]
    assert (agent.tools[0].ttl_days, agent.tools[1].prefetch.limit) == (3, 2)
    agent.model = scripted("hello")
    assert await Chat(agent, service).ask("Hello") == "hello"
    assert len(await service.memories.jobs()) == 1
