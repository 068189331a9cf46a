"""A stand-in for a language model: the demo and the samples run offline with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types


class RehearsedModel(BaseLlm):
    """Stand in for a language model: save what it is told to, replace what it is told to remember
    instead, look up what it is asked, say what it read.
    """

    model: str = "rehearsed"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield one reply, decided by the last content alone, or by the wish that it answers."""
        yield response(self._reply(llm_request.contents))

    def _reply(self, contents: list[types.Content]) -> types.Part:
        texts = [
            " ".join(part.text for part in content.parts or [] if part.text) for content in contents
        ]
        corrected = next((text for text in reversed(texts) if text), "").partition(
            "remember instead that "
        )[2]
        last = contents[-1].parts or []
        if answers := [part.function_response for part in last if part.function_response]:
            answer = answers[0].response or {}
            if corrected and (memories := answer.get("memories")):
                facts = [
                    memory for memory in memories if "remember" not in memory["text"]
                ]  # not the wish as it was said
                return _calls(
                    "save_memory", content=corrected, replaces=[*facts, memories[0]][0]["id"]
                )
            return types.Part(text=_read_out(answer))
        if corrected:
            return _calls("load_memory", query=corrected)
        if wish := texts[-1].partition("remember that ")[2]:
            return _calls("save_memory", content=wish)
        if not texts[-1].endswith("?"):
            return types.Part(text="I see.")
        if "oolong" in " ".join(texts[:-1]):
            return types.Part(text="Oolong: I found it in what was prefetched for this turn.")
        return _calls("load_memory", query=texts[-1])


def _calls(name: str, **args: str) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


def response(part: types.Part) -> LlmResponse:
    """Return a model's answer of one part."""
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=0, candidates_token_count=0
    )
    return LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=usage)


def _read_out(answer: dict[str, Any]) -> str:
    if memories := answer.get("memories"):
        return f"I looked it up: {memories[0]['text']}"
    if answer.get("status") == "saved":
        return "Noted."
    return str(answer.get("error") or "I remember nothing of that.")
