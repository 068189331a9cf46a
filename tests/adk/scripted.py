"""A model whose answers are written down beforehand, and short ways to run an agent with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from pydantic import Field

APP, USER = "app", "ada"


def call(name: str, **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


class Scripted(BaseLlm):
    """Answers with the next step: text, a function call, a list of both, an error, or a function of the request."""

    model: str = "scripted"
    steps: list[Any] = Field(default_factory=list)
    requests: list[Any] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.requests.append(seen(llm_request))
        step: Any = self.steps.pop(0) if self.steps else "ok"
        if isinstance(step, Callable):
            step = step(llm_request)
        if isinstance(step, BaseException):
            raise step
        parts = [
            types.Part(text=one) if isinstance(one, str) else one
            for one in (step if isinstance(step, list) else [step])
        ]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def scripted(*steps: Any) -> Scripted:
    return Scripted(steps=list(steps), requests=[])


def seen(request: LlmRequest) -> LlmRequest:
    """The request as it was when the model got it."""
    contents = [content.model_copy(deep=True) for content in request.contents]
    return request.model_copy(update={"contents": contents, "config": request.config.model_copy(deep=True)})


def texts(request: LlmRequest) -> list[str]:
    return [part.text for content in request.contents for part in content.parts or [] if part.text]


def system(request: LlmRequest) -> str:
    return str(request.config.system_instruction or "")


def declarations(request: LlmRequest) -> list[str]:
    return [
        declaration.model_dump_json()
        for tool in request.config.tools or []
        for declaration in tool.function_declarations or []
    ]


def responses(request: LlmRequest) -> list[dict[str, Any]]:
    """The answers of tools in a request, oldest first."""
    parts = [part for content in request.contents for part in content.parts or []]
    return [dict(part.function_response.response or {}) for part in parts if part.function_response]


def said(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


class Chat:
    """One session of one agent."""

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
        self.user = user
        self.sessions = sessions or InMemorySessionService()
        self.runner = Runner(
            app=App(name=app, root_agent=agent, plugins=plugins or [], **(app_options or {})),
            session_service=self.sessions,
            memory_service=service,
        )
        self.app = app
        self.session_id = ""

    async def say(self, text: str, **options: Any) -> list[Event]:
        if not self.session_id:
            session = await self.sessions.create_session(app_name=self.app, user_id=self.user)
            self.session_id = session.id
        run = self.runner.run_async(user_id=self.user, session_id=self.session_id, new_message=said(text), **options)
        return [event async for event in run]

    async def session(self) -> Any:
        found = await self.sessions.get_session(app_name=self.app, user_id=self.user, session_id=self.session_id)
        assert found is not None
        return found


def assistant(model: BaseLlm, **options: Any) -> LlmAgent:
    return LlmAgent(model=model, **{"name": "assistant", "instruction": "Help.", **options})
