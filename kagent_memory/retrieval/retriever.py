"""Answers a query: gate → complete → search by words and vectors → fuse and rank → select."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain, compress
from typing import Any, TypeAlias

from ..concurrency import run_in_thread
from ..errors import ConfigurationError, InvalidInput, ModelError
from ..language.dates import Span
from ..language.respelling import respellings, respelt
from ..language.tokenizer import query_terms
from ..language.word_forms import word_forms
from ..models.llm import Llm
from ..models.reranking import Reranker
from ..records import EVERYTHING, GATED, Hit, LeftOut, Memory, Mode, Query, Recall, Scope, Vector
from ..settings import MemorySettings
from ..settings.policies import POLICIES
from ..stores.base import EmbeddingSpace, MemoryStore, TextMatches
from ..stores.filter_match import matches_filter
from ..stores.view import Stale, View
from .circuit_breaker import CircuitBreaker, GuardedLlm
from .embedding_spaces import ModelSpace, StoreEmbedder
from .options import RecallOptions
from .past import MAX_SHORT_TERM, PastView, SessionView
from .query import Gate, WordGate
from .query.completion import complete, split
from .query.rewriting import rewrite
from .ranking import (
    Nearest,
    Ranked,
    Ranking,
    RankSettings,
    Selection,
    bare_dates,
    dense_text,
    identifiers,
    in_one_scale,
    join,
    keeps_what_is_asked,
    named_spans,
    rank,
    select,
    shortlist,
    windows,
)
from .ranking.importance import ImportanceWeights, importance, measure_of
from .scopes import ManyViews

logger = logging.getLogger(__name__)

RERANK_AT_MOST = 50
SPARE = 5
SEARCH_SHARE = 0.25  # of the whole time: the search's own, however many models hang before it
MODEL_SHARE = 0.6  # of what is left of the rest, to each model that helps a search
ExternalVector: TypeAlias = tuple[EmbeddingSpace, Vector]
WINDOWS_AT_MOST = 3  # each is one more read; a pasted log names hundreds


class Deadline:
    """How long each model that helps a search may take, so that the search ends within its caller's time.

    Raises:
        InvalidInput: the time is not more than 0.
    """

    def __init__(self, seconds: float | None = None) -> None:
        if seconds is not None and not seconds > 0:  # NaN is not
            raise InvalidInput("timeout_seconds must be more than 0.")
        self._models_until = None if seconds is None else time.monotonic() + (1 - SEARCH_SHARE) * seconds

    def share(self, seconds: float) -> float:
        """As many seconds, or the greater part of those that are left to the models."""
        if self._models_until is None:
            return seconds
        return min(seconds, MODEL_SHARE * max(0.0, self._models_until - time.monotonic()))


@dataclass(slots=True)
class _Search:
    """One search on its way.

    Attributes:
        view: the scopes as they are searched.
        text: what is searched for: the query's, completed.
        added: what a model made of it, searched beside it.
        added_terms: those of the terms that only that holds.
        degraded: what went without a model, and why.
        respelt: terms that no memory holds, and those that were searched instead.
        dated: the memories of the times that the text names.
        date_only: the text asks for those and nothing else.
        spans: the times that it names.
    """

    scopes: Sequence[Scope]
    query: Query
    now: datetime
    deadline: Deadline
    settings: RankSettings
    view: ManyViews = field(init=False)
    text: str = ""
    added: list[str] = field(default_factory=list[str])
    added_terms: frozenset[str] = frozenset()
    degraded: list[str] = field(default_factory=list[str])
    respelt: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    dated: frozenset[str] = frozenset()
    date_only: bool = False
    spans: Sequence[Span] = ()

    def __post_init__(self) -> None:
        self.text = self.query.text


class Retriever:
    """Answers queries from one store.

    Attributes:
        has_short_term: whether a session may keep memories for itself.
    """

    def __init__(
        self,
        store: MemoryStore,
        embedder: StoreEmbedder | None,
        *,
        llm: Llm | None,
        reranker: Reranker | None,
        gate: Gate | None,
        rank: RankSettings | None,
        weights: ImportanceWeights,
        settings: MemorySettings,
        has_short_term: bool,
    ) -> None:
        if settings.rewrite and llm is None:
            raise ConfigurationError("rewrite asks a language model; give llm= the name of one.")
        self.has_short_term = has_short_term
        self._store = store
        self._embedder = embedder
        self._llm = llm and GuardedLlm(llm)
        self._reranker = reranker
        self._gate = gate or WordGate()
        self._rank = rank or RankSettings()
        if not self._rank.standing:
            self._rank = replace(self._rank, standing=POLICIES[settings.policy].importance_boost)
        if settings.nothing_below and not self._rank.nothing_below:
            self._rank = replace(self._rank, nothing_below=settings.nothing_below)
        self._importance = weights
        self._settings = settings
        self._embedder_breaker = CircuitBreaker("embedder")
        self._former_breaker = CircuitBreaker("former embedder")
        self._rerank_breaker = CircuitBreaker("reranker")

    async def search(
        self,
        scopes: Sequence[Scope],
        query: Query,
        options: RecallOptions,
        *,
        now: datetime,
        external_vector: ExternalVector | None = None,
        deadline: Deadline = Deadline(),
    ) -> Recall:
        """The answer to a query; see `Memories.recall`."""
        mode: Mode = "keyword" if self._embedder is None and external_vector is None else "hybrid"
        as_of = options.get("as_of")
        gated = (
            options.get("gate", False)
            and self._settings.gate
            and not self._gate.searches(query.text, tool=options.get("tool", False), is_fact=options.get("is_fact"))
        )
        if gated or not scopes:
            return Recall(mode=mode, degraded=(GATED,) if gated else ())
        now = now if as_of is None else as_of
        search = _Search(scopes, query, now, deadline, _for_limit(self._rank, query.limit))
        await self._think(search, options.get("history", ()))
        return await self._answer(search, options, mode, external_vector)

    async def _answer(
        self,
        search: _Search,
        options: RecallOptions,
        mode: Mode,
        external_vector: ExternalVector | None,
        after: Stale | None = None,
    ) -> Recall:
        """Return what is found in a view of the scopes; in another one where the first turned out to be stale."""
        query, degraded = search.query, [*search.degraded]
        views, trouble = self._store.cached_views(search.scopes, filter=query.filter, now=search.now, after=after)
        try:
            search.view = await self._searched(views, search, options)
            terms, matches = await self._matches(search)
            searched_by, has_vectors, ranking = await self._ranked(search, terms, matches, external_vector)
            hits, left_out = await self._select(search, ranking, options.get("budget_tokens"))
            left_out = (*ranking.left_out, *left_out)
            if query.explain:
                left_out += await search.view.exclusions(searched_by, query.filter, search.now)
        except Stale as stale:
            search.degraded = degraded
            return await self._answer(search, options, mode, external_vector, stale)
        if search.degraded and not has_vectors:
            mode = "keyword"
        if query.explain or not search.view.is_single:
            left_out = search.view.by_id(left_out)
        degraded = (*search.degraded, *([trouble] if trouble else ()))
        return Recall(hits=hits, mode=mode, left_out=left_out, degraded=degraded)

    async def _think(self, search: _Search, history: Sequence[str]) -> None:
        """What is made of the query before anything is read."""
        search.text = await run_in_thread(len(search.query.text), complete, search.query.text, history)
        if self._settings.rewrite and self._llm is not None:
            seconds = search.deadline.share(self._settings.search_timeout_seconds)
            text, trouble = await rewrite(self._llm, search.text, history, timeout_seconds=seconds)
            search.degraded += [trouble] if trouble else []
            search.added = [text] if text != search.text else []

    async def _matches(self, search: _Search) -> tuple[Sequence[str], TextMatches]:
        """The terms searched by, and what holds them, after the memories of the times that are named were looked up.

        What a model made of the query and no longer asks for the same is left aside: all is as without a model.
        """
        size = len(search.text)
        search.spans, named = await run_in_thread(size, _named_windows, (search.text, *search.added), search.now)
        search.dated = await self._dated(search, named)
        search.date_only, own = await run_in_thread(size, _search_terms, search.text, bool(search.dated))
        rewritten = frozenset(chain.from_iterable(map(query_terms, search.added)))
        search.added_terms = rewritten.difference(own)
        terms = [*own, *sorted(search.added_terms)]
        matches = await search.view.text(terms, limit=search.settings.text_limit)
        completed = search.text != search.query.text
        if not search.added or keeps_what_is_asked(frozenset(own), rewritten, matches, completed=completed):
            return terms, matches
        search.added = []
        return await self._matches(search)

    async def _searched(self, views: Sequence[View], search: _Search, options: RecallOptions) -> ManyViews:
        """Return the scopes as they are or were, and what the session that asks keeps for itself."""
        as_of, session_id, filter = options.get("as_of"), options.get("session_id"), search.query.filter
        if as_of is not None:
            source = views[0].source
            past = PastView.all_at(
                source, self._embedder, search.scopes, as_of, filter=filter, session_id=session_id or None
            )
            return ManyViews(await past)
        short_term: dict[Scope, View] = {}
        for view in views if session_id and self.has_short_term else ():
            held = await view.source.short_term(view.scope, session_id=session_id, limit=MAX_SHORT_TERM, now=search.now)
            if held:
                short_term[view.scope] = SessionView.of(view.source, view.scope, held, search.now, filter)
        if short_term:  # one that is trusted would have to be asked for memories
            views = [view.under(filter, search.now) for view in views]
        return ManyViews(views, short_term)

    async def _ranked(
        self, search: _Search, terms: Sequence[str], matches: TextMatches, external_vector: ExternalVector | None
    ) -> tuple[Sequence[str], bool, Ranking]:
        """What was searched by after all, whether vectors were, and all that was found, in order."""
        terms, matches = await self._with_other_forms(search, terms, matches)
        nearest, nearest_to_all, nearest_to_added = await self._nearest(search, matches, external_vector)
        candidates = join(
            terms,
            matches,
            nearest,
            nearest_to_all,
            added=nearest_to_added,
            added_terms=search.added_terms,
            wanted=await run_in_thread(len(search.text), identifiers, search.text),
            settings=search.settings,
        )
        wanted = list(dict.fromkeys((*shortlist(candidates, search.settings), *search.dated)))
        ranking = await run_in_thread(
            len(search.text),
            rank,
            search.text,
            candidates,
            await search.view.features(wanted, reach=search.settings.reach),
            now=search.now,
            min_score=search.query.min_score,
            settings=search.settings,
            dated=search.dated,
            date_only=search.date_only,
            spans=search.spans,
        )
        return terms, candidates.has_vectors, ranking

    async def _with_other_forms(
        self, search: _Search, terms: Sequence[str], matches: TextMatches
    ) -> tuple[Sequence[str], TextMatches]:
        """The terms searched by, with their other forms, and what holds them; words that no memory holds in any form
        give way to what they may have been meant as.
        """
        ask = search.view.text
        if not matches.documents:
            return terms, matches
        forms, small = await run_in_thread(len(search.text), word_forms, search.text)
        own = (term for term in terms if term not in forms and term not in search.added_terms)
        tried = respellings(own, matches.frequencies)
        if not forms and not tried:
            return terms, matches
        looked_up = chain.from_iterable((*forms.values(), *tried.values()))
        known = (await ask(list(dict.fromkeys(looked_up)), limit=0)).frequencies
        search.respelt = respelt(terms, tried, known)
        found = {
            term: [form for form in (term, *forms[term]) if form in known or form in matches.frequencies]
            for term in forms
        }
        others = {term: written or [term] for term, written in found.items()} | search.respelt
        searched = list(dict.fromkeys(chain.from_iterable(others.get(term, [term]) for term in terms)))
        telling = [term for term in searched if term not in small]
        if any(term in known or term in matches.frequencies for term in telling):
            searched = telling
        return searched, await ask(searched, limit=search.settings.text_limit)

    async def _dated(self, search: _Search, named: Sequence[tuple[datetime, datetime]]) -> frozenset[str]:
        """The memories of the days, months and years that the query names, the newest if there are many."""
        ids: set[str] = set()
        filter = search.query.filter
        for after, before in named[:WINDOWS_AT_MOST]:
            after = max(after, filter.happened_after or after)
            before = min(before, filter.happened_before or before)
            if after < before:
                during = replace(filter, happened_after=after, happened_before=before)
                ids.update(await search.view.newest(during, search.now, limit=search.settings.shortlist))
        return frozenset(ids)

    async def _nearest(
        self, search: _Search, matches: TextMatches, external_vector: ExternalVector | None
    ) -> tuple[Sequence[Nearest], Sequence[Nearest], Sequence[Nearest]]:
        """What is nearest to the vectors that rank, to the full query's, which the floor looks at, and to those of what
        a model made of it.
        """
        ranking, added = [0], list[int]()
        if external_vector is not None:
            space, vectors = external_vector[0], [external_vector[1]]
        elif self._embedder is None or not search.text.strip():
            return (), (), ()
        else:
            texts = await run_in_thread(len(search.text), _dense_sentences, search.text, matches, search.settings)
            asked = list(dict.fromkeys((search.text, *texts, *search.added)))
            ranking = [asked.index(text) for text in dict.fromkeys(texts)]
            added = [asked.index(text) for text in search.added]
            found = await self._by_meaning(search, self._embedder, asked)
            if found is None:
                return (), (), ()
            return [found[number] for number in ranking], found[:1], [found[number] for number in added]
        lists = await search.view.nearest(space.number, vectors, limit=search.settings.vector_limit)
        return [lists[number] for number in ranking], lists[:1], [lists[number] for number in added]

    async def _by_meaning(
        self, search: _Search, embedder: StoreEmbedder, asked: Sequence[str]
    ) -> Sequence[Nearest] | None:
        """What is nearest to each text: by the embedder's vectors, and while they replace others by these as well."""
        found = await self._in_space(search, embedder, self._embedder_breaker, asked)
        if embedder.former is None:
            return found
        held = await self._in_space(search, embedder.former, self._former_breaker, asked)
        if held is None or found is None:
            return held or found
        return [in_one_scale(new, former) for new, former in zip(found, held, strict=True)]

    async def _in_space(
        self, search: _Search, embedder: StoreEmbedder | ModelSpace, breaker: CircuitBreaker, asked: Sequence[str]
    ) -> Sequence[Nearest] | None:
        """What is nearest by one embedder; None where it is away, or its vectors were dropped."""
        seconds = search.deadline.share(self._settings.search_timeout_seconds)
        try:
            with breaker.guard():
                async with asyncio.timeout(seconds):
                    space, vectors = await embedder.embed(asked, kind="query", tenant=search.scopes[0].tenant)
        except (ModelError, TimeoutError) as error:
            late = f"The embedder did not answer within {seconds:.3g} s."
            reason = late if isinstance(error, TimeoutError) else str(error)
        else:
            try:
                return await search.view.nearest(space.number, vectors, limit=search.settings.vector_limit)
            except InvalidInput:
                reason = (
                    f"The vectors of {embedder.name!r} were replaced by another embedder's and dropped; open the store "
                    "with that one."
                )
        logger.warning("Searching without the vectors of %r: %s", embedder.name, reason)
        search.degraded.append(f"embedder: {reason}")
        return None

    async def _select(
        self, search: _Search, ranking: Ranking, budget_tokens: int | None
    ) -> tuple[tuple[Hit, ...], tuple[LeftOut, ...]]:
        """Return the hits, and what was left out why; read further down the ranking until there are enough."""
        query, now = search.query, search.now
        measure = measure_of(self._settings.policy)

        def standing(memory: Memory) -> float:
            return importance(measure(memory, now=now), self._importance)

        wanted = max(query.limit + SPARE, RERANK_AT_MOST if self._reranker else 0)
        while True:
            head = ranking.ranked[:wanted]
            memories = await search.view.memories([row.id for row in head])
            # neighbours of matching turns come along unfiltered; they lend their words, but are not answers then
            fitting = head
            if query.filter != EVERYTHING:
                kept = (row.id not in memories or matches_filter(query.filter, memories[row.id]) for row in head)
                fitting = [*compress(head, kept)]
            selection = select(
                await self._reranked(search, fitting, memories),
                memories,
                limit=query.limit,
                query=query.text,
                max_tokens=budget_tokens,
                settings=self._rank,
                standing=standing,
            )
            # duplicates that fell together, and what the filter holds off, leave room for what stood further down
            short_on_purpose = (budget_tokens or self._rank.gap) and len(fitting) >= query.limit
            if len(selection.kept) >= query.limit or wanted >= len(ranking.ranked) or short_on_purpose:
                break
            wanted *= 4
        hits = tuple(
            Hit(
                memory=memories[row.id],
                scope=search.view.scope_of(row.id),
                score=row.score,
                cosine=row.cosine,
                why=self._why(search, ranking, selection, row) if query.explain else {},
            )
            for row in selection.kept
        )
        return hits, selection.left_out

    def _why(self, search: _Search, ranking: Ranking, selection: Selection, row: Ranked) -> dict[str, Any]:
        """What found a memory, and what each sign added to the score that it has in the end."""
        why = ranking.explain(row.id)
        scores = {name: value * selection.share for name, value in why["scores"].items()}
        scores |= selection.usage.get(row.id, {})
        if self._reranker is not None:
            scores["rerank"] = row.score - sum(scores.values())
        why["scores"] = {name: round(value, 4) for name, value in scores.items() if round(value, 4)}
        why["relevance"] = round(ranking.relevance(row.id), 3)
        return why | ({"respelt": search.respelt} if search.respelt else {})

    async def _reranked(self, search: _Search, top: list[Ranked], memories: Mapping[str, Memory]) -> list[Ranked]:
        if self._reranker is None or len(top) < 2:
            return top
        head = [row for row in top[:RERANK_AT_MOST] if row.id in memories]
        seconds = search.deadline.share(math.inf)
        try:
            with self._rerank_breaker.guard():
                rerank = self._reranker.rerank(search.text, [memories[row.id].content for row in head])
                scores = await asyncio.wait_for(rerank, None if seconds == math.inf else seconds)
        except (ModelError, TimeoutError) as error:
            reason = str(error) or f"no answer within {seconds:.3g} s"
            logger.warning("Reranking failed; keeping the fused order: %s", reason)
            search.degraded.append(f"rerank: {reason}")
            return top
        order = sorted(range(len(head)), key=lambda number: (-scores[number], number))
        # the scores go down with the new order, so that usage is mixed into it and a gap is one
        falling = sorted((row.score for row in head), reverse=True)
        ordered = [head[number]._replace(score=score) for number, score in zip(order, falling, strict=True)]
        return [*ordered, *top[RERANK_AT_MOST:]]


def _for_limit(settings: RankSettings, limit: int) -> RankSettings:
    """The settings with lists long enough for three times as many hits as are asked for."""
    least = limit * 3
    if least <= settings.shortlist:
        return settings
    text_limit, vector_limit = max(settings.text_limit, least), max(settings.vector_limit, least)
    return replace(settings, shortlist=least, text_limit=text_limit, vector_limit=vector_limit)


def _named_windows(texts: Sequence[str], now: datetime) -> tuple[Sequence[Span], Sequence[tuple[datetime, datetime]]]:
    """The times that the first of the texts names, and as windows: these of the next where it names none."""
    spans = named_spans(texts[0], now)
    each = chain([windows(spans)], (windows(named_spans(text, now)) for text in texts[1:]))
    return spans, next((named for named in each if named), list[tuple[datetime, datetime]]())


def _search_terms(text: str, dated: bool) -> tuple[bool, Sequence[str]]:
    """Whether a query asks for dates and nothing else, and the terms to search by."""
    rest = bare_dates(text) if dated else None
    return rest is not None, query_terms(text if rest is None else rest)


def _dense_sentences(text: str, matches: TextMatches, settings: RankSettings) -> list[str]:
    return [dense_text(sentence, matches, settings) for sentence in split(text)]
