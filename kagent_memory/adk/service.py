"""`KagentMemoryService`: ADK's memory service, callable from any event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from cachetools import LRUCache
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from typing_extensions import override

from ..concurrency import run_in_thread
from ..errors import ConfigurationError, KagentMemoryError, StoreError
from ..records import Scope, current_tenant
from ..settings import EmbeddingConfig, MemorySettings, compose, scheme_of
from .adk_llm import AdkLlm, checked_llm, resolve_llm
from .converter import messages, to_entry, to_fact, to_fields
from .loop_thread import Availability, LoopThread
from .sessions import MEMORY_KEY, SessionState, reach_back, recordable
from .sync_memories import SyncMemories, ThreadsafeMemories

if TYPE_CHECKING:
    from ..ingestion.summary_provider import SummaryProvider
    from ..memories import Memories
    from ..models.embedding import Embedder
    from ..models.llm import Llm

EVENT_WEIGHT = 100  # the size of an event, in characters that take as long to read
NOWHERE = Scope("", "", "")
MAX_SESSIONS = 10_000
DRAIN_GRACE_SECONDS = 0.5
ScopeOf = Callable[[str, str], Scope | tuple[Sequence[Scope], Scope]]
_OPEN_OPTIONS = frozenset(
    {"rerank", "gate", "rank", "importance_weights", "redact", "clock", "pool"}
)  # options of Memories.open that are no settings


class KagentMemoryService(BaseMemoryService):
    """Long-term memory for ADK agents, in a libSQL file or in Postgres.

    The constructor does no I/O. The first use opens the store, so every verb raises
    ConfigurationError if it cannot be opened as configured, and StoreError if it is unavailable,
    which is never reported as "nothing found". `async with` and `with` close the service;
    `memories` has its verbs for any event loop, and `sync` the same without `await`.

    Args:
        uri: the store; None: KAGENT_MEMORY_URI, MEMORY_BACKEND/DATABASE_URL, or memory.db in the
            working directory. `kagent:///file.db` is a libSQL file too.
        embedding: None (keyword search), a LiteLLM model name, an `EmbeddingConfig`, or any object
            with `embed`.
        llm: None (the agent's own model, for auto-save only), False (never), a LiteLLM model name,
            an ADK model, or any object with `complete`.
        summary: turns transcripts into facts: `LlmSummary`, `CompactionAwareSummary`,
            `PassthroughSummary`, or any object with `facts`; None: the model if there is one,
            otherwise turns are stored as they are.
        settings: used instead of the environment variables.
        scope_of: maps (app_name, user_id) to the scope of the memories; default:
            `Scope(settings.tenant, user_id, app_name)`, with the tenant of `with tenant(…)` if the
            application uses it. A pair of a list and a scope, `([own, team], own)`, gives the
            scopes to read and the one to write.
        agents_dir: passed by ADK's command line; relative files stay relative to the working
            directory.
        **options: fields of `MemorySettings`, and `rerank`, `gate`, `rank`, `importance_weights`,
            `redact` and `clock` of `Memories.open`; `pool` as a function that makes one.

    Raises:
        ConfigurationError: a setting is invalid.
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        embedding: str | EmbeddingConfig | Mapping[str, Any] | Embedder | None = None,
        llm: str | bool | BaseLlm | Llm | None = None,
        summary: SummaryProvider | None = None,
        settings: MemorySettings | None = None,
        scope_of: ScopeOf | None = None,
        agents_dir: str | None = None,
        **options: Any,
    ) -> None:
        uri = _database_uri(uri)
        fields = {name: value for name, value in options.items() if name not in _OPEN_OPTIONS}
        _, composed = compose(uri, settings, fields, os.environ)
        if hasattr(options.get("pool"), "getconn"):
            raise ConfigurationError(
                "A pool belongs to the event loop that opened it, and a service works on one of "
                "its own: pass a "
                "function that makes the pool (pool=make_pool), or use Memories.open(pool=…)."
            )
        self.settings = composed
        self._scope_of = scope_of

        # holds no reference to the service, whose thread ends when it is garbage collected
        async def opener() -> Memories:
            # imports most of the package, on a loop that runs nothing else yet
            from ..remote import open_memories

            return await open_memories(
                uri,
                **options,
                embedding=embedding,
                llm=AdkLlm(llm) if isinstance(llm, BaseLlm) else llm,
                summary=summary,
                resolve_llm=partial(resolve_llm, settings=composed),
                settings=settings,
            )

        self._thread = LoopThread(opener, methodcaller("close"))
        # for each task that polls for a session's compaction, the function that checks at once
        self.compaction_checks: dict[asyncio.Task[None], Callable[[], Awaitable[object]]] = {}
        self._lock = threading.Lock()
        self._states = LRUCache[tuple[str | None, ...], SessionState](MAX_SESSIONS)

        async def ping(memories: Memories) -> None:
            with suppress(KagentMemoryError):  # an error is an answer too
                await memories.get(NOWHERE, "-")

        self.availability = Availability(partial(self._thread.start, ping))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.close_blocking()

    @property
    def memories(self) -> Memories:
        """Return the verbs for use from any event loop."""
        return ThreadsafeMemories(self._thread)

    @property
    def sync(self) -> SyncMemories:
        """Return the verbs without `await`, for programs without an event loop:
        `memory.sync.add(…)`.
        """
        return SyncMemories(self._thread)

    def scope(self, app_name: str, user_id: str) -> Scope:
        """Return the scope to which a user's memories of an app are written, in the tenant of `with
        tenant(…)` or else of the setting.

        Raises:
            ConfigurationError: `scope_of` returned something invalid, or a scope of another tenant
                than the run's.
        """
        return self.scopes(app_name, user_id)[1]

    def scopes(self, app_name: str, user_id: str) -> tuple[Sequence[Scope], Scope]:
        """Return the scopes to search for a user of an app, and the one to write.

        Raises:
            ConfigurationError: as for `scope`.
        """
        tenant = current_tenant()
        if self._scope_of is None:
            own = Scope(tenant or self.settings.tenant, user_id, app_name)
            return [own], own
        result: Any = self._scope_of(app_name, user_id)
        match result:
            case Scope():
                reading, writing = [result], result
            case [[*reading], Scope() as writing] if {*map(type, reading)} == {Scope}:
                pass
            case _:
                raise ConfigurationError(
                    "scope_of must return a Scope(tenant, user, app), or a pair of the list of "
                    "scopes to read and the scope to write, such as ([own, team], own); "
                    f"not {result!r}."
                )
        for scope in (writing, *reading):
            if tenant is not None and scope.tenant != tenant:
                raise ConfigurationError(
                    f"scope_of returned a scope of the tenant {scope.tenant!r} inside `with "
                    f"tenant({tenant!r})`; return "
                    "one of current_tenant(), or leave the `with` out."
                )
        return reading, writing

    def state(self, session: Session) -> SessionState:
        """Return the state of a session in this process, the same for every copy of the session."""
        key = current_tenant(), session.app_name, session.user_id, session.id
        with self._lock:
            return self._states.setdefault(key, SessionState())

    # -- ADK's five methods ---------------------------------------------------------------------

    @override
    async def add_session_to_memory(self, session: Session) -> None:
        """Queue the new events of a session, and return when they are durable.

        Args:
            session: the session with its events; adding it again adds only new ones.

        Raises:
            StoreError: the events could not be queued.
        """
        await self.remember(session)

    @override
    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Queue events, and return when they are durable; ingested events are skipped.

        Args:
            app_name: the name of the app.
            user_id: the user whose memories these become.
            events: all or some events of the session, oldest first.
            session_id: the session of the events.
            custom_metadata: metadata for all resulting memories, as in `add_memory`; its
                `session_id` is used if the argument is missing.

        Raises:
            InvalidInput: the metadata is invalid.
            StoreError: the events could not be queued.
        """
        fields = to_fields(custom_metadata)
        own = fields.pop("session_id", "")
        await self._queue(
            self.scope(app_name, user_id),
            session_id or own,
            [*events],
            {},
            SessionState(),
            fields,
        )

    @override
    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store memories as given, all or none, and return when they are durable.

        Args:
            app_name: the name of the app.
            user_id: the user whose memories these become.
            memories: entries with a text each; `timestamp` (ISO 8601, UTC without a zone) is when
                it happened.
            custom_metadata: metadata for all entries; an entry's own wins. `session_id`, `ttl_days`
                (0: forever) or `ttl` ("6000s", rounded up to days), `type`, `topics`, `tags`,
                `importance` (0 to 1), `pinned` and `origin` become fields of the memory, which
                `memories.get` returns. Every other key is stored and comes back from a search
                unchanged.

        Raises:
            InvalidInput: an entry or the metadata is invalid.
            ModelError: the embedder gave an unusable answer; an unavailable one is no error, since
                vectors are added later.
            StoreError: the memories could not be stored.
        """
        fields = to_fields(custom_metadata)
        facts = [to_fact(entry, fields) for entry in memories]
        await self.memories.add(self.scope(app_name, user_id), facts)

    @override
    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return the memories that answer the query, best first, at most `search_limit`, narrowed
        by `search_*`.

        Args:
            app_name: the name of the app.
            user_id: the user whose memories to search.
            query: a question or keywords.

        Raises:
            InvalidInput: the query contains characters that no text may contain.
            StoreError: memory is unavailable; this never looks like an empty result.
        """
        recall = await self.availability.guard(
            self.memories.recall(self.scopes(app_name, user_id)[0], query)
        )
        return SearchMemoryResponse(memories=[to_entry(hit) for hit in recall])

    # ADK ≥ 2.13
    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Erase one memory for good; without an id erase nothing.

        Args:
            app_name: the name of the app.
            user_id: the user whose memory it is.
            memory_id: the `id` of an entry from a search; adding its session again does not bring
                it back.

        Raises:
            NotFound: this user of this app has no such memory.
            StoreError: memory is unavailable.
        """
        if memory_id is not None:
            await self.memories.forget(
                self.scope(app_name, user_id), [memory_id], who="delete_memory"
            )

    # -- beyond ADK -----------------------------------------------------------------------------

    async def delete_session(
        self, session_service: BaseSessionService, *, app_name: str, user_id: str, session_id: str
    ) -> tuple[str, ...]:
        """Delete a session from ADK's session service, then everything that memory learned from it,
        with its queued work.

        Adding the session's events again does not bring them back. If memory is unavailable, repeat
        the call to continue.

        Args:
            session_service: the service that keeps the session, which may be deleted there already.
            app_name: the name of the app.
            user_id: the user of the session.
            session_id: the id of the session.

        Returns:
            The ids of the erased memories.

        Raises:
            StoreError: memory is unavailable.
        """
        await session_service.delete_session(
            app_name=app_name, user_id=user_id, session_id=session_id
        )
        erased = await self.memories.forget(
            self.scope(app_name, user_id), session_id=session_id, who="delete_session"
        )
        return erased.ids

    async def remember(
        self,
        session: Session,
        *,
        llm: BaseLlm | None = None,
        **options: Any,
    ) -> bool:
        """Queue the new events of a session, and (re)arm its inactivity timer; durable on return.

        Args:
            session: the session, possibly the live object.
            llm: the agent's own model, for extraction if none is configured.
            **options: `save`, `end_after_minutes` and `compaction` of `Memories.remember`.

        Returns:
            True if there was something new to save.

        Raises:
            StoreError: the events could not be queued.
        """
        return await self._queue(
            self.scope(session.app_name, session.user_id),
            session.id,
            [*session.events],
            dict(session.state),
            self.state(session),
            {},
            **options,
            llm=llm and checked_llm(llm, self.settings),
        )

    async def _queue(
        self,
        scope: Scope,
        session_id: str,
        events: Sequence[Event],
        values: Mapping[str, Any],
        state: SessionState,
        fields: Mapping[str, Any],
        **options: Any,
    ) -> bool:
        """Queue events with fields for all resulting memories; see `Memories.remember`.

        `values` is the state that ADK keeps of their session. Return True if a job was queued.
        """

        async def queue(memories: Memories) -> bool:
            ids = tuple(event.id for event in events)
            count = len(state.mark)
            count = 0 if ids[:count] != state.mark or reach_back(events[count:]) else count
            # other events may hold recalled texts
            known = state.converted.intersection(ids[count:] + state.mark[-1:])
            ingested = (
                await memories.store.memories.taken(scope, session_id, [*known])
                if known and hasattr(memories, "store")  # a server alone knows its own
                else ()
            )
            if count and ids[count - 1] not in ingested:  # forgotten with its tenant
                count = 0
            recorded = recordable(events[count:], values)
            if events and not (count or recorded):
                return False  # all of it is off the record
            spoken = await run_in_thread(EVENT_WEIGHT * len(recorded), messages, recorded, ingested)
            state.add_recalled(text for message in spoken for text in message.recalled)
            waiting = {message.event_id for message in spoken}
            state.converted |= waiting
            for index, event in enumerate(recorded, count):
                if (
                    event is not events[index]
                    or event.partial
                    or event.id in waiting
                    or MEMORY_KEY in event.actions.state_delta
                ):
                    break
                if event.id in ingested:
                    count = index + 1
            state.mark = ids[:count]
            spoken = [replace(message, fields=fields) for message in spoken]
            if spoken and state.recalled:  # an echo may come turns after its source
                spoken.append(replace(spoken[-1], text="", recalled=state.recalled))
            return await memories.remember(scope, spoken, session_id, **options) is not None

        return await self._thread.run(queue, finish=True)

    async def end_session(self, session: Session, *, llm: BaseLlm | None = None) -> None:
        """End a session: queue its remaining events now, and drop its timer.

        Args:
            session: the session.
            llm: the agent's own model, for extraction if none is configured.

        Raises:
            StoreError: the events could not be queued.
        """
        await self.remember(session, llm=llm, save=False, end_after_minutes=0)

    async def drain(self, timeout: float = 30.0) -> bool:  # noqa: ASYNC109 part of the contract
        """Wait until every accepted job of this store is done, including those being queued.

        Args:
            timeout: the most seconds to wait.

        Returns:
            True if no job is open; False if `timeout` passes first or the store is unavailable.
        """

        async def drain(memories: Memories) -> bool:
            return await self._thread.join_detached(timeout) and await memories.drain(timeout)

        try:
            async with asyncio.timeout(timeout + DRAIN_GRACE_SECONDS):
                await self._check_compactions()
                return await self._thread.run(drain)
        except (StoreError, TimeoutError):
            return False

    async def close(self) -> None:
        """Drain within a limit and release everything; the next call opens the service again."""
        await self._check_compactions()
        await self._thread.close()

    async def _check_compactions(self) -> None:
        """Save the compactions that ADK made after the last hooks of its runs."""
        await asyncio.gather(*(check() for check in list(self.compaction_checks.values())))


def _database_uri(uri: str | None) -> str | None:
    """Return the URI of a store: a libSQL file for `kagent:` with a path, None without one."""
    if uri is None or scheme_of(str(uri)) != "kagent":
        return uri
    parts = urlsplit(uri)
    path = parts.path.strip("/")
    if parts.netloc or (parts.query and not path):
        raise ConfigurationError(
            "kagent:// takes a path (kagent:///memory.db); use postgresql:// for a server."
        )
    return f"libsql:{uri.partition(':')[2]}" if path else None
