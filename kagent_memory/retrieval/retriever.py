"""Answers a query: gate → complete → search by words and vectors → fuse and rank → select."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any

from ..concurrency import run_in_thread
from ..errors import ConfigurationError, InvalidInput
from ..language.preferences import PREFERENCE_TERM
from ..language.respelling import respellings, respelt
from ..language.tokenizer import query_terms
from ..models.llm import Llm
from ..models.reranking import Reranker
from ..records import GATED, Hit, LeftOut, Memory, Mode, Recall, Scope
from ..settings import MemorySettings
from ..settings.policies import POLICIES
from ..stores.base import MemoryStore, TextMatches
from ..stores.filter_match import matches_filter
from ..stores.view import MemoriesView, Stale, View
from .embedding_spaces import StoreEmbedder
from .helping_model import HelpingModel
from .past import MAX_SHORT_TERM, past_views
from .query import Gate, WordGate, is_known
from .query.completion import rewrite
from .question import Question, is_small
from .ranking import (
    REACH,
    UNRELATED,
    Candidates,
    Nearest,
    Ranked,
    Ranking,
    RankSettings,
    Selection,
    dense_text,
    holding,
    identifiers,
    join,
    keeps_what_is_asked,
    rank,
    select,
    shortlist,
    trust,
)
from .ranking.importance import ImportanceWeights, importance, measure_of
from .scopes import ManyViews
from .search import Search
from .sources import excerpts_of, sources_of, with_sources

NOT_EMBEDDED = "embedder: these memories have no vectors yet; they are found by words until then"
"""In `Recall.degraded`, while what a store held before it had an embedder is embedded."""

RERANK_AT_MOST = 50
SPARE = 5
MAX_SCANNED = 1_000  # memories read for a query of nothing but stop words
CANDIDATE_WEIGHT = 2  # of one candidate, against a character of what else is worked on in a thread
MAX_WINDOWS = 3  # each is one more read; a pasted log names hundreds


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
        self._llm = llm
        self._reranker = reranker
        self._gate = gate or WordGate()
        self._rank = rank or RankSettings()
        if not self._rank.standing:
            self._rank = replace(self._rank, standing=POLICIES[settings.policy].importance_boost)
        self._importance = weights
        self._settings = settings
        self._rewriting, self._embedding, self._reranking = (
            HelpingModel(part, settings.search_timeout_seconds)
            for part in ("rewrite", "embedder", "rerank")
        )

    async def search(self, search: Search, *, again: bool = False) -> Recall:
        """Return the answer to a query; see `Memories.recall`.

        Args:
            search: what is asked for.
            again: what was read first turned out to be stale; search what is visible now.
        """
        if not search.scopes:
            return Recall(mode=self._mode(search))
        store = self._store
        if not again:
            await self._read(search)
        mode, degraded = self._mode(search), [*search.degraded]
        views = store.cached_views(search.scopes, filter=search.filter, now=search.now, again=again)
        try:
            search.view = await self._searched(views, search)
            matches = await self._by_words(search)
            ranking, has_vectors = await self._ranked(
                search, matches, *await self._by_meaning(search, matches)
            )
            hits, left_out = await self._select(search, ranking)
            if search.explain:
                left_out += await search.view.exclusions(search.terms, search.filter, search.now)
        except Stale:
            search.degraded = degraded
            return await self.search(search, again=True)
        if not has_vectors and (search.degraded or (hits and mode == "hybrid")):
            mode = "keyword"
            search.degraded = search.degraded or [NOT_EMBEDDED]
        degraded = (*search.degraded, *([store.trouble] if store.trouble else ()))
        return Recall(hits=hits, mode=mode, left_out=search.view.by_id(left_out), degraded=degraded)

    def _mode(self, search: Search) -> Mode:
        has_vectors = self._embedder is not None or search.external_vector is not None
        return "hybrid" if has_vectors else "keyword"

    async def gated(self, search: Search, *, tool: bool, is_fact: bool | None) -> Recall | None:
        """Return the empty answer if the gate holds the query back; what the scopes know is
        searched in any form.
        """
        text, gate = search.text, self._gate
        if not self._settings.gate or gate.searches(text, tool=tool, is_fact=is_fact):
            return None
        is_general = isinstance(gate, WordGate) and not (tool or is_fact) and gate.is_general(text)
        if is_general and search.scopes:
            views = self._store.cached_views(search.scopes, filter=search.filter, now=search.now)
            terms = query_terms(text)
            matches = await ManyViews(views).text(terms, limit=0)
            if is_known(terms, identifiers(text), matches.frequencies):
                return None
        return Recall(mode=self._mode(search), degraded=(GATED,))

    async def _read(self, search: Search) -> None:
        """Make out what is asked for, with the help of a model where that is set."""
        now, history = search.now, search.history
        search.question = await run_in_thread(
            len(search.text), Question.read, search.text, now, history
        )
        if self._settings.rewrite and self._llm is not None:
            asked = search.question.text
            text = await self._rewriting.ask(search, partial(rewrite, self._llm, asked, history))
            if text is not None and text != asked:
                search.added = await run_in_thread(len(text), Question.read, text, now)

    async def _searched(self, views: Sequence[View], search: Search) -> ManyViews:
        """Return the scopes as they are or were, and what the session that asks keeps for
        itself.
        """
        as_of, session_id, filter = search.as_of, search.session_id, search.filter
        if as_of is not None:
            source = views[0].source
            past = past_views(
                source,
                self._embedder,
                search.scopes,
                as_of,
                filter=filter,
                session_id=session_id,
            )
            return ManyViews(await past)
        short_term: dict[Scope, View] = {}
        for view in views if session_id and self.has_short_term else ():
            held = await view.source.short_term(
                view.scope, session_id=session_id, limit=MAX_SHORT_TERM, now=search.now
            )
            if held:
                short_term[view.scope] = MemoriesView.of(
                    view.source, view.scope, held, filter=filter, now=search.now
                )
        if short_term:  # one that is trusted would have to be asked for memories
            views = [view.under(filter, search.now) for view in views]
        return ManyViews(views, short_term)

    async def _by_words(self, search: Search) -> TextMatches:
        """Return what holds the query's terms, or lies in the times that it names."""
        question, view = search.question, search.view
        added = await self._trusted(search)
        search.dated = await self._dated(
            search, question.windows or (added.windows if added else ())
        )
        search.date_only = bool(search.dated) and question.undated is not None
        terms = (
            question.undated if search.dated and question.undated is not None else question.terms
        )
        search.respelt = {}
        search.added_terms = frozenset(added.terms).difference(terms) if added else frozenset()
        search.terms = [*terms, *sorted(search.added_terms)]
        matches = await view.text(search.terms, limit=search.depth.leg)
        stated = await view.text([PREFERENCE_TERM], limit=search.depth.leg)
        search.preferences = frozenset(stated.matches)
        if is_small(terms):
            return await self._holding(search, matches)
        return await self._with_other_forms(search, matches) if matches.documents else matches

    async def _trusted(self, search: Search) -> Question | None:
        """Return what a model made of the query, unless it no longer asks for the same: all is as
        without it then.
        """
        question, added = search.question, search.added
        if added is not None:
            own, made = frozenset(question.terms), frozenset(added.terms)
            known = await search.view.text([*own, *(made - own)], limit=0)
            if not keeps_what_is_asked(own, made, known, completed=question.text != search.text):
                search.added = None
        return search.added

    async def _dated(
        self, search: Search, windows: Sequence[tuple[datetime, datetime]]
    ) -> frozenset[str]:
        """Return the memories of the days, months and years that the query names, the newest if
        there are many.
        """
        ids: set[str] = set()
        filter = search.filter
        for after, before in windows[:MAX_WINDOWS]:
            after = max(after, filter.happened_after or after)
            before = min(before, filter.happened_before or before)
            if after < before:
                during = replace(filter, happened_after=after, happened_before=before)
                ids.update(
                    await search.view.newest(during, search.now, limit=search.depth.shortlist)
                )
        return frozenset(ids)

    async def _holding(self, search: Search, matches: TextMatches) -> TextMatches:
        """Return what holds these stop words, which the index leaves out, among the newest
        memories.
        """
        ids = await search.view.newest(search.filter, search.now, limit=MAX_SCANNED)
        texts = {id: memory.content for id, memory in (await search.view.memories(ids)).items()}
        found = await run_in_thread(
            sum(map(len, texts.values())), holding, search.question.text, texts
        )
        frequencies = dict.fromkeys(search.terms, len(found))
        return replace(matches, matches=found, frequencies=frequencies) if found else matches

    async def _with_other_forms(self, search: Search, matches: TextMatches) -> TextMatches:
        """Return what holds the terms in any form; those that no memory holds in any give way to
        what they may have been meant as.
        """
        question, terms = search.question, search.terms
        own = (
            term for term in terms if term not in question.forms and term not in search.added_terms
        )
        tried = respellings(own, matches.frequencies)
        if not question.forms and not tried:
            return matches
        looked_up = dict.fromkeys(chain.from_iterable((*question.forms.values(), *tried.values())))
        known = {
            **matches.frequencies,
            **(await search.view.text(list(looked_up), limit=0)).frequencies,
        }
        search.respelt = respelt(terms, tried, known)
        forms = {
            term: [form for form in (term, *some) if form in known]
            for term, some in question.forms.items()
        }
        others = forms | search.respelt
        searched = list(
            dict.fromkeys(chain.from_iterable(others.get(term) or [term] for term in terms))
        )
        telling = [term for term in searched if term not in question.small_words]
        search.terms = telling if any(term in known for term in telling) else searched
        return await search.view.text(search.terms, limit=search.depth.leg)

    async def _by_meaning(
        self, search: Search, matches: TextMatches
    ) -> tuple[Nearest, Nearest, Nearest]:
        """Return what is nearest to the vector that ranks, to the full query's, and to that of a
        model's rewrite.
        """
        question, depth = search.question, search.depth.leg
        if search.external_vector is not None:
            space, vector = search.external_vector
            (found,) = await search.view.nearest(space.number, [vector], limit=depth)
            return found, found, ()
        if self._embedder is None or not question.text.strip():
            return (), (), ()
        trimmed = await run_in_thread(len(question.text), dense_text, question.text, matches)
        asked = list(
            dict.fromkeys((question.text, trimmed, *([search.added.text] if search.added else ())))
        )
        texts = [*asked, *((question.disguised, *UNRELATED) if question.disguised else ())]
        tenant = search.scopes[0].tenant
        embed = partial(self._embedder.embed, texts, kind="query", tenant=tenant)
        answer = await self._embedding.ask(search, embed)
        if answer is None:
            return (), (), ()
        space, rows = answer
        vectors = [row for row in rows if row is not None]
        if len(vectors) < len(rows):
            search.degraded.append("embedder: it refuses this query")
            return (), (), ()
        if question.disguised:
            search.trust = trust(vectors[0], vectors[-3], (vectors[-2], vectors[-1]))
        try:
            lists = await search.view.nearest(space.number, vectors[: len(asked)], limit=depth)
        except InvalidInput:
            search.degraded.append(
                f"embedder: the vectors of {self._embedder.name!r} were replaced by another "
                "embedder's and dropped; "
                "open the store with that one"
            )
            return (), (), ()
        near, lacking = lists[0], matches.documents - len(lists[0])
        if near and lacking > 0 and len(near) < depth:  # it reached all that have a vector
            search.degraded.append(
                f"embedder: {lacking} of {matches.documents} memories are found by words alone"
            )
        return (
            lists[asked.index(trimmed)],
            near,
            lists[asked.index(search.added.text)] if search.added else (),
        )

    async def _ranked(
        self,
        search: Search,
        matches: TextMatches,
        nearest: Nearest,
        to_all: Nearest,
        to_added: Nearest,
    ) -> tuple[Ranking, bool]:
        """Return all that was found in order, and whether vectors were searched."""
        question, size = search.question, CANDIDATE_WEIGHT * (len(matches.matches) + len(nearest))

        def candidates() -> tuple[Candidates, Sequence[str]]:
            found = join(
                search.terms,
                matches,
                nearest,
                to_all,
                added=to_added,
                added_terms=search.added_terms,
                wanted=[frozenset(search.terms)] if is_small(search.terms) else question.names,
                trust=search.trust,
                settings=self._rank,
            )
            return found, shortlist(found, self._rank, search.depth)

        found, wanted = await run_in_thread(size, candidates)
        features = await search.view.features(
            list(dict.fromkeys((*wanted, *search.dated))), reach=REACH
        )
        ranking = await run_in_thread(
            len(question.text) + CANDIDATE_WEIGHT * len(features),
            rank,
            question.text,
            found,
            features,
            min_score=search.min_score,
            floor=search.floor,
            settings=self._rank,
            dated=search.dated,
            preferences=search.preferences,
            date_only=search.date_only,
            spans=question.spans,
        )
        return ranking, found.has_vectors

    async def _select(
        self, search: Search, ranking: Ranking
    ) -> tuple[tuple[Hit, ...], tuple[LeftOut, ...]]:
        """Return the hits, and what was left out why; read further down the ranking until there are
        enough.
        """
        limit, budget, measure = (
            search.limit,
            search.budget_tokens,
            measure_of(self._settings.policy),
        )

        def standing(memory: Memory) -> float:
            return importance(measure(memory, now=search.now), self._importance)

        wanted = max(limit + SPARE, RERANK_AT_MOST if self._reranker else 0)
        while True:
            head = ranking.ranked[:wanted]
            memories = await search.view.memories([row.id for row in head])
            # neighbours of matching turns come along unfiltered; they lend their words, but are not
            # answers
            fitting = [
                row
                for row in head
                if row.id not in memories or matches_filter(search.filter, memories[row.id])
            ]
            selection = await run_in_thread(
                CANDIDATE_WEIGHT * len(fitting),
                select,
                await self._reranked(search, fitting, memories),
                memories,
                limit=limit,
                query=search.text,
                max_tokens=budget,
                settings=self._rank,
                standing=standing,
                key_of=search.view.key_of,
            )
            # duplicates that fell together, and what the filter holds off, leave room for what
            # stood further down
            short_on_purpose = budget and len(fitting) >= limit
            if len(selection.kept) >= limit or wanted >= len(ranking.ranked) or short_on_purpose:
                break
            wanted *= 4
        return await self._hits(search, ranking, selection, memories), (
            *ranking.left_out,
            *selection.left_out,
        )

    async def _hits(
        self, search: Search, ranking: Ranking, selection: Selection, found: Mapping[str, Memory]
    ) -> tuple[Hit, ...]:
        """Return what is handed over: memories with their passages and the turns that they came
        from.
        """
        view, text, budget = search.view, search.question.text, search.budget_tokens
        kept, memories = await with_sources(
            view, selection.kept, found, now=search.now, limit=search.limit
        )
        size = sum(len(memory.content) for memory in memories.values()) if budget else 0
        excerpts = (
            await run_in_thread(size, excerpts_of, kept, memories, text)
            if budget
            else dict[str, str]()
        )
        said = await run_in_thread(
            size, sources_of, kept, memories, view.key_of, question=text, max_tokens=budget
        )
        return tuple(
            Hit(
                memory=memories[row.id],
                scope=view.scope_of(row.id),
                score=row.score,
                cosine=row.cosine,
                relevance=row.relevance,
                excerpt=excerpts.get(row.id, ""),
                sources=said.get(row.id, ()),
                why=self._why(search, ranking, selection, row) if search.explain else {},
            )
            for row in kept
        )

    def _why(
        self, search: Search, ranking: Ranking, selection: Selection, row: Ranked
    ) -> dict[str, Any]:
        """Return what found a memory, and what each sign added to the score that it has in the
        end.
        """
        why = ranking.explain(row.id)
        scores = {name: value * selection.share for name, value in why["scores"].items()}
        scores["standing"] = selection.standing.get(row.id, 0.0)
        if self._reranker is not None:
            scores["rerank"] = row.score - sum(scores.values())
        why["scores"] = {name: round(value, 4) for name, value in scores.items() if round(value, 4)}
        return why | ({"respelt": search.respelt} if search.respelt else {})

    async def _reranked(
        self, search: Search, top: list[Ranked], memories: Mapping[str, Memory]
    ) -> list[Ranked]:
        if self._reranker is None or len(top) < 2:
            return top
        head = [row for row in top[:RERANK_AT_MOST] if row.id in memories]
        texts = [memories[row.id].content for row in head]
        rerank = partial(self._reranker.rerank, search.question.text, texts)
        scores = await self._reranking.ask(search, rerank)
        if scores is None:
            return top
        order = sorted(range(len(head)), key=lambda number: (-scores[number], number))
        # the scores go down with the new order, so that usage is mixed into it and a gap is one
        falling = sorted((row.score for row in head), reverse=True)
        ordered = [
            head[number]._replace(score=score) for number, score in zip(order, falling, strict=True)
        ]
        return [*ordered, *top[RERANK_AT_MOST:]]
