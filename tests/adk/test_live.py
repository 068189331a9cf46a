"""Live mode over a fake connection: tools on another loop, voice turns, and the end of the
connection.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.agents.run_config import RunConfig, ToolThreadPoolConfig
from google.adk.models.base_llm import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from kagent_memory import (
    KagentMemoryService,
    LoadMemoryTool,
    PrefetchMemoryTool,
    SaveMemoryTool,
    enable_memory,
)

from .scripted import APP, USER, Chat, assistant, call, contents


class Connection(BaseLlmConnection):
    """Says what the model says; the answers of tools arrive as contents."""

    def __init__(self, model: Live) -> None:
        self.model = model
        self.answered = asyncio.Event()

    async def send_history(self, history: list[types.Content]) -> None: ...

    async def send_content(self, content: types.Content) -> None:
        for part in content.parts or []:
            if part.function_response:
                self.model.answers.append(dict(part.function_response.response or {}))
        if len(self.model.answers) >= self.model.expected:
            self.answered.set()

    async def send_realtime(self, blob: Any) -> None: ...

    async def receive(self) -> AsyncGenerator[LlmResponse, None]:
        if self.model.responses:
            for response in self.model.responses:
                yield response
            self.model.responses = []
        elif not self.answered.is_set():
            await self.answered.wait()
            yield LlmResponse(content=types.Content(role="model", parts=[call("task_completed")]))
            self.model.queue.close()

    async def close(self) -> None: ...


class Live(BaseLlm):
    model: str = "live"
    responses: list[Any]
    queue: Any
    expected: int = 1
    answers: list[Any] = []  # noqa: RUF012 pydantic copies it

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="ok")]))

    @asynccontextmanager
    async def connect(self, llm_request: Any) -> AsyncIterator[BaseLlmConnection]:
        yield Connection(self)


def heard(text: str) -> LlmResponse:
    return LlmResponse(input_transcription=types.Transcription(text=text, finished=True))


def task_completed() -> str:
    """Ends the connection."""
    return "ok"


async def live(
    service: KagentMemoryService, responses: list[LlmResponse], tools: list[Any], **config: Any
) -> list[Any]:
    voice: dict[str, Any] = {"streaming_mode": "bidi", "response_modalities": ["AUDIO"], **config}
    queue = LiveRequestQueue()
    model = Live(responses=responses, queue=queue, answers=[])
    chat = Chat(enable_memory(assistant(model, tools=[*tools, task_completed])), service)
    session = await chat.sessions.create_session(app_name=APP, user_id=USER)
    run = chat.runner.run_live(
        user_id=USER,
        session_id=session.id,
        live_request_queue=queue,
        run_config=RunConfig(**voice),
    )

    async def drive() -> None:
        async for _ in run:
            pass

    await asyncio.wait_for(drive(), 120)
    return model.answers


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
async def test_live_tools_on_another_loop_use_the_same_service(
    service: KagentMemoryService,
):
    """A tool that ADK runs in a thread with a loop of its own saves to the same service."""
    places: set[int] = set()

    class Placed(SaveMemoryTool):
        async def run_async(self, **given: Any) -> Any:
            places.add(threading.get_ident())
            return await super().run_async(**given)

    asked = types.Content(
        role="model", parts=[call("save_memory", content="Ada prefers dark mode")]
    )
    elsewhere = ToolThreadPoolConfig()
    answers = await live(
        service, [LlmResponse(content=asked)], [Placed()], tool_thread_pool_config=elsewhere
    )
    assert answers[0]["status"] == "saved"
    assert threading.get_ident() not in places
    assert await contents(service) == ["Ada prefers dark mode"]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
async def test_voice_turns_are_saved_when_a_live_session_ends(
    service: KagentMemoryService,
):
    """Voice turns of a live session are saved when its connection ends."""
    asked = types.Content(role="model", parts=[call("load_memory", query="parrot")])
    responses = [heard("My parrot is called Grace"), LlmResponse(content=asked)]
    await live(service, responses, [PrefetchMemoryTool(), LoadMemoryTool()])
    assert await service.drain() is True
    assert "My parrot is called Grace" in await contents(service)
