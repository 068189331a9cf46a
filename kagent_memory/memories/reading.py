"""Helpers for callers who read memories through the verbs, here or on a server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress

from ..errors import NotFound
from ..records import Filter, Hit, Memory, Scope
from .memories import Memories

PAGE = 1000  # memories read at once


async def each_memory(
    memories: Memories, scope: Scope, *, filter: Filter = Filter()
) -> AsyncGenerator[Memory]:
    """Yield the memories of a scope, newest first."""
    cursor: str | None = None
    while True:
        page = await memories.list(scope, filter=filter, limit=PAGE, cursor=cursor)
        for memory in page.memories:
            yield memory
        if not (cursor := page.cursor):
            return


async def existing(memories: Memories, scope: Scope, ids: Iterable[str]) -> list[Memory]:
    """Return the memories among these ids that exist, superseded ones included."""
    stored = list[Memory]()
    for id in ids:
        with suppress(NotFound):  # it has expired
            stored.append(await memories.get(scope, id, superseded=True))
    return stored


def sentences_of(hit: Hit) -> list[str]:
    """Say in sentences how a memory was found."""
    legs = hit.why.get("legs", ())
    sentences = list[str]()
    if "text" in legs:
        sentences.append("It shares words with your question.")
    if hit.cosine is not None:
        sentences.append(f"Its meaning is {hit.cosine:.0%} like your question's.")
    if "date" in legs:
        sentences.append("It is from the time that your question names.")
    return sentences or ["What stands beside it in its conversation matches your question."]
