"""What a language model makes of a query, when asked to: within its time, and never needed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pydantic import BaseModel

from ...errors import ModelError
from ...models.llm import Llm
from ...models.prompts import filled, prompt
from ...models.prompts.escaping import escaped, unescaped
from .completion import EARLIER_TURNS

MAX_ANSWER_CHARS = 2_000


class SearchQuery(BaseModel):
    """What the model answers to a rewrite."""

    query: str


async def rewrite(llm: Llm, text: str, earlier: Sequence[str] = (), *, timeout_seconds: float) -> tuple[str, str]:
    """The text as a query that stands alone, and ""; or the text itself, and why the model did not help."""
    asked = filled(
        prompt("rewrite_query"), message=escaped(text), earlier="\n".join(map(escaped, earlier[-EARLIER_TURNS:]))
    )
    try:
        async with asyncio.timeout(timeout_seconds):
            answer = await llm.complete(asked, schema=SearchQuery)
    except TimeoutError:
        return text, f"rewrite: no answer within {timeout_seconds:g} s"
    except ModelError as error:
        return text, f"rewrite: {error}"
    # as an embedder and a database take it: valid Unicode without NUL, not endless
    query = unescaped(answer.query[:MAX_ANSWER_CHARS]).encode(errors="replace").decode()
    return query.replace("\0", " ").strip() or text, ""
