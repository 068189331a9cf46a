"""Short ways to run an agent with a scripted model, and to read what the model was asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions.session import Session
from google.genai import types

from kagent_memory import KagentMemoryService, Scope
from kagent_memory.models.prompts.fence import OPENING
from kagent_memory.testing import ScriptedModel, agents
from kagent_memory.testing import call as call

APP, USER = "app", "ada"
SCOPE = Scope("", USER, APP)
REQUEST = "adk_request_confirmation"


def scripted(*steps: Any) -> ScriptedModel:
    return ScriptedModel(*steps, afterwards="ok")


def texts(request: LlmRequest) -> list[str]:
    return [part.text for content in request.contents for part in content.parts or [] if part.text]


def blocks(request: LlmRequest) -> list[str]:
    """The blocks of memory in a request."""
    return [text for text in texts(request) if text.startswith(OPENING)]


def system(request: LlmRequest) -> str:
    return str(request.config.system_instruction or "")


def declarations(request: LlmRequest) -> list[str]:
    return [
        declaration.model_dump_json()
        for tool in request.config.tools or []
        if isinstance(tool, types.Tool)
        for declaration in tool.function_declarations or []
    ]


def responses(request: LlmRequest) -> list[dict[str, Any]]:
    """The answers of tools in a request, oldest first."""
    parts = [part for content in request.contents for part in content.parts or []]
    return [dict(part.function_response.response or {}) for part in parts if part.function_response]


def user_message(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


class Chat(agents.Chat):
    """One session of one agent, in an app with these plugins and options."""

    def __init__(
        self,
        agent: BaseAgent,
        service: Any,
        *,
        plugins: list[Any] | None = None,
        user: str = USER,
        sessions: Any = None,
        app: str = APP,
        app_options: dict[str, Any] | None = None,
    ) -> None:
        whole = App(name=app, root_agent=agent, plugins=plugins or [], **(app_options or {}))
        super().__init__(whole, service, user=user, sessions=sessions)

    @property
    def agent(self) -> Any:
        return self.runner.agent

    @property
    def requests(self) -> list[LlmRequest]:
        """What the agent's model was asked, oldest first."""
        return self.agent.model.requests


def names(agent: Any) -> list[str]:
    """The names of an agent's tools."""
    return [tool.name for tool in agent.tools]


def assistant(model: BaseLlm, **options: Any) -> LlmAgent:
    return LlmAgent(model=model, **{"name": "assistant", "instruction": "Help.", **options})


def talk(service: Any, *steps: Any, tools: Sequence[Any] = (), **options: Any) -> Chat:
    """A chat with an assistant whose model answers with these steps, and with "ok" after them."""
    return Chat(assistant(scripted(*steps), tools=list(tools)), service, **options)


async def contents(service: KagentMemoryService, scope: Scope = SCOPE) -> list[str]:
    """What the memories of a scope say, oldest first."""
    page = await service.memories.list(scope, order="oldest")
    return [memory.content for memory in page.memories]


async def answer_of(tool: Any, service: Any, **args: Any) -> dict[str, Any]:
    """What a tool answers a model that calls it with these arguments."""
    chat = talk(service, call(tool.name, **args), tools=[tool])
    await chat.say("hello there")
    return responses(chat.requests[-1])[-1]


def confirmations(events: list[Event]) -> list[types.FunctionCall]:
    """ADK's requests to a person to confirm something."""
    return [call for event in events for call in event.get_function_calls() if call.name == REQUEST]


async def reply(chat: Chat, id: str | None, response: dict[str, Any]) -> list[Event]:
    """What happens when a client of ADK answers a request to confirm something."""
    part = types.Part(
        function_response=types.FunctionResponse(id=id, name=REQUEST, response=response)
    )
    run = chat.runner.run_async(
        user_id=USER,
        session_id=chat.session_id,
        new_message=types.Content(role="user", parts=[part]),
    )
    return [event async for event in run]


def entry(text: str, **fields: Any) -> MemoryEntry:
    return MemoryEntry(content=types.Content(parts=[types.Part(text=text)]), **fields)


def text_of(entry: MemoryEntry) -> str:
    """The text of an entry that has one part."""
    [part] = entry.content.parts or []
    return part.text or ""


def session_of(*turns: str, id: str = "s1") -> Session:
    """A session in which the user says these."""
    events = [
        Event(
            author="user",
            invocation_id=f"i{number}",
            content=user_message(text),
            timestamp=1_700_000_000 + number,
        )
        for number, text in enumerate(turns)
    ]
    return Session(id=id, app_name=APP, user_id=USER, events=events)
