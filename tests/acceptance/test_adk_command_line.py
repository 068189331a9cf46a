"""ADK's own command line with our schemes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi.testclient import TestClient
from relay import free_port

from kagent_memory.adk.registry import main

ADK = [sys.executable, "-m", "google.adk.cli"]
AGENT = """
from google.adk.agents import LlmAgent
from kagent_memory import enable_memory
from kagent_memory.testing import RehearsedModel

root_agent = enable_memory(LlmAgent(name="remembering", model=RehearsedModel()))
"""


Post = Callable[[str, Any], Any]


def post(url: str, path: str, body: Any) -> Any:
    request = urllib.request.Request(
        url + path,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.loads(response.read())


@contextmanager
def served(command: list[str], folder: Path) -> Iterator[str]:
    port = free_port()
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port), "--host", "127.0.0.1", str(folder / "agents")],
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OTEL_SDK_DISABLED": "true"},
        )
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 240
        while True:
            try:
                urllib.request.urlopen(f"{url}/list-apps", timeout=10).close()
                break
            except (urllib.error.URLError, OSError):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(120)


def say(post: Post, app: str, session: str, text: str) -> str:
    post(f"/apps/{app}/users/ada/sessions/{session}", {})
    message = {"role": "user", "parts": [{"text": text}]}
    body = {"appName": app, "userId": "ada", "sessionId": session, "newMessage": message}
    return json.dumps(post("/run", body))


def write_agent(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "agent.py").write_text(AGENT)
    (folder / "__init__.py").write_text("from . import agent\n")


def remembers(post: Post, app: str) -> None:
    assert "Noted." in say(post, app, "one", "Please remember that my favourite tea is oolong.")
    answer = say(post, app, "two", "Which tea is my favourite?")
    assert "Oolong: I found it in what was prefetched" in answer


def test_a_server_of_adk_remembers_in_a_second_session(tmp_path: Path) -> None:
    """ADK's server knows our scheme by a file beside the agents, which then remember."""
    write_agent(tmp_path / "agents/remembering")
    service = "{scheme: kagent, type: memory, class: kagent_memory.KagentMemoryService}"
    (tmp_path / "agents/services.yaml").write_text(f"services:\n  - {service}\n")
    uri = "kagent:///memory.db?llm=false"
    with served([*ADK, "web", "--memory_service_uri", uri], tmp_path) as url:
        remembers(partial(post, url), "remembering")
    assert (tmp_path / "memory.db").is_file()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_our_command_is_adks_and_knows_our_schemes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kagent-memory-adk` is ADK's own command line, where any of our schemes names a store."""
    write_agent(tmp_path / "agents/recalling")

    def run(server: uvicorn.Server) -> None:
        app: Any = server.config.app
        with TestClient(app, base_url="http://127.0.0.1:8000") as client:
            remembers(lambda path, body: client.post(path, json=body).json(), "recalling")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(uvicorn.Server, "run", run)
    uri = ["--memory_service_uri", "libsql:///memory.db?llm=false"]
    monkeypatch.setattr(sys, "argv", ["kagent-memory-adk", "api_server", *uri, "agents"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert (tmp_path / "memory.db").is_file()
