"""The demo: an agent learns in one process and remembers in another, with nothing but this
machine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.sessions.session import Session

from ..adk.agent import MemoryPlugin, enable_memory
from ..adk.service import KagentMemoryService
from ..concurrency import new_loop
from ..errors import KagentMemoryError
from ..models.calls import check_provider
from ..models.failures import failure
from .agents import Chat, RehearsedModel

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


def run_half(number: int, uri: str, app: str, user: str, model: str) -> list[str]:
    """Run one half of the demo in this process; return what was said.

    Args:
        number: 1: the agent learns; 2: it remembers.
        uri: of its memories.
        app: the name of the agent's app.
        user: who speaks.
        model: of the agent; empty: a rehearsed one.

    Raises:
        KagentMemoryError: it failed.
    """
    with asyncio.Runner(loop_factory=new_loop) as runner:
        try:
            return runner.run(_half(number, uri, app, user, model))
        except KagentMemoryError:
            raise
        except Exception as error:  # a client's own may not survive the way between processes
            raise failure(error, f"The demo with {model or 'the rehearsed model'}") from error


async def _half(number: int, uri: str, app: str, user: str, model: str) -> list[str]:
    llm: BaseLlm | str = model or RehearsedModel()
    if model and not model.startswith("gemini-"):
        check_provider(model)
        from google.adk.models.lite_llm import LiteLlm  # takes a second to import

        llm = LiteLlm(model=model)
    agent = LlmAgent(name="assistant", model=llm, instruction="Be brief.")
    whole = App(name=app, root_agent=enable_memory(agent, auto_save=None), plugins=[MemoryPlugin()])
    async with KagentMemoryService(uri, llm=None if model else False) as service:
        # opened before the first turn, which waits for memory only so long
        await service.memories.stats(service.scope(app, user))
        chat = Chat(whole, service, user=user)
        lines: list[str] = []
        for text in LEARN if number == 1 else ASK:
            events = await chat.say(text)
            lines += [f"   you:       {text}", *_heard(events)]
        session = await chat.session()
        await service.end_session(session)
        await service.drain()
        if number == 2:
            lines += ["-- process 2, by the verbs", *await _by_verbs(service, session)]
    return [f"-- process {number}, session {session.id[:8]}", *lines]


def _heard(events: Iterable[Event]) -> list[str]:
    lines: list[str] = []
    for event in events:
        for part in (event.content.parts if event.content else None) or []:
            if call := part.function_call:
                lines.append(f"   tool:      {call.name}({json.dumps(call.args)})")
            if part.text:
                lines.append(f"   assistant: {part.text.strip()}")
    return lines


async def _by_verbs(service: KagentMemoryService, session: Session) -> list[str]:
    memories, scope = service.memories, service.scope(session.app_name, session.user_id)
    tea = await memories.recall(scope, ASK[0], limit=1)
    lines = [f'   recall:    "{hit.memory.content}"' for hit in tea]
    party = "When is the surprise party for Grace?"
    for hit in await memories.recall(scope, party, limit=1):
        content = hit.memory.content
        await memories.forget(scope, [hit.memory.id], who=session.user_id)
        await service.add_session_to_memory(session)
        await service.drain()
        back = [other.memory.content for other in await memories.recall(scope, party)]
        lines.append(
            f'   forget:    "{content}"; its session, saved again, brought back '
            f"{back.count(content)}"
        )
    for receipt in await memories.receipts():
        at = receipt.at.isoformat(timespec="minutes")
        lines.append(
            f"   receipt:   {receipt.memories} memory, {at}, by {receipt.who}: {receipt.digest}"
        )
    return lines
