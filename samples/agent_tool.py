"""Give memory to an agent used as a tool.

ADK gives such an agent a temporary memory service; `memory_service=` passes the real one.
"""

import asyncio
import os

from google.adk.agents import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from kagent_memory import KagentMemoryService, LoadMemoryTool, SaveMemoryTool
from kagent_memory.testing import RehearsedModel, ScriptedModel, call

MODEL = os.environ.get("MODEL")
TEXTS = ("Please remember that the spare key is with Grace.", "Where is the spare key?")


def rehearsed_desk() -> ScriptedModel:
    """Return a model that hands everything to the archivist and repeats its answer."""

    def answer(request: LlmRequest) -> str:
        return request.contents[-1].parts[0].function_response.response["result"]

    steps = [step for text in TEXTS for step in (call("archivist", request=text), answer)]
    return ScriptedModel(*steps)


async def main() -> None:
    sessions = InMemorySessionService()
    async with KagentMemoryService("libsql:///:memory:", llm=None if MODEL else False) as memory:
        archivist = LlmAgent(
            name="archivist",
            model=MODEL or RehearsedModel(),
            description="Keeps and finds notes.",
            tools=[SaveMemoryTool(memory_service=memory), LoadMemoryTool(memory_service=memory)],
        )
        root = LlmAgent(
            name="desk",
            model=MODEL or rehearsed_desk(),
            instruction="Ask the archivist for everything.",
            tools=[AgentTool(agent=archivist)],
        )
        runner = Runner(
            app_name="desk", agent=root, session_service=sessions, memory_service=memory
        )
        session = await sessions.create_session(app_name="desk", user_id="ada")
        for text in TEXTS:
            message = types.Content(role="user", parts=[types.Part(text=text)])
            async for event in runner.run_async(
                user_id="ada", session_id=session.id, new_message=message
            ):
                for part in (event.content.parts if event.content else None) or []:
                    if part.text:
                        print(f"{event.author}: {part.text}")


if __name__ == "__main__":
    asyncio.run(main())
