"""The demo: an agent learns in one process and remembers in another, with nothing but this
machine.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.session import Session
from google.genai import types

from ..concurrency import new_loop
from ..errors import ConfigurationError, InvalidInput, KagentMemoryError
from ..models.failures import failure
from .agent import MemoryPlugin, enable_memory
from .rehearsed_model import RehearsedModel
from .service import KagentMemoryService

APP, USER = "demo", "ada"
LEARN = (
    "Hello! Please remember that my favourite tea is oolong.",
    "Ticket ERR-00123 was a full disk on host db-7.",
)
ASK = (
    "Which tea is my favourite?",
    "What was the matter with ERR-00123?",
    "Please remember instead that my favourite tea is sencha.",
    "The surprise party for Grace is on 3 May.",
)


@dataclass(frozen=True, slots=True)
class Demonstration:
    """Result of a demo.

    Attributes:
        directory: where its memories are; nothing removes it.
        uri: of its memories.
        transcript: what both processes said.
    """

    directory: str
    uri: str
    transcript: tuple[str, ...]
    app: str = APP
    user: str = USER


def main(
    directory: str | None = None,
    store: str = "libsql",
    model: str = "",
    *,
    prints: bool = True,
) -> Demonstration:
    """Run both halves, each in a process of its own.

    Args:
        directory: an empty or a new one; None: a new temporary one.
        store: "libsql" or "postgres".
        model: of the agent; empty: a rehearsed one.
        prints: the transcript, while it happens.

    Raises:
        InvalidInput: the directory holds something.
        ConfigurationError: nothing can be written there.
        KagentMemoryError: a half failed.
    """
    folder = _folder(directory)
    uri = (
        f"pgserver:///{folder}/postgres" if store == "postgres" else f"libsql:///{folder}/memory.db"
    )
    if prints:
        print(f"Two processes, one memory: {uri}\n", flush=True)
    transcript: list[str] = []
    # nothing of one process reaches the next but what is stored
    fresh = ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1)
    try:
        with fresh as processes:
            for half in (LEARN, ASK):
                transcript += processes.submit(_run, half, uri, model, prints).result()
    except BrokenProcessPool as error:
        raise KagentMemoryError("A process of the demo was ended from outside.") from error
    return Demonstration(str(folder), uri, tuple(transcript))


def _folder(directory: str | None) -> Path:
    try:
        if directory is None:
            return Path(tempfile.mkdtemp(prefix="kagent-memory-demo-")).resolve()
        folder = Path(directory).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InvalidInput(f"{folder} is not empty; name a new or an empty directory.")
    except OSError as error:
        raise ConfigurationError(
            f"Nothing can be written to {directory} ({error.strerror})."
        ) from error
    return folder


def _run(half: tuple[str, ...], uri: str, model: str, prints: bool) -> list[str]:
    """Run one half in this process; return its lines."""

    async def run() -> list[str]:
        lines: list[str] = []
        async for line in _half(half, uri, model):
            lines.append(line)
            if prints:
                print(line, flush=True)
        return lines

    with asyncio.Runner(loop_factory=new_loop) as runner:
        try:
            return runner.run(run())
        except KagentMemoryError:
            raise
        except Exception as error:  # a client's own may not survive the way between processes
            raise failure(error, f"The demo with {model or 'the rehearsed model'}") from error


async def _half(half: tuple[str, ...], uri: str, model: str) -> AsyncGenerator[str]:
    llm: BaseLlm | str = model or RehearsedModel()
    if model and not model.startswith("gemini-"):
        from google.adk.models.lite_llm import LiteLlm  # takes a second to import

        llm = LiteLlm(model=model)
    agent = enable_memory(
        LlmAgent(name="assistant", model=llm, instruction="Be brief."), auto_save=None
    )
    async with KagentMemoryService(uri, llm=None if model else False) as service:
        # opened before the first turn, which waits for memory only so long
        await service.memories.recall(service.scope(APP, USER), APP, deliver=False)
        app = App(name=APP, root_agent=agent, plugins=[MemoryPlugin()])
        runner = Runner(app=app, session_service=InMemorySessionService(), memory_service=service)
        session = await runner.session_service.create_session(app_name=APP, user_id=USER)
        yield f"-- process {1 if half == LEARN else 2}, session {session.id[:8]}"
        for said in half:
            yield f"   you:       {said}"
            message = types.Content(role="user", parts=[types.Part(text=said)])
            async for event in runner.run_async(
                user_id=USER, session_id=session.id, new_message=message
            ):
                for line in _heard(event):
                    yield line
        await service.end_session(session)
        await service.drain()
        if half == ASK:
            async for line in _by_verbs(service, session):
                yield line


def _heard(event: Event) -> Iterator[str]:
    for part in (event.content.parts if event.content else None) or []:
        if call := part.function_call:
            yield f"   tool:      {call.name}({json.dumps(call.args)})"
        if part.text:
            yield f"   assistant: {part.text.strip()}"


async def _by_verbs(service: KagentMemoryService, session: Session) -> AsyncGenerator[str]:
    memories, scope = service.memories, service.scope(APP, USER)
    yield "-- process 2, by the verbs"
    recalled = await memories.recall(scope, ASK[0], limit=1, explain=True)
    for hit in recalled:
        signs = ", ".join(f"{name} {value:.2f}" for name, value in hit.why["scores"].items())
        legs = " and ".join(hit.why["legs"])
        yield f'   explain:   "{hit.memory.content}" found by {legs} ({signs})'
    for left in recalled.left_out:
        for change in await memories.history(scope, left.memory_id):
            if left.reason == "superseded" and change.before:
                yield f'   history:   "{change.before.content}" {change.kind}, {change.why}'
    party = "When is the surprise party for Grace?"
    for hit in await memories.recall(scope, party, limit=1):
        content = hit.memory.content
        await memories.forget(scope, [hit.memory.id], who=USER)
        await service.add_session_to_memory(session)
        await service.drain()
        back = [other.memory.content for other in await memories.recall(scope, party)]
        yield (
            f'   forget:    "{content}"; its session, saved again, brought back '
            f"{back.count(content)}"
        )
    for receipt in await memories.receipts():
        at = receipt.at.isoformat(timespec="minutes")
        yield f"   receipt:   {receipt.memories} memory, {at}, by {receipt.who}: {receipt.digest}"
