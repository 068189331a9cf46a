"""Test an agent: scripted models, a chat with the agent, and a memory service in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, TypeAlias

from google.adk.agents import BaseAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from google.genai import types
from pydantic import Field

from ..adk.service import KagentMemoryService
from ..errors import ModelError
from ..models.embedding import Embedder
from ..models.llm import Llm
from ..settings import MemorySettings

__all__ = ["Chat", "RehearsedModel", "ScriptedModel", "call", "in_memory_service"]

APP, USER = "app", "ada"
Reply: TypeAlias = str | types.Part | Sequence[str | types.Part]
Step: TypeAlias = Reply | BaseException | Callable[[LlmRequest], Reply | BaseException]


def call(name: str, **args: Any) -> types.Part:
    """Return a tool call as a step of `ScriptedModel`."""
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


class ScriptedModel(BaseLlm):
    """An ADK model that answers with one step after the other and records its requests.

    A step is a text, a tool call (`call`), a list of both, an exception to raise, or a function of
    the request that returns one of these.

    Attributes:
        steps: the remaining steps.
        afterwards: the step to repeat when none remains; None: raise ModelError.
        requests: copies of all requests, oldest first.
    """

    model: str = "scripted"
    steps: list[Any] = Field(default_factory=list)
    afterwards: Any = None
    requests: list[LlmRequest] = Field(default_factory=list[LlmRequest])

    def __init__(self, *steps: Step, **fields: Any) -> None:
        values: dict[str, Any] = {"steps": list(steps), **fields}
        super().__init__(**values)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the next step.

        Raises:
            ModelError: no step remains.
        """
        contents = [content.model_copy(deep=True) for content in llm_request.contents]
        copies = {"contents": contents, "config": llm_request.config.model_copy(deep=True)}
        self.requests.append(llm_request.model_copy(update=copies))
        if not self.steps and self.afterwards is None:
            raise ModelError(
                f"The script of the model is at its end, and request {len(self.requests)} came."
            )
        step: Any = self.steps.pop(0) if self.steps else self.afterwards
        if callable(step):
            step = step(llm_request)
        if isinstance(step, BaseException):
            raise step
        answers = [step] if isinstance(step, (str, types.Part)) else step
        parts = [types.Part(text=part) if isinstance(part, str) else part for part in answers]
        # ADK warns at every answer without it
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=0, candidates_token_count=0
        )
        content = types.Content(role="model", parts=parts)
        yield LlmResponse(content=content, usage_metadata=usage)


def _rehearsed(request: LlmRequest) -> str | types.Part:
    """Reply to the last content, or to the request that a tool's answer belongs to."""
    parts = [content.parts or [] for content in request.contents]
    texts = [" ".join(part.text for part in group if part.text) for group in parts]
    prompt = next(filter(None, reversed(texts)), "")
    wish = prompt.partition("remember that ")[2]
    corrected = prompt.partition("remember instead that ")[2]
    answers = [part.function_response.response for part in parts[-1] if part.function_response]
    if not answers:
        if wish:
            return call("save_memory", content=wish)
        if "tea" in prompt and prompt.endswith("?") and "oolong" in " ".join(texts[:-1]):
            return "Oolong: I found it in what was prefetched for this turn."
        asks = corrected or prompt.endswith("?")
        return call("load_memory", query=corrected or prompt) if asks else "I see."
    answer = answers[0] or {}
    memories = answer.get("memories")
    if memories and corrected:
        # a fact rather than the request as it was said
        old = min(memories, key=lambda memory: "remember" in memory["text"])
        return call("save_memory", content=corrected, replaces=old["id"])
    if memories:
        return f"I looked it up: {memories[0]['text']}"
    if answer.get("status") == "saved":
        return "Noted."
    return str(answer.get("error") or "I remember nothing of that.")


class RehearsedModel(ScriptedModel):
    """A stand-in for a language model that saves and replaces what it is told to, looks up what it
    is asked, and says what it found.
    """

    model: str = "rehearsed"
    afterwards: Any = _rehearsed


class Chat:
    """One session of an agent with a memory service.

    Args:
        agent: the agent, or an app with its plugins.
        memory: the memory service, or None.
        user: the user who speaks.
        sessions: the session service; default: in memory.
    """

    def __init__(
        self,
        agent: BaseAgent | App,
        memory: BaseMemoryService | None,
        *,
        user: str = USER,
        sessions: BaseSessionService | None = None,
    ) -> None:
        app = agent if isinstance(agent, App) else App(name=APP, root_agent=agent)
        self.app, self.user, self.session_id = app.name, user, ""
        self.sessions = sessions or InMemorySessionService()
        self.runner = Runner(app=app, session_service=self.sessions, memory_service=memory)

    async def say(self, text: str, *, run_config: RunConfig | None = None) -> list[Event]:
        """Say something to the agent and return the events of the turn.

        The first call creates the session.
        """
        if not self.session_id:
            session = await self.sessions.create_session(app_name=self.app, user_id=self.user)
            self.session_id = session.id
        message = types.Content(role="user", parts=[types.Part(text=text)])
        run = self.runner.run_async(
            user_id=self.user,
            session_id=self.session_id,
            new_message=message,
            run_config=run_config,
        )
        return [event async for event in run]

    async def ask(self, text: str) -> str:
        """Say something to the agent and return the last text of its answer."""
        events = await self.say(text)
        texts = [
            part.text
            for event in events
            if event.content
            for part in event.content.parts or []
            if part.text
        ]
        return texts[-1] if texts else ""

    async def session(self) -> Session:
        """Return the session as it is stored."""
        session = await self.sessions.get_session(
            app_name=self.app, user_id=self.user, session_id=self.session_id
        )
        if session is None:
            raise LookupError("Nothing was said in this chat yet.")
        return session


def in_memory_service(
    *, embedding: Embedder | None = None, llm: Llm | BaseLlm | bool = False, **options: Any
) -> KagentMemoryService:
    """Return a memory service that writes no files, calls no model and reads no environment
    variables.

    Args:
        embedding: an embedder such as `HashEmbedder()`; None: keyword search.
        llm: a model such as `ScriptedLlm(…)`; False: store turns as they are said.
        **options: options of `KagentMemoryService`, such as `clock=FrozenClock()` or `ttl_days=30`.
    """
    return KagentMemoryService(
        "libsql:///:memory:", embedding=embedding, llm=llm, settings=MemorySettings(), **options
    )
