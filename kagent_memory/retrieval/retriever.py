"""Conducts the read river: gate → complete → search both legs → fuse and rank → settle."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from ..concurrency import run_in_thread
from ..errors import ConfigurationError, InvalidInput, ModelError
from ..language.tokenizer import query_terms
from ..models.llm import Llm
from ..models.reranking import Reranker
from ..records import Filter, Hit, LeftOut, Memory, Mode, Query, Recall, Scope, Vector
from ..retrieval.ranking.importance import ImportanceWeights, importance, importance_parts
from ..settings import MemorySettings
from ..stores.base import EmbeddingSpace, MemoryStore, TextMatches
from .embedding_spaces import Vectors
from .exclusions import exclusions_of
from .query import Gate, WordGate, complete, hypothetical, rewrite, split
from .ranking import (
    Ranked,
    Ranking,
    RankSettings,
    Selection,
    bare_dates,
    dense_text,
    join,
    matches_filter,
    named_spans,
    rank,
    settle,
    shortlist,
    windows,
)

log = logging.getLogger("kagent_memory")

GATED = "gated"
RERANK_AT_MOST = 50
SPARE = 5
MODELS_SHARE = 0.6  # of the time that is left, to each model that helps a search; the rest is the search's own
Brought = tuple[EmbeddingSpace, Vector]
WINDOWS_AT_MOST = 3  # each is one more read; a pasted log names hundreds


@dataclass(frozen=True, slots=True)
class _Nearest:
    """The vector leg's answer: lists that rank, and those of the full query, which the floor looks at."""

    ranking: Sequence[Sequence[tuple[str, float]]] = ()
    full: Sequence[Sequence[tuple[str, float]]] = ()


class Deadline:
    """How long each model that helps a search may take, so that the search ends within its caller's time.

    Raises:
        InvalidInput: the time is not more than 0.
    """

    def __init__(self, seconds: float | None = None) -> None:
        if seconds is not None and not seconds > 0:  # NaN is not
            raise InvalidInput("timeout_seconds must be more than 0.")
        self._until = None if seconds is None else time.monotonic() + seconds

    def share(self, seconds: float) -> float:
        """As many seconds, or the greater part of those that are left."""
        return seconds if self._until is None else min(seconds, MODELS_SHARE * max(0.0, self._until - time.monotonic()))


class Retriever:
    """Answers queries from one store."""

    def __init__(
        self,
        store: MemoryStore,
        vectors: Vectors | None,
        *,
        llm: Llm | None,
        reranker: Reranker | None,
        gate: Gate | None,
        rank: RankSettings | None,
        weights: ImportanceWeights,
        settings: MemorySettings,
    ) -> None:
        if (settings.rewrite or settings.hyde) and llm is None:
            raise ConfigurationError("rewrite and hyde ask a language model; give llm= the name of one.")
        self._store = store
        self._vectors = vectors
        self._llm = llm
        self._reranker = reranker
        self._gate = gate or WordGate()
        self._rank = rank or RankSettings()
        self._importance = weights
        self._settings = settings

    async def seek(
        self,
        scope: Scope,
        query: Query,
        *,
        now: datetime,
        brought: Brought | None = None,
        gated: bool = False,
        tool: bool = False,
        is_fact: bool | None = None,
        history: Sequence[str] = (),
        budget_tokens: int | None = None,
        deadline: Deadline = Deadline(),
    ) -> Recall:
        """The answer to a query; see `Memories.recall`."""
        if gated and self._settings.gate and not self._gate.searches(query.text, tool=tool, is_fact=is_fact):
            return Recall(mode=self._mode(brought), degraded=(GATED,))
        degraded: list[str] = []
        asked = await self._asked(query.text, history, deadline, degraded)
        weights = self._weights(query.limit)
        size = len(asked)
        spans = await run_in_thread(size, partial(_named, asked, now))
        dated = await self._dated(scope, query, spans, weights, now)
        bare, terms = await run_in_thread(size, partial(_searched, asked, bool(dated)))
        found = await self._store.search_text(scope, terms, limit=weights.text_limit, filter=query.filter, now=now)
        nearest = await self._nearest(scope, query, asked, found, weights, brought, now, deadline, degraded)
        legs = join(terms, found, nearest.ranking, nearest.full, settings=weights)
        wanted = list(dict.fromkeys((*shortlist(legs, weights), *dated)))
        places = await self._store.places(scope, wanted, reach=1, version=found.version, now=now)
        ranked = partial(
            rank,
            asked,
            legs,
            places,
            now=now,
            min_score=query.min_score,
            settings=weights,
            dated=dated,
            only_when=bare is not None,
        )
        ranking = await run_in_thread(size, ranked)
        hits, left_out = await self._settled(scope, query, asked, ranking, budget_tokens, now, deadline, degraded)
        mode: Mode = self._mode(brought) if legs.has_vectors or not degraded else "keyword"
        left_out = (*ranking.left_out, *left_out)
        if query.explain:
            left_out += await exclusions_of(self._store, scope, terms, query.filter, now=now)
        return Recall(hits=hits, mode=mode, left_out=left_out, degraded=tuple(degraded))

    def _mode(self, brought: Brought | None) -> Mode:
        return "keyword" if self._vectors is None and brought is None else "hybrid"

    def _weights(self, limit: int) -> RankSettings:
        few = self._rank
        if limit * 3 <= few.shortlist:
            return few
        return replace(
            few,
            shortlist=limit * 3,
            text_limit=max(few.text_limit, limit * 3),
            vector_limit=max(few.vector_limit, limit * 3),
        )

    async def _asked(self, text: str, history: Sequence[str], deadline: Deadline, degraded: list[str]) -> str:
        asked = await run_in_thread(len(text), partial(complete, text, history))
        if self._settings.rewrite and self._llm is not None:
            seconds = deadline.share(self._settings.rewrite_timeout_seconds)
            asked, trouble = await rewrite(self._llm, asked, history, timeout_seconds=seconds)
            degraded += [trouble] if trouble else []
        return asked

    async def _nearest(
        self,
        scope: Scope,
        query: Query,
        asked: str,
        found: TextMatches,
        weights: RankSettings,
        brought: Brought | None,
        now: datetime,
        deadline: Deadline,
        degraded: list[str],
    ) -> _Nearest:
        try:
            generation, vectors, ranking = (
                (brought[0], [brought[1]], [0])
                if brought
                else await self._embedded(asked, found, weights, deadline, degraded)
            )
        except ModelError as error:
            log.warning("Searching by words only: %s", error)
            degraded.append(f"embedder: {error}")
            return _Nearest()
        if generation is None:
            return _Nearest()
        lists = await self._store.search_vector(
            scope,
            generation.number,
            vectors,
            limit=weights.vector_limit,
            filter=query.filter,
            version=found.version,
            passing=found.passing,
            now=now,
        )
        return _Nearest([lists[place] for place in ranking], lists[:1])

    async def _embedded(
        self, asked: str, found: TextMatches, weights: RankSettings, deadline: Deadline, degraded: list[str]
    ) -> tuple[EmbeddingSpace | None, list[Vector], list[int]]:
        """The vectors, the full query's first, and the places of those that rank."""
        if self._vectors is None or not asked.strip():
            return None, [], []
        ranking = await run_in_thread(len(asked), partial(_sentences, asked, found, weights))
        if self._settings.hyde and self._llm is not None:
            seconds = deadline.share(self._settings.rewrite_timeout_seconds)
            note, trouble = await hypothetical(self._llm, asked, timeout_seconds=seconds)
            ranking += [note] if note else []
            degraded += [trouble] if trouble else []
        texts = list(dict.fromkeys((asked, *ranking)))
        seconds = deadline.share(self._settings.query_embed_timeout_seconds)
        try:
            generation, vectors = await asyncio.wait_for(self._vectors.embed(texts, kind="query"), seconds)
        except TimeoutError as error:
            raise ModelError(f"The embedder did not answer within {seconds:.3g} s.") from error
        return generation, vectors, [texts.index(text) for text in dict.fromkeys(ranking)]

    async def _dated(
        self,
        scope: Scope,
        query: Query,
        spans: Sequence[tuple[datetime, datetime]],
        weights: RankSettings,
        now: datetime,
    ) -> frozenset[str]:
        """The memories of the days, months and years that the query names, the newest if there are many."""
        found: set[str] = set()
        for after, before in spans[:WINDOWS_AT_MOST]:
            if during := _during(query.filter, after, before):
                page = await self._store.list(scope, filter=during, limit=weights.shortlist, now=now)
                found.update(memory.id for memory in page.memories)
        return frozenset(found)

    async def _settled(
        self,
        scope: Scope,
        query: Query,
        asked: str,
        ranking: Ranking,
        budget_tokens: int | None,
        now: datetime,
        deadline: Deadline,
        degraded: list[str],
    ) -> tuple[tuple[Hit, ...], tuple[LeftOut, ...]]:
        wanted = max(query.limit + SPARE, RERANK_AT_MOST if self._reranker else 0)
        while True:
            head = ranking.ranked[:wanted]
            memories = await self._store.get(scope, [row.id for row in head], now=now)
            # neighbours of matching turns come along unfiltered; they lend their words, but are no answers then
            asked_for = [
                row for row in head if row.id not in memories or matches_filter(query.filter, memories[row.id])
            ]
            top = await self._reranked(asked, asked_for, memories, deadline, degraded)
            settled = settle(
                top,
                memories,
                limit=query.limit,
                max_tokens=budget_tokens,
                settings=self._rank,
                standing=lambda memory: importance(importance_parts(memory, now=now), self._importance),
            )
            # near-duplicates that fell together, and what the filter holds off, leave room for what stood further down
            short_on_purpose = (budget_tokens or self._rank.gap) and len(asked_for) >= query.limit
            if len(settled.kept) >= query.limit or wanted >= len(ranking.ranked) or short_on_purpose:
                break
            wanted *= 4
        hits = tuple(
            Hit(
                memory=memories[row.id],
                score=row.score,
                cosine=row.cosine,
                why=self._why(ranking, settled, row) if query.explain else {},
            )
            for row in settled.kept
        )
        return hits, settled.left_out

    def _why(self, ranking: Ranking, settled: Selection, row: Ranked) -> dict[str, Any]:
        """What found a memory, and what each sign added to the score that it has in the end."""
        why = ranking.explain(row.id)
        scores = {name: value * settled.share for name, value in why["scores"].items()}
        scores |= settled.usage.get(row.id, {})
        if self._reranker is not None:
            scores["rerank"] = row.score - sum(scores.values())
        return {**why, "scores": {name: round(value, 4) for name, value in scores.items() if round(value, 4)}}

    async def _reranked(
        self,
        asked: str,
        top: list[Ranked],
        memories: Mapping[str, Memory],
        deadline: Deadline,
        degraded: list[str],
    ) -> list[Ranked]:
        if self._reranker is None or len(top) < 2:
            return top
        head = [row for row in top[:RERANK_AT_MOST] if row.id in memories]
        seconds = deadline.share(math.inf)
        try:
            rerank = self._reranker.rerank(asked, [memories[row.id].content for row in head])
            scores = await asyncio.wait_for(rerank, None if seconds == math.inf else seconds)
        except (ModelError, TimeoutError) as error:
            reason = str(error) or f"no answer within {seconds:.3g} s"
            log.warning("Reranking failed; keeping the fused order: %s", reason)
            degraded.append(f"rerank: {reason}")
            return top
        order = sorted(range(len(head)), key=lambda place: (-scores[place], place))
        # the scores go down with the new order, so that usage is mixed into it and a gap is one
        falling = sorted((row.score for row in head), reverse=True)
        ordered = [head[place]._replace(score=score) for place, score in zip(order, falling, strict=True)]
        return [*ordered, *top[RERANK_AT_MOST:]]


def _named(asked: str, now: datetime) -> list[tuple[datetime, datetime]]:
    return windows(named_spans(asked, now))


def _searched(asked: str, dated: bool) -> tuple[str | None, Sequence[str]]:
    """What is left of a query that asks for dates and no more, and the terms to search by."""
    bare = bare_dates(asked) if dated else None
    return bare, query_terms(asked if bare is None else bare)


def _sentences(asked: str, found: TextMatches, weights: RankSettings) -> list[str]:
    return [dense_text(part, found, weights) for part in split(asked)]


def _during(filter: Filter, after: datetime, before: datetime) -> Filter | None:
    """The filter within that time too; None when the two have no moment in common."""
    after = max(after, filter.happened_after or after)
    before = min(before, filter.happened_before or before)
    return replace(filter, happened_after=after, happened_before=before) if after < before else None
