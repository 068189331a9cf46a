"""ADK's own command line with our schemes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi.testclient import TestClient
from google.adk.agents import config_agent_utils
from google.adk.cli import cli_tools_click, service_registry

from kagent_memory.adk.registry import main

AGENT = """
from google.adk.agents import LlmAgent
from kagent_memory import enable_memory
from kagent_memory.testing import RehearsedModel

root_agent = enable_memory(LlmAgent(name="remembering", model=RehearsedModel()))
"""


def remembers(client: TestClient, app: str) -> None:
    """Tell an agent something in one session, and ask for it in another."""

    def say(session: str, text: str) -> str:
        client.post(f"/apps/{app}/users/ada/sessions/{session}", json={})
        message = {"role": "user", "parts": [{"text": text}]}
        body = {"appName": app, "userId": "ada", "sessionId": session, "newMessage": message}
        return client.post("/run", json=body).text

    assert "Noted." in say("one", "Please remember that my favourite tea is oolong.")
    answer = say("two", "Which tea is my favourite?")
    assert "Oolong: I found it in what was prefetched" in answer


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    ("command", "words", "uri"),
    [
        (cli_tools_click.main, ["adk", "web"], "kagent:///memory.db?llm=false"),
        (main, ["kagent-memory-adk", "api_server"], "libsql:///memory.db?llm=false"),
    ],
    ids=["adk", "ours"],
)
def test_agents_on_adks_command_line_remember(
    command: Any, words: list[str], uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """ADK's command line knows our scheme by a file beside the agents, and ours knows all schemes;
    agents on either remember.
    """
    agent = tmp_path / "agents" / words[1]
    agent.mkdir(parents=True)
    (agent / "agent.py").write_text(AGENT)
    (agent / "__init__.py").write_text("from . import agent\n")
    if command is not main:
        service = "{scheme: kagent, type: memory, class: kagent_memory.KagentMemoryService}"
        (tmp_path / "agents/services.yaml").write_text(f"services:\n  - {service}\n")

    def run(server: uvicorn.Server) -> None:
        app: Any = server.config.app
        with TestClient(app, base_url="http://127.0.0.1:8000") as client:
            remembers(client, words[1])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(service_registry, "_service_registry_instance", None)  # knows ADK's alone
    # ADK's server forbids arguments in YAML, in all of its process: this sets it back
    monkeypatch.setattr(config_agent_utils, "_ENFORCE_YAML_KEY_DENYLIST", False, raising=False)
    monkeypatch.setattr(uvicorn.Server, "run", run)
    monkeypatch.setattr(sys, "argv", [*words, "--memory_service_uri", uri, "agents"])
    with pytest.raises(SystemExit) as ended:
        command()
    assert not ended.value.code
    assert (tmp_path / "memory.db").is_file()
