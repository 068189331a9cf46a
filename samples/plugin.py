"""Memory for a whole app by one plugin: the root hands over to a specialist, and both turns are kept."""

import asyncio
import os

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from kagent_memory import AutoSave, KagentMemoryService, MemoryPlugin, enable_memory
from kagent_memory.adk.demo import RehearsedModel

MODEL = os.environ.get("MODEL") or RehearsedModel()


async def main() -> None:
    specialist = LlmAgent(name="billing", model=MODEL, description="Knows invoices.")
    root = LlmAgent(name="desk", model=MODEL, instruction="Help.", sub_agents=[specialist])
    app = App(
        name="plugin",
        root_agent=enable_memory(root, auto_save=None),
        plugins=[MemoryPlugin(auto_save=AutoSave(every_turns=1))],
    )
    sessions = InMemorySessionService()
    async with KagentMemoryService("libsql:///:memory:", llm=None if os.environ.get("MODEL") else False) as memory:
        runner = Runner(app=app, session_service=sessions, memory_service=memory)
        session = await sessions.create_session(app_name="plugin", user_id="ada")
        message = types.Content(role="user", parts=[types.Part(text="Invoices go to accounts@example.com.")])
        async for _ in runner.run_async(user_id="ada", session_id=session.id, new_message=message):
            pass
        await memory.drain()
        found = await memory.search_memory(app_name="plugin", user_id="ada", query="Where do invoices go?")
        for entry in found.memories:
            print(entry.author, "said:", (entry.content.parts or [types.Part(text="")])[0].text)


if __name__ == "__main__":
    asyncio.run(main())
