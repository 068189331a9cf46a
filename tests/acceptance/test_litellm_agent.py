"""Agents on LiteLlm with auto-save: their calls and ours run on two loops, and LiteLLM must not
notice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from loopback import Loopback

TALK = """
import asyncio, gc, json, logging, sys
logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from kagent_memory import AutoSave, KagentMemoryService, MemoryPlugin, enable_memory

def user_message(text):
    return types.Content(role="user", parts=[types.Part(text=text)])

def runner_on(uri, **options):
    agent = LlmAgent(name="assistant", model=LiteLlm(model="openai/any"), instruction="Help.")
    app = App(
        name="demo",
        root_agent=enable_memory(agent, auto_save=None),
        plugins=[MemoryPlugin(auto_save=AutoSave(every_turns=1))],
    )
    service = KagentMemoryService(uri, **options)
    return Runner(app=app, session_service=InMemorySessionService(), memory_service=service), service

async def report(service):
    assert await service.drain(60), await service.memories.jobs()
    scope = service.scope("demo", "ada")
    print("STORED", len((await service.memories.list(scope)).memories), (await service.memories.stats(scope)).calls)
    await service.close()
"""  # noqa: E501

PROGRAM = """
async def main():
    runner, service = runner_on(sys.argv[1], embedding="openai/text-embedding-3-small")
    session = await runner.session_service.create_session(app_name="demo", user_id="ada")
    for number in range(3):
        async for _ in runner.run_async(
            user_id="ada",
            session_id=session.id,
            new_message=user_message(f"Fact: Shelf {number} is full."),
        ):
            pass
    await report(service)

asyncio.run(main())

runner, service = runner_on(sys.argv[2], llm="openai/any")
session = asyncio.run(runner.session_service.create_session(app_name="demo", user_id="ada"))
for number in range(3):
    for _ in runner.run(
        user_id="ada",
        session_id=session.id,
        new_message=user_message(f"Fact: Shelf {number} is full."),
    ):
        pass
asyncio.run(report(service))
gc.collect()
"""


def answers(body: dict) -> str | None:
    prompt = body["messages"][-1]["content"]
    if not isinstance(prompt, str) or "<transcript>" not in prompt:
        return '{"decisions": []}' if "F1" in str(prompt) else None
    facts = [
        line.split("Fact: ")[1]
        for line in prompt.split("<transcript>")[1].splitlines()
        if "Fact: " in line
    ]
    return json.dumps({"facts": facts, "summary": ""})


def run(*arguments: str, timeout: float = 300) -> tuple[str, str]:
    process = subprocess.run(
        [sys.executable, "-c", TALK + PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={
            **os.environ,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },  # else it looks for the network while it is imported
    )
    assert process.returncode == 0, process.stderr
    return process.stdout, process.stderr


def by_route(body: dict) -> str | None:
    return answers(body) if "messages" in body else None


async def test_agents_on_litellm_are_saved_and_log_no_error(provider: Loopback, tmp_path: Path):
    """Calls of the agent and of memory, on two loops, get along; with the blocking runner too."""
    provider.plan(*[by_route] * 800)
    out, err = run(*(f"libsql:///{tmp_path}/memory{number}.db" for number in range(2)))
    stored = [line.split() for line in out.splitlines() if line.startswith("STORED")]
    assert len(stored) == 2
    for _, memories, calls in stored:
        assert int(memories) >= 3
        assert int(calls) >= 3, "the agent's own model or the service's was asked"
    for sign in (
        "ERROR",
        "Traceback",
        "was destroyed but it is pending",
        "cannot reuse",
        "never awaited",
        "LoggingWorker",
    ):
        assert sign not in err, err
