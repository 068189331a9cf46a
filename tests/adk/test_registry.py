"""Our schemes in ADK's registry, and agents written in YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.adk.cli.service_registry import get_service_registry

from kagent_memory import KagentMemoryService, register

from .scripted import Chat, names, scripted


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
