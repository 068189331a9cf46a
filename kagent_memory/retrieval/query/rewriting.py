"""What a language model makes of a query, when asked to: within its time, and never needed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pydantic import BaseModel

from ...errors import ModelError
from ...models.llm import Answer, Llm
from ...models.prompts import filled, prompt
from ...models.prompts.escaping import escaped, unescaped
from .completion import EARLIER_TURNS

MAX_ANSWER_CHARS = 2_000


class SearchQuery(BaseModel):
    """What the model answers to a rewrite."""

    query: str


class Note(BaseModel):
    """What the model answers to a question for a hypothetical note."""

    note: str


async def rewrite(llm: Llm, text: str, earlier: Sequence[str] = (), *, timeout_seconds: float) -> tuple[str, str]:
    """The text as a query that stands alone, and ""; or the text itself, and why the model did not help."""
    asked = filled(
        prompt("rewrite_query"), message=escaped(text), earlier="\n".join(map(escaped, earlier[-EARLIER_TURNS:]))
    )
    answer, reason = await _ask(llm, asked, SearchQuery, timeout_seconds)
    return (_usable(answer.query) or text) if answer else text, reason and f"rewrite: {reason}"


async def hypothetical(llm: Llm, text: str, *, timeout_seconds: float) -> tuple[str | None, str]:
    """A note that would answer the text, to be embedded beside it, and ""; or None, and why there is none.

    Source: Gao et al. 2022, "Precise Zero-Shot Dense Retrieval without Relevance Labels" (HyDE).
    """
    answer, reason = await _ask(
        llm, filled(prompt("hypothetical_answer"), message=escaped(text)), Note, timeout_seconds
    )
    return (_usable(answer.note) or None) if answer else None, reason and f"hyde: {reason}"


async def _ask(llm: Llm, asked: str, schema: type[Answer], timeout_seconds: float) -> tuple[Answer | None, str]:
    try:
        async with asyncio.timeout(timeout_seconds):
            return await llm.complete(asked, schema=schema), ""
    except TimeoutError:
        return None, f"no answer within {timeout_seconds:g} s"
    except ModelError as error:
        return None, str(error)


def _usable(answer: str) -> str:
    """A model's answer as an embedder and a database take it: valid Unicode without NUL, not endless."""
    valid = unescaped(answer[:MAX_ANSWER_CHARS]).encode(errors="replace").decode()
    return valid.replace("\0", " ").strip()
