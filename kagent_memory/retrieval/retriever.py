"""Answer a query: gate → complete → search by words and vectors → fuse and rank → select."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from ..concurrency import run_in_thread
from ..errors import ConfigurationError, InvalidInput
from ..language.names import is_known
from ..language.tokenizer import is_small, query_terms
from ..models.llm import Llm
from ..models.reranking import Reranker
from ..records import EVERYTHING, GATED, Exclusion, Hit, Memory, Mode, Recall, Vector
from ..settings import MemorySettings
from ..settings.ranking import RankSettings
from ..stores.base import MemoryStore
from ..stores.decisions import matches_filter
from ..stores.spaces import EmbeddingSpace
from ..stores.values import Stale, TextMatches
from ..stores.vectors import Nearest
from .embedding_spaces import StoreEmbedder, blended
from .query import Gate, WordGate
from .question import UNRELATED, Question, trust
from .ranking.rank import Ranked, rank
from .ranking.selection import select, to_hits, with_sources
from .ranking.table import Near
from .search import HelpingModel, Search, rewrite
from .text_search import by_words
from .views import open_views

MAX_RERANKED = 50
SPARE = 5  # memories read beyond the limit, to replace duplicates
CHARS_PER_UNIT = 8  # `select` compares so many in one unit of `run_in_thread`
MAX_SCANNED = 1_000  # memories read for a query of nothing but stop words


def _size(memories: Mapping[int, Memory]) -> int:
    """Return the cost of comparing these memories' texts, in units of `run_in_thread`."""
    return sum(len(memory.content) for memory in memories.values()) // CHARS_PER_UNIT


async def _by_callers_vector(search: Search, space: EmbeddingSpace | None, vector: Vector) -> Near:
    """Return the memories nearest to a caller's vector; note in `degraded` if there are none."""
    nearest = Nearest()
    if space is not None:
        [nearest] = await search.view.nearest(space.number, [vector], limit=search.leg)
    if not nearest.rows.size:
        search.degraded.append("embedding: no memory here has a caller's vector of this width")
    return Near(nearest, nearest)


@dataclass(eq=False)
class Retriever:
    """Answer queries from one store.

    Attributes:
        embedder: None: search by words alone.
        llm: rewrites queries if the setting `rewrite` says so.
        reranker: orders the first hits anew; None: the ranking stays.
        gate: decides which texts are searched.
        rank: the weights of the ranking.

    Raises:
        ConfigurationError: queries are to be rewritten, and no model is given.
    """

    store: MemoryStore
    embedder: StoreEmbedder | None
    llm: Llm | None
    reranker: Reranker | None
    gate: Gate
    rank: RankSettings
    settings: MemorySettings

    def __post_init__(self) -> None:
        if self.settings.rewrite and self.llm is None:
            raise ConfigurationError("rewrite asks a language model; give llm= the name of one.")
        self._rewriting, self._embedding, self._reranking = (
            HelpingModel(part, self.settings.search_timeout_seconds)
            for part in ("rewrite", "embedder", "rerank")
        )

    async def search(self, search: Search) -> Recall:
        """Answer a query; see `Memories.recall`."""
        if not search.scopes:
            return Recall(mode=self._mode(search))
        if self.settings.rewrite and self.llm is not None:
            question = search.question.text
            ask = partial(rewrite, self.llm, question, search.history)
            text = await self._rewriting.ask(search, ask)
            if text is not None and text != question:
                search.added = Question.read(text, search.now)
        note_count = len(search.degraded)
        try:
            return await self._answer(search)
        except Stale:  # search what is visible now
            del search.degraded[note_count:]
            return await self._answer(search, again=True)

    async def _answer(self, search: Search, *, again: bool = False) -> Recall:
        store = self.store
        mode = self._mode(search)
        search.view = await open_views(
            store, search, again=again, has_short_term=self.settings.short_term_hours > 0
        )
        texts: dict[int, str] = {}
        if is_small(search.question.terms):  # stop words, which the index leaves out
            newest = await run_in_thread(search.size, search.view.newest, MAX_SCANNED)
            memories = await search.view.memories(newest.tolist())
            texts = {row: memory.content for row, memory in memories.items()}
        size = search.size + sum(map(len, texts.values()))
        matches, trimmed = await run_in_thread(size, by_words, search, texts)
        near = await self._by_meaning(search, matches, trimmed)
        ranking = await run_in_thread(search.size, rank, search, matches, near, self.rank)
        hits, left_out = await self._select(search, *ranking)
        if search.explain:
            left_out |= await search.view.exclusions(search.terms, search.filter)
        # an empty scope has no vectors either: its search stays hybrid
        if not near.trimmed.rows.size and (search.degraded or hits):
            mode = "keyword"
        return Recall(
            hits=hits,
            mode=mode,
            left_out=search.view.records_of(left_out),
            degraded=tuple(filter(None, (*search.degraded, store.trouble))),
        )

    def _mode(self, search: Search) -> Mode:
        return "hybrid" if self.embedder or search.external_vector else "keyword"

    async def gated(self, search: Search) -> Recall | None:
        """Return an empty answer if the gate stops the query; None to search. A general question is
        searched after all if the scopes hold what it names.
        """
        text = search.text
        gate = self.gate
        if not self.settings.gate or gate.searches(text):
            return None
        if isinstance(gate, WordGate) and gate.is_general(text) and search.scopes:
            views = await open_views(self.store, search)
            terms = query_terms(text)
            matches = await run_in_thread(views.size, views.text, terms, limit=0)
            if is_known(text, terms, matches.frequencies):
                return None
        return Recall(mode=self._mode(search), degraded=(GATED,))

    async def _by_meaning(self, search: Search, matches: TextMatches, trimmed: str) -> Near:
        """Return the memories nearest to the vectors of the query, with and without its common
        words; nothing, and a note in `degraded`, if the embedder does not answer.

        Args:
            search: the search.
            matches: the result of the text search, which says how many memories there are.
            trimmed: the query without its common words.
        """
        question, added = search.question, search.added
        if search.external_vector is not None:
            return await _by_callers_vector(search, *search.external_vector)
        if self.embedder is None or not question.text.strip():
            return Near()
        scripts = (question.disguised, *UNRELATED) if question.disguised else ()
        rewritten = [added.text] if added else ()
        # distinct texts: a letter without another in its script stays, so two may be equal
        texts = [*dict.fromkeys((question.text, trimmed, *rewritten, *scripts))]
        embed = partial(self.embedder.embed, texts, kind="query", tenant=search.scopes[0].tenant)
        answer = await self._embedding.ask(search, embed)
        if answer is None:
            return Near()
        space, rows = answer
        vectors = {text: row for text, row in zip(texts, rows, strict=True) if row is not None}
        if len(vectors) < len(texts):
            search.degraded.append("embedder: it refuses this query")
            return Near()
        if question.disguised:
            search.trust = trust(*(vectors[text] for text in (question.text, *scripts)))
        full = vectors[question.text]
        ranks = vectors[trimmed]
        ranks = blended(ranks, vectors[added.text], self.rank.added) if added else ranks
        query_vectors = [full] if ranks is full else [full, ranks]
        try:
            lists = await search.view.nearest(space.number, query_vectors, limit=search.leg)
        except InvalidInput:
            search.degraded.append(
                f"embedder: the vectors of {self.embedder.name!r} were replaced by another "
                "embedder's and dropped; open the store with that one"
            )
            return Near()
        reached = len(lists[0].rows)
        without_vector = matches.documents - reached
        if without_vector > 0 and reached < search.leg:  # then all with a vector were reached
            search.degraded.append(
                f"embedder: {without_vector} of {matches.documents} memories have no vector, and "
                "are found by words alone"
            )
        return Near(trimmed=lists[-1], full=lists[0])

    async def _select(
        self, search: Search, ranked: list[Ranked], left_out: Mapping[int, Exclusion]
    ) -> tuple[tuple[Hit, ...], dict[int, Exclusion]]:
        """Return the hits, and the reasons why other memories were left out. Read further down the
        ranking until there are enough hits.
        """
        limit = search.limit
        depth = max(limit + SPARE, MAX_RERANKED if self.reranker else 0)
        while True:
            head = ranked[:depth]
            memories = await search.view.memories([hit.row for hit in head])
            if search.filter != EVERYTHING:  # what was edited since may no longer fit
                memories = {
                    row: memory
                    for row, memory in memories.items()
                    if matches_filter(search.filter, memory)
                }
            order = await self._reranked(search, head, memories)
            selection, reasons = await run_in_thread(
                _size(memories), select, search, order, memories
            )
            # a duplicate left out is replaced from further down; what the budget left out is not
            stops_at_budget = search.budget_tokens and len(head) >= limit
            if len(selection) >= limit or depth >= len(ranked) or stops_at_budget:
                break
            depth *= 4
        selection, memories = await with_sources(search, selection, memories)
        hits = await run_in_thread(_size(memories), to_hits, search, selection, memories)
        return tuple(hits), {**left_out, **reasons}

    async def _reranked(
        self, search: Search, ranked: list[Ranked], memories: Mapping[int, Memory]
    ) -> list[Ranked]:
        """Return the ranking with its first `MAX_RERANKED` in the reranker's order."""
        if self.reranker is None or len(ranked) < 2:
            return ranked
        head = [hit for hit in ranked[:MAX_RERANKED] if hit.row in memories]
        texts = [memories[hit.row].content for hit in head]
        rerank = partial(self.reranker.rerank, search.question.text, texts)
        scores = await self._reranking.ask(search, rerank)
        if scores is None:
            return ranked
        order = sorted(zip(scores, head, strict=True), key=lambda pair: -pair[0])
        # the same scores, dealt out in the new order: they still fall, and their gaps stay
        falling_scores = sorted((hit.score for hit in head), reverse=True)
        ordered: list[Ranked] = []
        for (_, hit), score in zip(order, falling_scores, strict=True):
            why = hit.why
            if search.explain:
                added = {**why["scores"], "rerank": round(score - hit.score, 4)}
                why = {**why, "scores": added}
            ordered.append(hit._replace(score=score, why=why))
        return [*ordered, *ranked[MAX_RERANKED:]]
