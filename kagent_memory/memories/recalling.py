"""The search of `Memories`: whose memories, the checked and masked question, and what its answer counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from .. import telemetry
from ..errors import InvalidInput
from ..records import GATED, Filter, Query, Recall, Scope, Scopes, Vector, WhichScopes, checked_text, checked_time
from ..retrieval.retriever import Deadline, ExternalVector
from ..stores.base import MemoryStore, checked_key, checked_vector
from .components import Components
from .validation import checked_limit, checked_min_score, masked_query

MOST_SCOPES = 1000


async def recall(
    parts: Components,
    whose: WhichScopes,
    query: str,
    *,
    limit: int | None = None,
    min_score: float | None = None,
    filter: Filter = Filter(),
    embedding: Vector | None = None,
    embedding_space: str | None = None,
    explain: bool = False,
    deliver: bool = True,
    gate: bool = False,
    tool: bool = False,
    is_fact: bool | None = None,
    history: Sequence[str] = (),
    budget_tokens: int | None = None,
    timeout_seconds: float | None = None,
    as_of: datetime | None = None,
    session_id: str | None = None,
) -> Recall:
    """`MemoryApi.recall`."""
    deadline = Deadline(timeout_seconds)
    now = parts.clock()
    at = checked_time(as_of, "as_of")
    if at is not None and at > now:
        raise InvalidInput("as_of lies in the future; leave it out for what is answered now.")
    text, earlier = await masked_query(query, history, parts.redactors.mask)
    if filter.superseded:  # history and quarantine are listed, never searched
        filter = replace(filter, superseded=False)
    question = Query(
        text=text,
        limit=checked_limit(parts.settings.search_limit if limit is None else limit),
        min_score=checked_min_score(parts.settings.min_score if min_score is None else min_score),
        filter=filter,
        explain=explain,
        deliver=deliver and not explain and at is None,
    )
    scopes = await searched(parts.store, whose)
    external: ExternalVector | None = None
    if embedding is None:
        parts.check_own_space(embedding_space)
    else:
        vector = checked_vector(embedding, None)
        space = await parts.caller_vectors.space(scopes, embedding_space, vector) if scopes else None
        external = None if space is None else (space, vector)
    apps = {scope.app for scope in scopes}
    app = apps.pop() if len(apps) == 1 else ""
    with telemetry.operation("search_memory", store=parts.location, scope_app=app, query=text) as span:
        answer = await parts.retriever.search(
            scopes,
            question,
            now=now,
            as_of=at,
            session_id=session_id and checked_key(checked_text(session_id, "The session id"), "The session id"),
            external_vector=external,
            gated=gate,
            tool=tool,
            is_fact=is_fact,
            history=earlier,
            budget_tokens=budget_tokens,
            deadline=deadline,
        )
        span.mode(answer.mode)
        if GATED in answer.degraded:
            span.gated()
        else:
            span.records((hit.memory.id, hit.memory.content, hit.score) for hit in answer)
    if question.deliver:
        _count(parts, scopes, answer)
    return answer if explain else replace(answer, left_out=())


async def searched(store: MemoryStore, whose: WhichScopes) -> list[Scope]:
    """The scopes that are meant, each once.

    Raises:
        InvalidInput: none is named, something else is, or there are too many.
    """
    if isinstance(whose, Scope):
        return [whose]
    named = list(whose) if isinstance(whose, Iterable) else [whose]
    if not named:
        raise InvalidInput("Name at least one scope to search.")
    scopes: dict[Scope, None] = {}
    for one in named:
        if isinstance(one, Scopes):
            held = await store.scopes(tenant=one.tenant, user=one.user, app=one.app, limit=MOST_SCOPES + 1)
            scopes.update(dict.fromkeys(held))
        elif isinstance(one, Scope):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
            scopes[one] = None
        else:
            raise InvalidInput(f"A search takes Scope(…) and Scopes(…), not {type(one).__name__}.")
        if len(scopes) > MOST_SCOPES:
            raise InvalidInput(
                f"One search reads at most {MOST_SCOPES:,} scopes, and more are meant; name a user, an app or fewer."
            )
    return list(scopes)


def _count(parts: Components, scopes: Sequence[Scope], answer: Recall) -> None:
    hits: dict[Scope, list[str]] = {}
    retrieved: dict[Scope, list[str]] = {}
    for hit in answer:
        hits.setdefault(hit.scope, []).append(hit.memory.id)
    for out in answer.left_out:  # of a single scope they name none
        retrieved.setdefault(out.scope or scopes[0], []).append(out.memory_id)
    for scope in {**hits, **retrieved}:
        delivered = hits.get(scope, [])
        parts.deliveries.count(scope, retrieved=[*delivered, *retrieved.get(scope, [])], delivered=delivered)
