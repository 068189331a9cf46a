"""The demo: an agent learns in one process and remembers in another, with nothing but this machine."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from ..concurrency import new_loop
from .agent import enable_memory
from .plugin import MemoryPlugin
from .service import KagentMemoryService

FOLDER = Path(".demo")
APP, USER = "demo", "ada"
LEARN = (
    "Hello! Please remember that my favourite tea is oolong.",
    "The billing service goes live every Thursday at 14:00.",
    "My sister Grace keeps two parrots.",
    "Ticket ERR-00123 was a full disk on host db-7.",
    "Thank you, that is all for today.",
)
ASK = (
    "Which tea is my favourite?",
    "What was the matter with ERR-00123?",
)


class RehearsedModel(BaseLlm):
    """Stands in for a language model: saves what it is told to, looks up what it is asked, says what it read."""

    model: str = "rehearsed"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """One reply, decided by the last content alone."""
        yield _response(self._reply(llm_request.contents))

    def _reply(self, contents: list[types.Content]) -> types.Part:
        last = contents[-1].parts or []
        if answers := [part.function_response for part in last if part.function_response]:
            return types.Part(text=_read_out(answers[0].response or {}))
        said = " ".join(part.text for part in last if part.text)
        if wish := said.partition("remember that ")[2]:
            return types.Part(function_call=types.FunctionCall(name="save_memory", args={"content": wish}))
        if not said.endswith("?"):
            return types.Part(text="I see.")
        earlier = " ".join(part.text or "" for content in contents[:-1] for part in content.parts or [])
        if "oolong" in earlier:
            return types.Part(text="Oolong: I found it in what was prefetched for this turn.")
        return types.Part(function_call=types.FunctionCall(name="load_memory", args={"query": said}))


class CallingModel(BaseLlm):
    """Stands in for a model that hands everything to one tool and repeats its answer."""

    model: str = "calling"
    tool: str

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """A call of the tool with what was said, then what the tool answered."""
        last = llm_request.contents[-1].parts or []
        if answers := [part.function_response for part in last if part.function_response]:
            part = types.Part(text=str((answers[0].response or {}).get("result", "")))
        else:
            said = " ".join(part.text for part in last if part.text)
            part = types.Part(function_call=types.FunctionCall(name=self.tool, args={"request": said}))
        yield _response(part)


def _response(part: types.Part) -> LlmResponse:
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=0, candidates_token_count=0)
    return LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=usage)


def _read_out(answer: dict[str, Any]) -> str:
    if memories := answer.get("memories"):
        return f"I looked it up: {memories[0]['text']}"
    if answer.get("status") == "saved":
        return "Noted."
    return str(answer.get("error") or "I remember nothing of that.")


def main(store: str = "libsql", model: str = "", embedding: str = "") -> int:
    """Runs both halves, each in a process of its own; gives the exit code."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    folder = FOLDER.resolve()
    uri = f"pgserver:///{folder}/postgres" if store == "postgres" else f"libsql:///{folder}/memory.db"
    print(f"Two processes, one memory: {uri}\n", flush=True)
    for half in ("learn", "recall"):
        command = [sys.executable, "-m", "kagent_memory.adk.demo", half, uri, model, embedding]
        if code := subprocess.run(command, check=False).returncode:  # noqa: S603 our own interpreter and module
            return code
    print(f"\nThe memories are in {FOLDER.resolve()}; look at them with:")
    # after `make demo` our command is in an environment that is not active
    command = "kagent-memory" if shutil.which("kagent-memory") else Path(sys.executable).with_name("kagent-memory")
    print(f"   {command} list --uri {uri} --app {APP} --user {USER}")
    return 0


def _llm(model: str) -> BaseLlm | str:
    if not model:
        return RehearsedModel()
    if model.startswith("gemini-"):
        return model
    from google.adk.models.lite_llm import LiteLlm  # takes a second to import

    return LiteLlm(model=model)


async def _half(half: str, uri: str, model: str, embedding: str) -> None:
    agent = enable_memory(LlmAgent(name="assistant", model=_llm(model), instruction="Be brief."), auto_save=None)
    service = KagentMemoryService(uri, embedding=embedding or None, llm=None if model else False)
    async with service:
        app = App(name=APP, root_agent=agent, plugins=[MemoryPlugin()])
        runner = Runner(app=app, session_service=InMemorySessionService(), memory_service=service)
        session = await runner.session_service.create_session(app_name=APP, user_id=USER)
        print(f"-- process {1 if half == 'learn' else 2}, session {session.id[:8]}")
        for said in LEARN if half == "learn" else ASK:
            print(f"   you:       {said}")
            message = types.Content(role="user", parts=[types.Part(text=said)])
            async for event in runner.run_async(user_id=USER, session_id=session.id, new_message=message):
                for part in (event.content.parts if event.content else None) or []:
                    if part.function_call:
                        print(f"   tool:      {part.function_call.name}({json.dumps(part.function_call.args)})")
                    if part.text:
                        print(f"   assistant: {part.text.strip()}")
        await service.drain()
        if half == "learn":
            page = await service.memories.list(service.scope(APP, USER), order="oldest")
            print("   saved:")
            for memory in page.memories:
                print(f"     {memory.type:9} by {memory.origin:5} {memory.content}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("half", "uri", "model", "embedding"):
        parser.add_argument(name)
    with asyncio.Runner(loop_factory=new_loop) as own_loop:
        own_loop.run(_half(**vars(parser.parse_args())))
