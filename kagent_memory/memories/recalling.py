"""The search of `Memories`: whose memories, the checked and masked question, and what its answer counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from typing_extensions import Unpack

from .. import telemetry
from ..errors import InvalidInput
from ..records import EVERYTHING, GATED, Query, Recall, Scope, Scopes, Vector, WhichScopes, checked_text, checked_time
from ..retrieval.options import RecallOptions
from ..retrieval.retriever import Deadline, ExternalVector
from ..stores.base import MemoryStore, checked_key, checked_vector
from .components import Components
from .validation import checked_limit, checked_min_score, masked_query

MOST_SCOPES = 1000


async def recall(parts: Components, whose: WhichScopes, query: str, **options: Unpack[RecallOptions]) -> Recall:
    """`MemoryApi.recall`."""
    deadline = Deadline(options.get("timeout_seconds"))
    now = parts.clock()
    at = checked_time(options.get("as_of"), "as_of")
    if at is not None and at > now:
        raise InvalidInput("as_of lies in the future; leave it out for what is answered now.")
    text, earlier = await masked_query(query, options.get("history", ()), parts.redactors.mask)
    filter = options.get("filter", EVERYTHING)
    if filter.superseded:  # history and quarantine are listed, never searched
        filter = replace(filter, superseded=False)
    limit, min_score = options.get("limit"), options.get("min_score")
    explain = options.get("explain", False)
    question = Query(
        text=text,
        limit=checked_limit(parts.settings.search_limit if limit is None else limit),
        min_score=checked_min_score(parts.settings.min_score if min_score is None else min_score),
        filter=filter,
        explain=explain,
        deliver=options.get("deliver", True) and not explain and at is None,
    )
    scopes = await searched(parts.store, whose)
    external = await _external_vector(parts, scopes, options.get("embedding"), options.get("embedding_space"))
    options["as_of"], options["history"] = at, earlier
    if asking := options.get("session_id"):
        options["session_id"] = checked_key(checked_text(asking, "The session id"), "The session id")
    apps = {scope.app for scope in scopes}
    app = apps.pop() if len(apps) == 1 else ""
    with telemetry.operation("search_memory", store=parts.location, scope_app=app, query=text) as span:
        answer = await parts.retriever.search(
            scopes, question, options, now=now, external_vector=external, deadline=deadline
        )
        span.mode(answer.mode)
        if GATED in answer.degraded:
            span.gated()
        else:
            span.records((hit.memory.id, hit.memory.content, hit.score) for hit in answer)
    if question.deliver:
        _count(parts, scopes, answer)
    return answer if explain else Recall(answer.hits, answer.mode, (), answer.degraded)


async def _external_vector(
    parts: Components, scopes: Sequence[Scope], embedding: Vector | None, name: str | None
) -> ExternalVector | None:
    """The query's vector as the caller brought it, and the space to search with it."""
    if embedding is None:
        parts.check_own_space(name)
        return None
    vector = checked_vector(embedding, None)
    space = await parts.caller_vectors.space(scopes, name, vector) if scopes else None
    return None if space is None else (space, vector)


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
