"""The demo: an agent learns in one process and remembers in another, with nothing but this
machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.session import Session
from google.genai import types

from ..concurrency import new_loop
from ..errors import FAMILIES, ConfigurationError, InvalidInput, KagentMemoryError, family_of
from .agent import enable_memory
from .plugin import MemoryPlugin
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """Result of a demo.

    Attributes:
        directory: where its memories are; nothing removes it.
        uri: of its memories.
        transcript: what both processes printed, unless they printed it themselves.
    """

    directory: str
    uri: str
    app: str = APP
    user: str = USER
    transcript: tuple[str, ...] = ()


def main(
    directory: str | None = None,
    store: str = "libsql",
    model: str = "",
    embedding: str = "",
    *,
    prints: bool = True,
) -> Demonstration:
    """Run both halves, each in a process of its own.

    Args:
        directory: an empty or a new one; None: a new temporary one.
        store: "libsql" or "postgres".
        model: of the agent; empty: a rehearsed one.
        embedding: of the service; empty: keyword search.
        prints: what happens, while it happens; else it is the transcript.

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
    for half in ("learn", "recall"):
        command = [sys.executable, "-m", "kagent_memory.adk.demo", half, uri, model, embedding]
        ran = subprocess.run(command, check=False, text=True, capture_output=not prints)  # noqa: S603 our own module
        if ran.returncode:
            raise _error(half, ran)
        transcript += (ran.stdout or "").splitlines()
    return Demonstration(directory=str(folder), uri=uri, transcript=tuple(transcript))


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


def _error(half: str, ran: subprocess.CompletedProcess[str]) -> KagentMemoryError:
    """Return the error of a half, in its own words where they were not printed already."""
    families = {family.exit_code: kind for kind, family in FAMILIES.items()}
    kind = families.get(ran.returncode, KagentMemoryError)
    words = (ran.stderr or "").strip() or f"The process of the half {half!r} failed."
    return kind(words.splitlines()[-1])


async def _half(half: str, uri: str, model: str, embedding: str) -> None:
    llm: BaseLlm | str = model or RehearsedModel()
    if model and not model.startswith("gemini-"):
        from google.adk.models.lite_llm import LiteLlm  # takes a second to import

        llm = LiteLlm(model=model)
    agent = enable_memory(
        LlmAgent(name="assistant", model=llm, instruction="Be brief."), auto_save=None
    )
    service = KagentMemoryService(uri, embedding=embedding or None, llm=None if model else False)
    async with service:
        app = App(name=APP, root_agent=agent, plugins=[MemoryPlugin()])
        runner = Runner(app=app, session_service=InMemorySessionService(), memory_service=service)
        session = await runner.session_service.create_session(app_name=APP, user_id=USER)
        print(f"-- process {1 if half == 'learn' else 2}, session {session.id[:8]}")
        for said in LEARN if half == "learn" else ASK:
            print(f"   you:       {said}")
            message = types.Content(role="user", parts=[types.Part(text=said)])
            async for event in runner.run_async(
                user_id=USER, session_id=session.id, new_message=message
            ):
                for part in (event.content.parts if event.content else None) or []:
                    if part.function_call:
                        print(
                            "   tool:      "
                            f"{part.function_call.name}({json.dumps(part.function_call.args)})"
                        )
                    if part.text:
                        print(f"   assistant: {part.text.strip()}")
        await service.end_session(session)
        await service.drain()
        if half == "recall":
            print("-- process 2, by the verbs")
            await _use_verbs(service, session)


async def _use_verbs(service: KagentMemoryService, session: Session) -> None:
    memories, scope = service.memories, service.scope(APP, USER)
    recalled = await memories.recall(scope, ASK[0], limit=1, explain=True)
    for hit in recalled:
        signs = ", ".join(f"{name} {value:.2f}" for name, value in hit.why["scores"].items())
        print(
            f'   explain:   "{hit.memory.content}" found by {" and ".join(hit.why["legs"])} '
            f"({signs})"
        )
    for left in (left for left in recalled.left_out if left.reason == "superseded"):
        for change in await memories.history(scope, left.memory_id):
            if change.before:
                print(f'   history:   "{change.before.content}" {change.kind}, {change.why}')
    party = "When is the surprise party for Grace?"
    for hit in await memories.recall(scope, party, limit=1):
        await memories.forget(scope, [hit.memory.id], who=USER)
        await service.add_session_to_memory(session)
        await service.drain()
        back = [
            other
            for other in await memories.recall(scope, party)
            if other.memory.content == hit.memory.content
        ]
        print(
            f'   forget:    "{hit.memory.content}"; its session, saved again, brought back '
            f"{len(back)}"
        )
    for receipt in await memories.receipts():
        at = receipt.at.isoformat(timespec="minutes")
        print(f"   receipt:   {receipt.memories} memory, {at}, by {receipt.who}: {receipt.digest}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("half", "uri", "model", "embedding"):
        parser.add_argument(name)
    try:
        with asyncio.Runner(loop_factory=new_loop) as own_loop:
            own_loop.run(_half(**vars(parser.parse_args())))
    except KagentMemoryError as error:
        print(error, file=sys.stderr)
        sys.exit(family_of(error).exit_code)
