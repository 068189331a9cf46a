"""Watch an agent learn in one process and remember in another, offline and without a key.

`--store postgres` keeps the memories in a private PostgreSQL (the extra [pgserver]); `--model`
names a real model: one of Gemini's, or any of LiteLLM's (the extra [litellm]).
"""

import argparse
import asyncio
import json
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.sessions.session import Session

from kagent_memory import KagentMemoryService, MemoryPlugin, enable_memory
from kagent_memory.errors import KagentMemoryError
from kagent_memory.testing import Chat, RehearsedModel

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


def assistant(model: str) -> App:
    """Return an app whose agent saves what the user asks it to remember, and answers questions."""
    llm = model or RehearsedModel()
    if model and not model.startswith("gemini-"):
        from google.adk.models.lite_llm import LiteLlm

        llm = LiteLlm(model=model)
    agent = enable_memory(
        LlmAgent(name="assistant", model=llm, instruction="Be brief."), auto_save=None
    )
    return App(name=APP, root_agent=agent, plugins=[MemoryPlugin()])


async def talk(number: int, uri: str, model: str) -> None:
    """Have one conversation, print it, and wait until its session is remembered."""
    async with KagentMemoryService(uri, llm=None if model else False) as service:
        # open the store before the first turn, whose wait for memory is limited
        await service.memories.stats(service.scope(APP, USER))
        chat = Chat(assistant(model), service, user=USER)
        lines = []
        for text in LEARN if number == 1 else ASK:
            lines.append(f"   you:       {text}")
            for event in await chat.say(text):
                for part in (event.content.parts if event.content else None) or []:
                    if call := part.function_call:
                        lines.append(f"   tool:      {call.name}({json.dumps(call.args)})")
                    if part.text:
                        lines.append(f"   assistant: {part.text.strip()}")
        session = await chat.session()
        print(f"-- process {number}, session {session.id[:8]}", *lines, sep="\n", flush=True)
        await service.end_session(session)
        await service.drain()
        if number == 2:
            await use_verbs(service, session)


async def use_verbs(service: KagentMemoryService, session: Session) -> None:
    """Recall and forget without an agent; show that a forgotten memory stays away."""
    print("-- process 2, by the verbs")
    memories, scope = service.memories, service.scope(APP, USER)
    for hit in await memories.recall(scope, ASK[0], limit=1):
        print(f'   recall:    "{hit.memory.content}"')
    party = "When is the surprise party for Grace?"
    for hit in await memories.recall(scope, party, limit=1):
        content = hit.memory.content
        await memories.forget(scope, [hit.memory.id], who=USER)
        await service.add_session_to_memory(session)
        await service.drain()
        contents = [other.memory.content for other in await memories.recall(scope, party)]
        print(
            f'   forget:    "{content}"; its session, saved again, brought back '
            f"{contents.count(content)}"
        )
    for receipt in await memories.receipts():
        at = receipt.at.isoformat(timespec="minutes")
        print(f"   receipt:   {receipt.memories} memory, {at}, by {receipt.who}: {receipt.digest}")


def run(number: int, uri: str, model: str) -> None:
    """Run one half of the demo in this process; a failure is one line."""
    try:
        asyncio.run(talk(number, uri, model))
    except (KagentMemoryError, ImportError) as error:  # of an extra that --model needs
        sys.exit(str(error))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--store", choices=("libsql", "postgres"), default="libsql")
    parser.add_argument("--model", default="", help="the agent's model (default: a rehearsed one)")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kagent-memory-demo-")).resolve()
    is_file = options.store == "libsql"
    uri = f"libsql:///{folder}/memory.db" if is_file else f"pgserver:///{folder}/postgres"
    print(f"Two processes, one memory: {uri}\n", flush=True)
    for number in (1, 2):
        # only the store passes anything from one process to the next
        process = get_context("spawn").Process(target=run, args=(number, uri, options.model))
        process.start()
        process.join()
        if process.exitcode:
            sys.exit(process.exitcode)
    program = Path(sys.executable).with_name("kagent-memory")
    print(f"\nThe memories are in {folder}; look at them with:")
    print(f"   {program} list --uri {uri} --app {APP} --user {USER}")


if __name__ == "__main__":
    main()
