"""ADK's own command line with our schemes, and agents written in YAML."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from google.adk.cli.service_registry import get_service_registry
from relay import free_port

from kagent_memory import KagentMemoryService, register

from .scripted import Chat, scripted

AGENT = '''
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from kagent_memory import enable_memory


class Rehearsed(BaseLlm):
    """Saves what it is told and says what it was handed."""

    model: str = "rehearsed"

    async def generate_content_async(self, llm_request, stream=False):
        parts = [part for content in llm_request.contents for part in content.parts or []]
        last = llm_request.contents[-1].parts[-1]
        if last.function_response:
            reply = types.Part(text=str(last.function_response.response["status"]))
        elif (last.text or "").startswith("Remember: "):
            args = {"content": last.text.removeprefix("Remember: ")}
            reply = types.Part(function_call=types.FunctionCall(name="save_memory", args=args))
        else:
            reply = types.Part(text="SEEN " + " ".join(part.text or "" for part in parts))
        yield LlmResponse(content=types.Content(role="model", parts=[reply]))


root_agent = enable_memory(LlmAgent(name="remembering", model=Rehearsed()))
'''


def post(url: str, body: Any) -> Any:
    request = urllib.request.Request(
        url,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.loads(response.read())


@contextmanager
def served(command: list[str], folder: Path, **environ: str) -> Iterator[str]:
    port = free_port()
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port), "--host", "127.0.0.1", str(folder / "agents")],
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OTEL_SDK_DISABLED": "true", **environ},
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


def say(url: str, app: str, session: str, text: str) -> str:
    post(f"{url}/apps/{app}/users/ada/sessions/{session}", {})
    message = {"role": "user", "parts": [{"text": text}]}
    body = {"appName": app, "userId": "ada", "sessionId": session, "newMessage": message}
    return json.dumps(post(f"{url}/run", body))


def write_agent(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "agent.py").write_text(AGENT)
    (folder / "__init__.py").write_text("from . import agent\n")


def remembers(url: str, app: str) -> None:
    assert "saved" in say(url, app, "one", "Remember: Ada prefers dark mode")
    answer = say(url, app, "two", "Which mode do I prefer, dark or light?")
    assert "PAST_CONVERSATIONS" in answer
    assert "Ada prefers dark mode" in answer


@pytest.mark.parametrize(
    ("command", "how"), [("web", "services.yaml"), ("api_server", "console script")]
)
def test_a_server_of_adk_remembers_in_a_second_session(
    tmp_path: Path, command: str, how: str
) -> None:
    write_agent(tmp_path / "agents/remembering")
    uri = "libsql:///memory.db?llm=false"
    if how == "services.yaml":
        service = "{scheme: kagent, type: memory, class: kagent_memory.KagentMemoryService}"
        (tmp_path / "agents/services.yaml").write_text(f"services:\n  - {service}\n")
        uri = "kagent:///memory.db?llm=false"
        start = "from google.adk.cli.cli_tools_click import main; main()"
    else:
        start = "from kagent_memory.adk.registry import main; main()"
    with served(
        [sys.executable, "-c", start, command, "--memory_service_uri", uri], tmp_path
    ) as url:
        remembers(url, "remembering")
    assert (tmp_path / "memory.db").is_file()


GCLOUD = """#!/bin/sh
# Stands in for gcloud: keeps what an image would be built of, and deploys nothing.
while [ $# -gt 0 ]; do
    [ "$1" = --source ] && cp -r "$2" "$KEPT"
    shift
done
"""


def test_an_adk_deployment_knows_our_scheme(
    tmp_path: Path,
) -> None:
    """What `adk deploy` builds knows our scheme and takes the store from the environment."""
    from google.adk.cli.cli_tools_click import main as adk

    page = (Path(__file__).parents[2] / "docs/adk-integration.md").read_text(encoding="utf-8")
    (module,) = re.findall(
        r"^```python\n(import kagent_memory\n.*?)^```", page, re.MULTILINE | re.DOTALL
    )
    (shown,) = re.findall(r"^\$ adk (deploy cloud_run .*?[^\\])$", page, re.MULTILINE | re.DOTALL)
    write_agent(tmp_path / "assistant")
    (tmp_path / "services.py").write_text(module)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/gcloud").write_text(GCLOUD)
    (tmp_path / "bin/gcloud").chmod(0o755)
    image = tmp_path / "image"
    command = [sys.executable, "-m", "google.adk.cli", *shlex.split(shown.replace("\\\n", " "))]
    environ = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "KEPT": str(image),
    }
    ran = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300
    )
    if "--extra_packages" not in {
        name for one in adk.commands["deploy"].commands["cloud_run"].params for name in one.opts
    }:
        # older versions of ADK: the page says what to do instead
        assert "No such option" in ran.stderr
        return
    assert ran.returncode == 0, ran.stdout + ran.stderr

    dockerfile = (image / "Dockerfile").read_text()
    assert 'COPY --chown=myuser:myuser "services.py" "/app/services.py"' in dockerfile
    assert 'ENV PYTHONPATH="/app:' in dockerfile
    (start,) = re.findall(r"^CMD (\[.*\])$", dockerfile, re.MULTILINE)
    words = [word for word in json.loads(start) if not word.startswith(("--port=", "--host="))]
    assert (words[0], words[-1]) == ("adk", "/app/agents")
    path = os.pathsep.join([str(image), os.environ.get("PYTHONPATH", "")])
    store = f"libsql:///{tmp_path}/memory.db?llm=false"
    adk_server = [sys.executable, "-m", "google.adk.cli", *words[1:-1]]
    with served(adk_server, image, PYTHONPATH=path, KAGENT_MEMORY_URI=store) as url:
        remembers(url, "assistant")
    assert (tmp_path / "memory.db").is_file()


def test_registering_teaches_our_schemes_once_and_again(tmp_path: Path) -> None:
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
) -> None:
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
    agent = from_config(str(tmp_path / "root_agent.yaml"))
    assert [tool.name for tool in agent.tools] == [
        "save_memory",
        "prefetch_memory",
        "recall_memory",
    ]
    assert (agent.tools[0].ttl_days, agent.tools[1].prefetch.limit) == (3, 2)
    agent.model = scripted("hello")
    events = await Chat(agent, service).say("Hello")
    assert events[-1].content.parts[0].text == "hello"
    assert len(await service.memories.jobs()) == 1
