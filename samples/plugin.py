"""Give memory to a whole app with one plugin.

The root agent transfers to a specialist, and the plugin saves that conversation too.
"""

import asyncio
import os

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from kagent_memory import AutoSave, KagentMemoryService, MemoryPlugin, enable_memory
from kagent_memory.testing import RehearsedModel

MODEL = os.environ.get("MODEL")


class Receptionist(BaseLlm):
    """A stand-in for a model that transfers everything to the specialist."""

    model: str = "receptionist"

    async def generate_content_async(self, llm_request, stream=False):
        call = types.FunctionCall(name="transfer_to_agent", args={"agent_name": "billing"})
        yield LlmResponse(
            content=types.Content(role="model", parts=[types.Part(function_call=call)])
        )


async def main() -> None:
    specialist = LlmAgent(
        name="billing", model=MODEL or RehearsedModel(), description="Knows invoices."
    )
    root = LlmAgent(
        name="desk", model=MODEL or Receptionist(), instruction="Help.", sub_agents=[specialist]
    )
    app = App(
        name="plugin",
        root_agent=enable_memory(root, auto_save=None),
        plugins=[MemoryPlugin(auto_save=AutoSave(every_turns=1))],
    )
    sessions = InMemorySessionService()
    async with KagentMemoryService("libsql:///:memory:", llm=None if MODEL else False) as memory:
        runner = Runner(app=app, session_service=sessions, memory_service=memory)
        session = await sessions.create_session(app_name="plugin", user_id="ada")
        message = types.Content(
            role="user", parts=[types.Part(text="Invoices go to accounts@example.com.")]
        )
        async for event in runner.run_async(
            user_id="ada", session_id=session.id, new_message=message
        ):
            for part in (event.content.parts if event.content else None) or []:
                if part.text:
                    print(f"{event.author}: {part.text}")
        await memory.drain()
        response = await memory.search_memory(
            app_name="plugin", user_id="ada", query="Where do invoices go?"
        )
        for entry in response.memories:
            print(entry.author, "said:", (entry.content.parts or [types.Part(text="")])[0].text)


if __name__ == "__main__":
    asyncio.run(main())
