"""The verbs of the read river."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from .. import telemetry
from ..concurrency import run_in_thread
from ..errors import InvalidInput
from ..records import MAX_QUERY_CHARS, Filter, Memory, Query, Recall, Revision, Scope, Vector, checked_text
from ..retrieval.query import EARLIER_TURNS
from ..retrieval.retriever import GATED, Deadline
from ..stores.base import Facets, Order, Page, ScopeStats, checked_vector, external_name
from .components import Components


class ReadVerbs:
    """Recall, get, list, history, stats."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts

    async def recall(
        self,
        scope: Scope,
        query: str,
        *,
        limit: int | None = None,
        min_score: float | None = None,
        filter: Filter = Filter(),
        embedding: Vector | None = None,
        generation: str | None = None,
        explain: bool = False,
        deliver: bool = True,
        gate: bool = False,
        tool: bool = False,
        is_fact: bool | None = None,
        history: Sequence[str] = (),
        budget_tokens: int | None = None,
        timeout_seconds: float | None = None,
    ) -> Recall:
        """The memories that answer a query, best first.

        Args:
            scope: whose.
            query: natural language, up to 16,384 characters; may be empty when `embedding` is given.
            limit: hits at most; None: the setting.
            min_score: floor on the full query's cosine for memories that only their vectors found, before the limit;
                no effect in keyword mode. None: the setting.
            filter: which memories count.
            embedding: the query's vector, brought by the caller.
            generation: see `add`.
            explain: fills `Hit.why` and `Recall.left_out`; counts nothing.
            deliver: counts the hits as delivered.
            gate: lets the gate answer empty for what needs no memory; `degraded` says "gated" then.
            tool: tells the gate that the query is meant for a tool, so that it is not searched.
            is_fact: tells the gate what a classifier of yours found: True: the query asks for general knowledge and is
                held back unless it holds a personal word; False: it does not; None: the gate's patterns decide.
            history: the last user turns, oldest first, to complete a vague query from; the last three count.
            budget_tokens: the most the hits' contents may hold, in tokens (of 4 ASCII characters, or 1 other).
            timeout_seconds: how long the caller waits: models that help the search get a part of it, so that it
                goes on without them in time; None: they get what the settings give them.

        Raises:
            InvalidInput: the query, limit or vector does not fit.
            StoreError: the database is unavailable. An unavailable embedder only lowers the mode.
        """
        deadline = Deadline(timeout_seconds)
        text, earlier = await self._masked(query, history)
        question = Query(
            text=text,
            limit=_bounded(self._parts.settings.search_limit if limit is None else limit),
            min_score=_floor(self._parts.settings.min_score if min_score is None else min_score),
            filter=filter,
            explain=explain,
            deliver=deliver and not explain,
        )
        external_vector = None
        if embedding is not None:
            vector = checked_vector(embedding, None)
            held = await self._parts.generation(scope, generation, vector)
            external_vector = None if held is None else (held, vector)
        with telemetry.operation("search_memory", store=self._parts.location, scope_app=scope.app, query=text) as seen:
            found = await self._parts.retriever.search(
                scope,
                question,
                now=self._parts.clock(),
                external_vector=external_vector,
                gated=gate,
                tool=tool,
                is_fact=is_fact,
                history=earlier,
                budget_tokens=budget_tokens,
                deadline=deadline,
            )
            seen.mode(found.mode)
            if GATED in found.degraded:
                seen.gated()
            else:
                seen.records((hit.memory.id, hit.memory.content, hit.score) for hit in found)
        if question.deliver:
            ids = [hit.memory.id for hit in found]
            self._parts.deliveries.count(
                scope, retrieved=[*ids, *(out.memory_id for out in found.left_out)], delivered=ids
            )
        return found if explain else replace(found, left_out=())

    async def _masked(self, query: str, history: Sequence[str]) -> tuple[str, list[str]]:
        if len(checked_text(query, "The query")) > MAX_QUERY_CHARS:
            raise InvalidInput(f"The query has {len(query):,} characters; at most {MAX_QUERY_CHARS:,} are allowed.")
        turns = [checked_text(turn, "A turn of the history")[:MAX_QUERY_CHARS] for turn in history[-EARLIER_TURNS:]]
        redact = self._parts.redact
        masked = partial(list[str], map(redact, (query, *turns)))
        text, *earlier = await run_in_thread(len(query) + sum(map(len, turns)), masked)
        return text, earlier

    async def nearest(self, scope: Scope, vector: Vector, *, limit: int) -> Sequence[tuple[Memory, float]]:
        """The memories whose own vectors, as callers brought them, are nearest to this one, each with its cosine.

        By vectors alone and exact within the scope; nothing is ranked, and nothing counts as delivered.

        Raises:
            InvalidInput: the limit or vector does not fit.
        """
        own = external_name(len(checked_vector(vector, None)))
        held = await self._parts.generation(scope, own, vector)
        if held is None:
            return []
        now = self._parts.clock()
        [near] = await self._parts.store.search_vector(scope, held.number, [vector], limit=_bounded(limit), now=now)
        rows = await self._parts.store.get(scope, [id for id, _ in near], now=now)
        return [(rows[id], cosine) for id, cosine in near if id in rows]

    def delivered(self, scope: Scope, ids: Sequence[str]) -> None:
        """Counts memories that were handed over by another way than `recall`; in the background, never failing."""
        self._parts.deliveries.count(scope, retrieved=ids, delivered=ids)

    async def get(self, scope: Scope, id: str, *, superseded: bool = False) -> Memory:
        """One visible memory.

        Args:
            scope: whose.
            id: of the memory.
            superseded: also one that another has taken the place of.

        Raises:
            NotFound: no such memory, or it has expired.
        """
        return await self._parts.get(scope, id, superseded=superseded)

    async def list(
        self,
        scope: Scope,
        *,
        filter: Filter = Filter(),
        order: Order = "newest",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        """A page of visible memories; counts nothing."""
        return await self._parts.store.list(
            scope, filter=filter, order=order, limit=limit, cursor=cursor, now=self._parts.clock()
        )

    async def history(self, scope: Scope, id: str) -> Sequence[Revision]:
        """What happened to a memory, oldest first: who, why, and what it was before; also to a superseded one.

        Raises:
            NotFound: no such memory, or it has expired.
        """
        await self._parts.get(scope, id, superseded=True)
        return await self._parts.store.history(scope, id)

    async def facets(self, scope: Scope, *, filter: Filter = Filter(), most: int = 100) -> Facets:
        """How many memories a filter lets through, and the `most` most frequent topics and tags among them."""
        return await self._parts.store.facets(scope, filter=filter, most=most, now=self._parts.clock())

    async def stats(self, scope: Scope) -> ScopeStats:
        """Counts of the scope."""
        popular_after = self._parts.settings.popular_after
        return await self._parts.store.stats(scope, now=self._parts.clock(), popular_after=popular_after)


def _bounded(limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
        raise InvalidInput("The limit must be a whole number, 0 or more.")
    return limit


def _floor(min_score: float) -> float:
    if not -1 <= min_score <= 1:  # NaN is neither
        raise InvalidInput("min_score must lie between -1 and 1; it is a cosine.")
    return min_score
