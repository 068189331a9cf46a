"""Live mode over a fake connection: voice turns, a tool's answer, and the end of the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.agents.run_config import RunConfig
from google.adk.models.base_llm import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from kagent_memory import (
    KagentMemoryService,
    LoadMemoryTool,
    PrefetchMemoryTool,
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
        if any(part.function_response for part in content.parts or []):
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


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
async def test_voice_turns_are_saved_when_a_live_session_ends(service: KagentMemoryService):
    """Voice turns of a live session are saved when its connection ends."""
    tool_call = types.Content(role="model", parts=[call("load_memory", query="parrot")])
    responses = [heard("My parrot is called Grace"), LlmResponse(content=tool_call)]
    queue = LiveRequestQueue()
    model = Live(responses=responses, queue=queue)
    tools = [PrefetchMemoryTool(), LoadMemoryTool(), task_completed]
    chat = Chat(enable_memory(assistant(model, tools=tools)), service)
    session = await chat.sessions.create_session(app_name=APP, user_id=USER)
    config: dict[str, Any] = {"streaming_mode": "bidi", "response_modalities": ["AUDIO"]}
    async with asyncio.timeout(120):
        async for _ in chat.runner.run_live(
            user_id=USER,
            session_id=session.id,
            live_request_queue=queue,
            run_config=RunConfig(**config),
        ):
            pass
    assert await service.drain() is True
    assert "My parrot is called Grace" in await contents(service)
