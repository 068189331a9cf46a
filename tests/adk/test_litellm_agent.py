"""Agents on LiteLlm with auto-save: their calls and ours run on two loops, and LiteLLM must not notice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
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

def said(text):
    return types.Content(role="user", parts=[types.Part(text=text)])

def made(uri, **options):
    agent = LlmAgent(name="assistant", model=LiteLlm(model="openai/any"), instruction="Help.")
    app = App(
        name="demo",
        root_agent=enable_memory(agent, auto_save=None),
        plugins=[MemoryPlugin(auto_save=AutoSave(every_turns=1))],
    )
    service = KagentMemoryService(uri, **options)
    return Runner(app=app, session_service=InMemorySessionService(), memory_service=service), service

async def told(service):
    assert await service.drain(60), await service.memories.jobs()
    scope = service.scope("demo", "ada")
    print("STORED", len((await service.memories.list(scope)).memories), (await service.memories.stats(scope)).calls)
    await service.close()
"""

ASYNC = """
async def main():
    for uri, options in json.loads(sys.argv[1]):
        runner, service = made(uri, **options)
        session = await runner.session_service.create_session(app_name="demo", user_id="ada")
        for number in range(6):
            async for _ in runner.run_async(
                user_id="ada", session_id=session.id, new_message=said(f"Fact: Shelf {number} is full.")
            ):
                pass
            await asyncio.sleep(0.05)
        await told(service)
        gc.collect()

asyncio.run(main())
gc.collect()
"""

SYNC = """
def main():
    runner, service = made(sys.argv[1], **json.loads(sys.argv[2]))
    session = asyncio.run(runner.session_service.create_session(app_name="demo", user_id="ada"))
    for number in range(4):
        for _ in runner.run(user_id="ada", session_id=session.id, new_message=said(f"Fact: Shelf {number} is full.")):
            pass
    asyncio.run(told(service))
    gc.collect()

main()
"""


def answers(body: dict) -> str | None:
    prompt = body["messages"][-1]["content"]
    if not isinstance(prompt, str) or "<transcript>" not in prompt:
        return '{"decisions": [], "groups": []}' if "F1" in str(prompt) else None
    facts = [line.split("Fact: ")[1] for line in prompt.split("<transcript>")[1].splitlines() if "Fact: " in line]
    return json.dumps({"facts": facts, "summary": ""})


def run(program: str, *arguments: str, timeout: float = 300) -> tuple[str, str]:
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(TALK + program), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={
            **os.environ,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },  # else it looks for the network while it is imported
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, ran.stderr


OPTIONS = [{}, {"embedding": "openai/text-embedding-3-small"}, {"llm": "openai/any"}]


async def test_an_agent_on_litellm_with_auto_save_logs_no_error(provider: Loopback, tmp_path: Path) -> None:
    provider.plan(*[by_route] * 800)
    uris = [f"libsql:///{tmp_path}/memory{number}.db" for number in range(len(OPTIONS))]
    out, err = run(ASYNC, json.dumps(list(zip(uris, OPTIONS, strict=True))))
    stored = [line.split() for line in out.splitlines() if line.startswith("STORED")]
    assert len(stored) == len(OPTIONS)
    for _, memories, calls in stored:
        assert int(memories) >= 6
        assert int(calls) >= 6, "the agent's own model was asked"
    check_quiet(err)


def by_route(body: dict) -> str | None:
    return answers(body) if "messages" in body else None


def check_quiet(err: str) -> None:
    for sign in (
        "ERROR",
        "Traceback",
        "was destroyed but it is pending",
        "cannot reuse",
        "never awaited",
        "LoggingWorker",
    ):
        assert sign not in err, err


async def test_an_agent_run_without_a_loop_of_its_own_is_saved_all_the_same(provider: Loopback, uri: str) -> None:
    provider.plan(*[answers] * 200)
    out, _ = run(SYNC, uri, "{}")
    assert int(out.split("STORED")[1].split()[0]) >= 4
