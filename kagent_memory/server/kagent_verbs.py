"""kagent's memory contract, whatever carries it: HTTP for kagent 0.8 to 0.10, gRPC for those after.

kagent's server knows no tenants: all of it lives in the server's own tenant, or in the token's. An
agent's name is also known by its form with `_` for `-`: reads and deletes go over the union of
those two whole scopes.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

from ..concurrency import run_in_thread
from ..memories import Memories
from ..records import Memory, Scope
from ..stores.base import external_name
from .auth import Caller
from .kagent_wire import DIMENSIONS, LONGEST_NAME, TOO_LONG, Refused, Search, StoredItem

EMBEDDING_SPACE = external_name(DIMENSIONS)
LIST_PAGE = 1000
SORTED_CHARS = 10  # what sorting one memory costs, as `run_in_thread` counts
MISSING_QUERY = "Missing required query parameters (agent_name, user_id)"


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


async def store(
    memories: Memories, caller: Caller, items: Sequence[StoredItem], *, max_bytes: int
) -> list[str]:
    """Store the items, those of one scope whole or not at all, and return their ids.

    Raises:
        NotFound: one of their scopes is not the caller's.
    """
    by_scope: dict[Scope, list[StoredItem]] = {}
    for one in items:
        by_scope.setdefault(scope_of(memories, caller, one.agent_name, one.user_id), []).append(one)
    parts = copy(memories.parts)
    # the contract bounds no content, so the request does
    parts.settings = replace(parts.settings, max_content_bytes=max_bytes)
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


async def search(memories: Memories, caller: Caller, wanted: Search) -> list[tuple[Memory, float]]:
    """The nearest memories by cosine, each with it; exact for every user, however crowded the
    table.

    Raises:
        NotFound: the scope is not the caller's.
    """
    scopes = [scope_of(memories, caller, name, wanted.user_id) for name in names(wanted.agent_name)]
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
    return [(memory, cosine) for cosine, memory, _ in kept]


def named(
    memories: Memories, caller: Caller, agent_name: str | None, user_id: str | None
) -> list[Scope]:
    """The scopes that a list or a delete names, all of them the caller's.

    Raises:
        Refused: a name is missing or too long.
        NotFound: they are not the caller's.
    """
    if not agent_name or not user_id:
        raise Refused(MISSING_QUERY)
    if max(len(agent_name), len(user_id)) > LONGEST_NAME:
        raise Refused(TOO_LONG)
    return [scope_of(memories, caller, name, user_id) for name in names(agent_name)]


async def listed(memories: Memories, scopes: Sequence[Scope]) -> Sequence[Memory]:
    """Return all memories of some scopes, the most delivered first."""
    found: list[Memory] = []
    for scope in scopes:
        cursor, is_first = None, True
        while is_first or cursor is not None:
            page = await memories.list(scope, limit=LIST_PAGE, cursor=cursor)
            found += page.memories
            cursor, is_first = page.cursor, False
    return await run_in_thread(len(found) * SORTED_CHARS, sorted, found, key=_deliveries)


def _deliveries(memory: Memory) -> int:
    return -memory.usage.delivered
