"""Short ways to run an agent with a scripted model, and to read what the model was asked."""

from __future__ import annotations

from typing import Any

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.genai import types

from kagent_memory.testing import ScriptedModel, agents, call

__all__ = [
    "APP",
    "USER",
    "Chat",
    "ScriptedModel",
    "assistant",
    "call",
    "declarations",
    "responses",
    "said",
    "scripted",
]
__all__ += ["system", "texts"]

APP, USER = "app", "ada"


def scripted(*steps: Any) -> ScriptedModel:
    return ScriptedModel(*steps, afterwards="ok")


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


def assistant(model: BaseLlm, **options: Any) -> LlmAgent:
    return LlmAgent(model=model, **{"name": "assistant", "instruction": "Help.", **options})
