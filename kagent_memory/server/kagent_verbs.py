"""kagent's memory contract, whatever carries it: HTTP for kagent 0.8 to 0.10, gRPC for those after.

kagent's server knows no tenants: all of it lives in the server's own tenant, or in the token's. An
agent's name is also known by its form with `_` for `-`: reads and deletes go over the union of
those two whole scopes.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from ..concurrency import run_in_thread
from ..memories import Memories
from ..records import Memory, Scope
from ..stores.base import external_name
from .auth import Caller
from .kagent_wire import (
    DIMENSIONS,
    Named,
    Search,
    StoredItem,
    batch_of,
    found,
    item_of,
    listed,
    named_of,
    search_of,
)

EMBEDDING_SPACE = external_name(DIMENSIONS)
LIST_PAGE = 1000
SORTED_CHARS = 10  # what sorting one memory costs, as `run_in_thread` counts


def names(agent_name: str) -> tuple[str, ...]:
    """The agent's name, and its form with underscores when that differs."""
    return tuple(dict.fromkeys((agent_name, agent_name.replace("-", "_"))))


def scope_of(memories: Memories, caller: Caller, agent_name: str, user_id: str) -> Scope:
    """The scope of an agent and a user in the caller's tenant; an agent is also known by its form
    with underscores.

    Raises:
        NotFound: it is not the caller's.
    """
    tenant = memories.settings.tenant if caller.tenant is None else caller.tenant
    if caller.app is not None and agent_name in names(caller.app):
        caller = replace(caller, app=agent_name)
    return caller.checked(Scope(tenant, user_id, agent_name))


def scopes_of(memories: Memories, caller: Caller, asked: Named | Search) -> list[Scope]:
    """Return the scopes of an agent's names and a user.

    Raises:
        NotFound: one is not the caller's.
    """
    return [scope_of(memories, caller, name, asked.user_id) for name in names(asked.agent_name)]


async def add(memories: Memories, caller: Caller, item: StoredItem) -> dict[str, Any]:
    """Store one memory."""
    return {"id": (await _store(memories, caller, [item]))[0]}


async def add_batch(
    memories: Memories, caller: Caller, items: Sequence[StoredItem]
) -> dict[str, Any]:
    """Store 1 to 50 memories; those of one agent and user whole or not at all."""
    return {"count": len(await _store(memories, caller, items))}


async def _store(memories: Memories, caller: Caller, items: Sequence[StoredItem]) -> list[str]:
    by_scope: dict[Scope, list[StoredItem]] = {}
    for one in items:
        by_scope.setdefault(scope_of(memories, caller, one.agent_name, one.user_id), []).append(one)
    parts = copy(memories.parts)
    # the contract bounds no content, so the request does
    parts.settings = replace(parts.settings, max_content_bytes=sys.maxsize)
    unbounded = Memories(parts)
    ids: list[str] = []
    for scope, group in by_scope.items():
        ids += await unbounded.add(
            scope,
            [one.fact() for one in group],
            embedding=[one.vector for one in group],
            embedding_space=EMBEDDING_SPACE,
            who="kagent",
        )
    return ids


async def search(memories: Memories, caller: Caller, wanted: Search) -> dict[str, Any]:
    """Find the nearest memories by cosine; exact for every user, however crowded the table."""
    scopes = scopes_of(memories, caller, wanted)
    hits = [
        (cosine, memory, scope)
        for scope in scopes
        for memory, cosine in await memories.parts.caller_vectors.nearest(
            scope, wanted.vector, limit=wanted.limit
        )
    ]
    hits.sort(key=lambda hit: (-hit[0], hit[1].id))
    # kagent's order of things: the limit first, then the floor; but only what is handed over counts
    # as delivered
    kept = [
        hit for hit in hits[: wanted.limit] if not wanted.min_score or hit[0] >= wanted.min_score
    ]
    for one in scopes:
        ids = [memory.id for _, memory, scope in kept if scope == one]
        memories.parts.deliveries.count(one, retrieved=ids, delivered=ids)
    return {"memories": [found(memory, cosine) for cosine, memory, _ in kept]}


async def list_all(memories: Memories, caller: Caller, asked: Named) -> dict[str, Any]:
    """Return all memories of an agent and a user, the most delivered first."""
    rows: list[Memory] = []
    for scope in scopes_of(memories, caller, asked):
        cursor, is_first = None, True
        while is_first or cursor is not None:
            page = await memories.list(scope, limit=LIST_PAGE, cursor=cursor)
            rows += page.memories
            cursor, is_first = page.cursor, False
    return {"memories": await run_in_thread(len(rows) * SORTED_CHARS, _listed, rows)}


def _listed(rows: Sequence[Memory]) -> list[dict[str, Any]]:
    return [listed(one) for one in sorted(rows, key=lambda one: -one.usage.delivered)]


async def delete(memories: Memories, caller: Caller, asked: Named) -> dict[str, Any]:
    """Erase all memories of an agent and a user; it is not an error when there are none."""
    for scope in scopes_of(memories, caller, asked):
        await memories.forget(scope, everything=True, who="kagent")
    return {"status": "deleted"}


@dataclass(frozen=True, slots=True)
class KagentVerb:
    """One method of the contract.

    Attributes:
        failed: what is said when this server fails.
        read: turns a request's fields into what is asked, off the event loop; raises `Refused`.
        answer: does it and returns the fields of the answer; raises `NotFound` for what is not the
            caller's.
    """

    failed: str
    read: Callable[[Any], Any]
    answer: Callable[[Memories, Caller, Any], Awaitable[dict[str, Any]]]


VERBS: Mapping[str, KagentVerb] = {
    "AddSession": KagentVerb("failed to save memory", item_of, add),
    "AddSessionBatch": KagentVerb("failed to save memory batch", batch_of, add_batch),
    "Search": KagentVerb("search failed", search_of, search),
    "List": KagentVerb("failed to list memories", named_of, list_all),
    "Delete": KagentVerb("failed to delete memory", named_of, delete),
}


def size_of(answer: Mapping[str, Any]) -> int:
    """Return about how many characters an answer has."""
    return sum(len(row["content"]) + 100 for row in answer.get("memories", ()))
