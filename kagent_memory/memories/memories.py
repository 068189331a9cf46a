"""`Memories`: every verb of memory, declared and implemented once."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Self

from ..checks import check_option
from ..concurrency import each_aside, run_in_thread
from ..errors import ConfigurationError, InvalidInput
from ..ingestion import Providers
from ..ingestion.summary_provider import SummaryProvider, checked_provider, with_settings
from ..language.follow_ups import EARLIER_TURNS
from ..models.embedding import EmbedderChoice, open_embedder
from ..models.llm import Llm, open_llm
from ..models.reranking import RerankChoice, open_reranker
from ..records import (
    GATED,
    MAX_QUERY_CHARS,
    Count,
    Filter,
    Memory,
    Recall,
    Revision,
    Scope,
    Time,
)
from ..redaction.redactors import choose_redactors
from ..retrieval.embedding_spaces import StoreEmbedder
from ..retrieval.query import Gate, WordGate
from ..retrieval.question import Question
from ..retrieval.ranking.importance import ImportanceWeights
from ..retrieval.retriever import Retriever
from ..retrieval.search import Search, models_until
from ..settings import MemorySettings, compose, without_secrets
from ..settings.ranking import RankSettings
from ..stores import Store, open_store
from ..stores.values import Facets, OpenOptions, Order, Page
from .forgetting import Forgetting
from .maintenance import Maintenance
from .opened import utc_now
from .types import (
    Cosine,
    Hits,
    MaskedFilter,
    Query,
    Seconds,
    SessionId,
    Turn,
    Vector,
    WhichScopes,
)
from .verbs import verb
from .writing import Writing

MAX_SCOPES = 1000


class Memories(Writing, Forgetting, Maintenance):
    """One store of memories and the models that serve it; it belongs to the event loop that opened
    it.

    The memories of a service's thread and those of a server are `Memories` too, and pass each verb
    on.
    """

    @classmethod
    async def open(
        cls,
        uri: str | None = None,
        *,
        embedding: EmbedderChoice = None,
        llm: str | bool | Llm | None = None,
        summary: SummaryProvider | None = None,
        rerank: RerankChoice = None,
        gate: Gate | bool | None = None,
        rank: RankSettings | None = None,
        importance_weights: ImportanceWeights | None = None,
        resolve_llm: Callable[[str], Llm | None] | None = None,
        redact: Callable[[str], str] | None = None,
        settings: MemorySettings | None = None,
        clock: Callable[[], datetime] = utc_now,
        pool: object = None,
        **options: Any,
    ) -> Self:
        """Open and migrate a store, check the embedder against it, and start the background work.

        Args:
            uri: the store; None: KAGENT_MEMORY_URI, MEMORY_BACKEND/DATABASE_URL, or an SQLite file
                in the current folder.
            embedding: a model name, an `EmbeddingConfig`, or an object with `embed`; None: the
                setting.
            llm: a model name, an object with `complete`, or False; None: the setting.
            summary: turns transcripts into facts; None: the model if there is one, otherwise turns
                are stored as they are.
            rerank: a value of the setting, or an object with `rerank`; None: the setting.
            gate: decides whether a prefetch searches; True: the built-in gate; False: always
                search; None: the setting.
            rank: the weights of ranking.
            importance_weights: the weights of the formula by which the prune evicts.
            resolve_llm: makes a model from the name that a queued job carries.
            redact: masks secrets before anything else sees a text; None: the built-in redaction.
            settings: used instead of the environment's.
            clock: returns the current time (aware UTC).
            pool: an open `psycopg_pool.AsyncConnectionPool` of this event loop, which its owner
                closes; or a function that makes one, which is closed with the memories. None: our
                own connections.
            **options: fields of `MemorySettings`.

        Raises:
            ConfigurationError: a setting, URI, model or the embedder is invalid.
            StoreError: the database cannot be reached.
        """
        if uri is None and pool is not None:
            uri = "postgresql:///"
        bare, settings = compose(uri, settings, options, os.environ)
        gate, settings = _with_gate(gate, settings)
        check_option("rank", rank, RankSettings | None)
        check_option("importance_weights", importance_weights, ImportanceWeights | None)
        check_option("redact", redact, Callable | None)
        check_option("clock", clock, Callable)
        redactors = choose_redactors(redact, settings)
        # in threads, because looking up a provider may import LiteLLM
        embedder = await asyncio.to_thread(open_embedder, embedding, settings)
        providers = await asyncio.to_thread(_providers, settings, llm, summary, resolve_llm)
        reranker = await asyncio.to_thread(open_reranker, rerank, settings)
        store = await _open_database(bare, settings, pool)
        try:
            vectors = None
            if embedder is not None:
                vectors = StoreEmbedder(store, embedder, settings)
                await vectors.check()
            retriever = Retriever(
                store.memories,
                vectors,
                llm=providers.llm,
                reranker=reranker,
                gate=gate,
                rank=rank or RankSettings(),
                settings=settings,
            )
        except BaseException:
            await store.close()
            raise
        memories = cls(
            store=store,
            settings=settings,
            location=without_secrets(bare),
            vectors=vectors,
            retriever=retriever,
            providers=providers,
            redactors=redactors,
            clock=clock,
            weights=importance_weights or ImportanceWeights(),
        )
        if settings.worker:
            memories.start()
        return memories

    # -- reading

    @verb("POST /memories/search")
    async def recall(
        self,
        scope: WhichScopes,
        query: Query,
        *,
        limit: Hits | None = None,
        min_score: Cosine | None = None,
        filter: MaskedFilter = Filter(),
        embedding: Vector | None = None,
        explain: bool = False,
        deliver: bool = True,
        gate: bool = False,
        handover: bool = False,
        history: Sequence[Turn] = (),
        budget_tokens: int | None = None,
        timeout_seconds: Seconds | None = None,
        as_of: Time | None = None,
        session_id: SessionId | None = None,
    ) -> Recall:
        """Find the memories that answer a query, best first.

        Args:
            scope: whose memories to search; several scopes, as a list or as `Scopes(…)` (all of a
                user's agents, or of a tenant), are ranked together, at most 1,000.
            query: a question or keywords, up to 16,384 characters. May be empty if `embedding` is
                given.
            limit: the most hits to return, up to 1,000. None: the setting `search_limit`.
            min_score: the lowest cosine to the full query for memories that only the vector search
                found; no effect in keyword mode. None: the setting.
            filter: which memories to search.
            embedding: the caller's vector of the query, to search the vectors that callers brought;
                see `add`.
            explain: say why each memory was found. Fills `Hit.why` and `Recall.left_out`, and
                counts no delivery.
            deliver: count the hits as delivered.
            gate: return nothing if the gate decides that the text needs no memory; `degraded` then
                says "gated".
            handover: the hits are meant for a model: return none unless one of the first five
                reaches the relevance `handover_floor`.
            history: the last user turns, oldest first, to complete a vague query; at most three
                count.
            budget_tokens: the most tokens in the contents of the hits (4 ASCII characters, or 1
                other, per token).
            timeout_seconds: how long the caller waits. Models that help the search get a part of
                it, and the search goes on without one that is late. None: the settings.
            as_of: answer as at this time, from the history of memories. What was forgotten or
                pruned since stays gone. Counts no delivery, and reads at most 50,000 memories.
            session_id: the session that asks, whose short-term memories are searched too. It does
                not narrow the search; `Filter(session_id=…)` does.

        Raises:
            InvalidInput: the query, limit, vector or time is invalid, or there are no or too many
                scopes.
            StoreError: the database is unavailable. An unavailable embedder only lowers the mode.
        """
        until = models_until(timeout_seconds)
        now = self.clock()
        at = as_of or now
        if at > now:
            raise InvalidInput("as_of lies in the future; leave it out for what is answered now.")
        texts = [turn[:MAX_QUERY_CHARS] for turn in (query, *history[-EARLIER_TURNS:])]
        text, *earlier = await each_aside(texts, len, self.redactors.mask)
        scopes = await self._resolve(scope)
        settings = self.settings
        search = Search(
            scopes=scopes,
            text=text,
            question=await run_in_thread(
                sum(map(len, [text, *earlier])), Question.read, text, at, earlier
            ),
            now=at,
            limit=settings.search_limit if limit is None else limit,
            min_score=settings.min_score if min_score is None else min_score,
            floor=settings.handover_floor if handover else 0.0,
            # superseded and quarantined memories are listed, never searched
            filter=replace(filter, superseded=False) if filter.superseded else filter,
            explain=explain,
            history=earlier,
            external_vector=None
            if embedding is None
            else (await self.space_for(embedding), embedding),
            budget_tokens=budget_tokens,
            as_of=as_of,
            session_id=session_id,
            models_until=until,
        )
        with self.operation("search_memory", *scopes, query=text) as span:
            answer = await self.retriever.gated(search) if gate else None
            if answer is None:
                answer = await self.retriever.search(search)
            gated = GATED in answer.degraded
            span.searched(answer.mode, gated=gated)
            if not gated:
                span.records((hit.memory.id, hit.memory.content, hit.score) for hit in answer.hits)
        if deliver and not explain and as_of is None:
            self.deliveries.count_answer(scopes, answer)
        return answer

    async def _resolve(self, which: WhichScopes) -> list[Scope]:
        """Expand `Scopes` patterns into the scopes that exist, each once."""
        patterns = which if isinstance(which, Sequence) else [which]
        if not patterns:
            raise InvalidInput("Name at least one scope to search.")
        scopes = dict[Scope, None]()
        for pattern in patterns:
            matching = (
                [pattern]
                if isinstance(pattern, Scope)
                else await self.store.scopes(**asdict(pattern), limit=MAX_SCOPES + 1)
            )
            scopes |= dict.fromkeys(matching)
            if len(scopes) > MAX_SCOPES:
                raise InvalidInput(
                    f"A search covers at most {MAX_SCOPES:,} scopes. Narrow it by user or app."
                )
        return [*scopes]

    @verb("GET /memories/{id}")
    async def get(self, scope: Scope, id: str, *, superseded: bool = False) -> Memory:
        """Return one visible memory.

        Args:
            scope: the scope of the memory.
            id: the id of the memory.
            superseded: also return a superseded one.

        Raises:
            NotFound: no such memory, or it has expired.
        """
        return await self.stored(scope, id, superseded=superseded)

    @verb("GET /memories")
    async def list(
        self,
        scope: Scope,
        *,
        filter: MaskedFilter = Filter(),
        order: Order = "newest",
        limit: Count = 50,
        cursor: str | None = None,
    ) -> Page:
        """Return a page of visible memories; counts no delivery.

        Args:
            scope: the scope of the memories.
            filter: which memories to list.
            order: by the time they were stored.
            limit: the most memories to return.
            cursor: where the previous page ended.
        """
        return await self.store.memories.reader.list(
            scope, filter=filter, order=order, limit=limit, cursor=cursor, now=self.clock()
        )

    @verb("GET /facets")
    async def facets(
        self, scope: Scope, *, filter: MaskedFilter = Filter(), limit: Count = 100
    ) -> Facets:
        """Count the memories that match a filter, and list their most frequent topics and tags.

        Args:
            scope: the scope of the memories.
            filter: which memories to count.
            limit: the most topics, and the most tags, to return.
        """
        return await self.store.memories.facets(scope, filter=filter, most=limit, now=self.clock())

    @verb("GET /memories/{id}/history")
    async def history(self, scope: Scope, id: str) -> Sequence[Revision]:
        """Return the changes to a memory, superseded or not, oldest first: who, why, and the state
        before.

        Raises:
            NotFound: no such memory, or it has expired.
        """
        await self.stored(scope, id, superseded=True)
        return await self.store.memories.history(scope, id)


def _with_gate(gate: Gate | bool | None, settings: MemorySettings) -> tuple[Gate, MemorySettings]:
    """Return the gate, and the settings, in which True or False instead of a gate switches it on or
    off.

    Raises:
        ConfigurationError: this is no gate; the message says what a gate must have.
    """
    if gate is None or isinstance(gate, bool):
        return WordGate(), settings if gate is None else settings.updated({"gate": gate})
    searches = getattr(gate, "searches", None)
    if isinstance(gate, type) or not callable(searches) or inspect.iscoroutinefunction(searches):
        raise ConfigurationError(
            f"gate takes an object with a plain method searches(text), not {gate!r}; see "
            "Memories.open."
        )
    return gate, settings


def _providers(
    settings: MemorySettings,
    llm: str | bool | Llm | None,
    summary: SummaryProvider | None,
    resolve_llm: Callable[[str], Llm | None] | None,
) -> Providers:
    """Return the summary provider and the model from the arguments, or else from the settings; a
    name that LiteLLM does not know goes to `resolve_llm`.

    Raises:
        ConfigurationError: a name is unknown, or a choice has the wrong type.
    """
    if summary is not None:
        summary = with_settings(checked_provider(summary), settings)
    if isinstance(llm, str):
        llm = settings.updated({"llm": llm}).llm
    choice = settings.llm if llm is None else llm
    try:
        model = open_llm(choice, settings)
    except ConfigurationError:
        model = resolve_llm(choice.strip()) if resolve_llm and isinstance(choice, str) else None
        if model is None:
            raise
    return Providers(summary, model, allow_model=choice is not False, resolve=resolve_llm)


async def _open_database(uri: str, settings: MemorySettings, pool: object) -> Store:
    """Open and migrate the store of a URI.

    Raises:
        ConfigurationError: the pool or the URI is invalid.
        StoreError: the database cannot be reached.
    """
    if pool is not None and not uri.startswith("postgres"):
        raise ConfigurationError(
            "pool= takes connections to PostgreSQL; leave the URI out, or make it postgresql://…."
        )
    names = OpenOptions.__annotations__.keys() - {"schema", "pool"}
    options: dict[str, Any] = {name: getattr(settings, name) for name in names}
    return await open_store(uri, pool=pool, schema=settings.postgres_schema, **options)
