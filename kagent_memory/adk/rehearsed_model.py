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
        reply = self._reply(llm_request.contents)
        part = types.Part(text=reply) if isinstance(reply, str) else reply
        # without it ADK warns at every answer
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=0, candidates_token_count=0
        )
        content = types.Content(role="model", parts=[part])
        yield LlmResponse(content=content, usage_metadata=usage)

    def _reply(self, contents: list[types.Content]) -> types.Part | str:
        parts = [content.parts or [] for content in contents]
        texts = [" ".join(part.text for part in each if part.text) for each in parts]
        said = next(filter(None, reversed(texts)), "")
        _, _, corrected = said.partition("remember instead that ")
        _, _, wish = said.partition("remember that ")
        for answer in (part.function_response for part in parts[-1] if part.function_response):
            found = answer.response or {}
            if corrected and (memories := found.get("memories")):
                # not the wish as it was said, where there is a fact
                facts = [one for one in memories if "remember" not in one["text"]]
                old = [*facts, *memories][0]["id"]
                return _call("save_memory", content=corrected, replaces=old)
            return _read_out(found)
        if wish:
            return _call("save_memory", content=wish)
        if not (corrected or said.endswith("?")):
            return "I see."
        if "oolong" in " ".join(texts[:-1]) and not corrected:
            return "Oolong: I found it in what was prefetched for this turn."
        return _call("load_memory", query=corrected or said)


def _call(name: str, **args: str) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


def _read_out(answer: dict[str, Any]) -> str:
    if memories := answer.get("memories"):
        return f"I looked it up: {memories[0]['text']}"
    if answer.get("status") == "saved":
        return "Noted."
    return str(answer.get("error") or "I remember nothing of that.")
