"""Run the smallest agent that remembers: two sessions, one memory.

MODEL=gemini-2.5-flash uses a real model.
"""

import asyncio
import os

from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from kagent_memory import KagentMemoryService, enable_memory
from kagent_memory.testing import RehearsedModel

MODEL = os.environ.get("MODEL") or RehearsedModel()


async def ask(runner: Runner, session_id: str, text: str) -> str:
    """Send one message to the agent and return its answer."""
    message = types.Content(role="user", parts=[types.Part(text=text)])
    answer = ""
    async for event in runner.run_async(user_id="ada", session_id=session_id, new_message=message):
        for part in (event.content.parts if event.content else None) or []:
            answer = part.text or answer
    return answer


async def main() -> None:
    sessions = InMemorySessionService()
    async with KagentMemoryService(
        "libsql:///:memory:", llm=None if os.environ.get("MODEL") else False
    ) as memory:
        agent = enable_memory(LlmAgent(name="assistant", model=MODEL, instruction="Help."))
        runner = Runner(
            app_name="minimal", agent=agent, session_service=sessions, memory_service=memory
        )
        first = await sessions.create_session(app_name="minimal", user_id="ada")
        print(await ask(runner, first.id, "Please remember that my favourite tea is oolong."))
        second = await sessions.create_session(app_name="minimal", user_id="ada")
        print(await ask(runner, second.id, "Which tea is my favourite?"))


if __name__ == "__main__":
    asyncio.run(main())
