"""The verbs of `Memories` over a server's /api/v1: the caller holds no database password and needs no embedder."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from ..errors import ConfigurationError, KagentMemoryError, StoreError
from ..memories import Items, Memories
from ..models.llm import Llm
from ..records import Change, Fact, Filter, Memory, MemoryType, Message, Mode, Recall, Revision, Scope, Vector
from ..settings import MemorySettings, compose, scheme_of
from ..stores.base import Job, JobState, Order, Page, Pruned, ScopeStats
from .serialization import from_wire, to_wire
from .transport import Transport, without_secrets

log = logging.getLogger("kagent_memory")

SCHEMES = ("http", "https")
ANSWER_SECONDS = 60.0
LONGEST_DRAIN_SECONDS = 30.0
DRAIN_PAUSE_SECONDS = 0.5
_DEFAULTS = MemorySettings()


def is_remote(uri: str | None) -> bool:
    """Whether the URI, or without one the environment's, names a server instead of a database.

    Raises:
        ConfigurationError: not a URI.
    """
    named = (os.environ.get("KAGENT_MEMORY_URI") or "") if uri is None else uri
    return scheme_of(named) in SCHEMES


async def open_memories(uri: str | None = None, **options: Any) -> Memories | RemoteMemories:
    """`Memories.open`, or a server's memories when the URI is http(s).

    Raises:
        ConfigurationError: a setting does not fit.
        StoreError: the database or server cannot be reached.
    """
    if is_remote(uri):
        return await RemoteMemories.open(uri, **options)
    return await Memories.open(uri, **options)


class RemoteMemories:
    """A server's memories; the arguments, answers and errors of the verbs are those of `Memories`."""

    def __init__(self, client: httpx.AsyncClient, settings: MemorySettings, location: str, mode: Mode) -> None:
        self.settings = settings
        self.location = location
        self.mode: Mode = mode
        self._door = Transport(client, location)
        self._needs_model = False
        self._names_models = settings.llm is not False

    @classmethod
    async def open(
        cls,
        uri: str | None = None,
        *,
        settings: MemorySettings | None = None,
        resolve_llm: Any = None,
        transport: httpx.AsyncBaseTransport | None = None,
        **options: Any,
    ) -> Self:
        """Greets the server.

        Args:
            uri: http://host:port of `kagent-memory serve`; None: KAGENT_MEMORY_URI.
            settings: instead of the environment's; `tenant`, `token`, `search_limit`, `min_score` and `ttl_days`
                count here, the others are the server's.
            resolve_llm: what `Memories.open` takes; the server finds models itself.
            transport: httpx's; None: the network.
            **options: fields of `MemorySettings`.

        Raises:
            ConfigurationError: an option that only a server can have is given, or the token does not hold.
            StoreError: the server cannot be reached.
        """
        known = {field.name for field in fields(MemorySettings)}
        servers = {"embedding", "llm", "rerank"}
        foreign = [
            name for name, value in options.items() if value is not None and (name not in known or name in servers)
        ]
        if options.get("llm") is False and "llm" in foreign:  # the agents' models are not to be named either
            foreign.remove("llm")
        if foreign:
            raise ConfigurationError(f"{', '.join(foreign)}: set this where the server {uri or ''} is started.")
        given = {name: value for name, value in options.items() if name in known and value is not None}
        bare, settings = compose(uri, settings, given, os.environ)
        headers = {"authorization": f"Bearer {settings.token}"} if settings.token else {}
        try:
            base = httpx.URL(f"{bare.rstrip('/')}/api/v1")
        except httpx.InvalidURL as error:
            raise ConfigurationError(f"Invalid server URI: {error}.") from error
        client = httpx.AsyncClient(base_url=base, headers=headers, timeout=ANSWER_SECONDS, transport=transport)
        opened = cls(client, settings, without_secrets(bare), "keyword")
        try:
            opened.mode, opened._needs_model = await opened._door.greet()
        except BaseException:
            await client.aclose()
            raise
        return opened

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections; the server goes on with what it accepted."""
        await self._door.close()

    # -- the write river ------------------------------------------------------------------------

    async def remember(
        self,
        scope: Scope,
        messages: Sequence[Message],
        session_id: str,
        *,
        ended: bool = False,
        save: bool = True,
        end_after_minutes: float | None = None,
        compaction: bool = False,
        llm: Llm | str | None = None,
    ) -> str | None:
        """See `Memories.remember`; of `llm` only the name travels: the transcript waits in the server's queue until a
        worker can make a model of that name, unless the server has one of its own.
        """
        name = "" if llm is None or not self._names_models else llm if isinstance(llm, str) else llm.name
        if name and self._needs_model:
            self._needs_model = False
            log.warning(
                "The server %s has no model of its own: sessions wait in its queue for a worker that can make %r. "
                "Start it with KAGENT_MEMORY_LLM, or open this service with llm=False to store turns as they are said.",
                self.location,
                name,
            )
        body = {
            "session_id": session_id,
            "messages": [to_wire(message) for message in messages],
            "ended": ended,
            "save": save,
            "end_after_minutes": end_after_minutes,
            "compaction": compaction,
            "model": name,
        }
        return (await self._door.ask("POST", "/sessions", scope, body))["job"]

    async def end_session(self, scope: Scope, session_id: str) -> None:
        """See `Memories.end_session`."""
        await self._door.ask("POST", "/sessions/end", scope, {"session_id": session_id})

    async def add(
        self,
        scope: Scope,
        items: Items,
        *,
        embedding: Sequence[Vector] | None = None,
        generation: str | None = None,
        who: str = "",
        replaces: str | None = None,
    ) -> list[str]:
        """See `Memories.add`."""
        facts = [item if isinstance(item, Fact) else Fact(text=item) for item in items]
        body = {
            "items": [_item(self._with_ttl(fact)) for fact in facts],
            "vectors": None if embedding is None else [[float(x) for x in vector] for vector in embedding],
            "generation": generation,
            "who": who,
            "replaces": replaces,
        }
        return (await self._door.ask("POST", "/memories", scope, body))["ids"]

    def _with_ttl(self, fact: Fact) -> Fact:
        own = self.settings.ttl_days
        return fact if fact.ttl_days is not None or own == _DEFAULTS.ttl_days else replace(fact, ttl_days=own)

    async def edit(
        self,
        scope: Scope,
        id: str,
        *,
        content: str | None = None,
        type: MemoryType | None = None,
        topics: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        importance: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        ttl_days: int | None = None,
        happened_at: datetime | None = None,
        revision: int | None = None,
        who: str = "",
        why: str = "",
    ) -> Memory:
        """See `Memories.edit`."""
        body = {
            "content": content,
            "type": type,
            "topics": None if topics is None else list(topics),
            "tags": None if tags is None else list(tags),
            "importance": importance,
            "metadata": metadata,
            "ttl_days": ttl_days,
            "happened_at": happened_at and happened_at.isoformat(),
            "revision": revision,
            "who": who,
            "why": why,
        }
        return from_wire(await self._door.ask("PATCH", f"/memories/{_part(id)}", scope, body), Memory)

    async def pin(self, scope: Scope, id: str, pinned: bool = True, *, who: str = "") -> Memory:
        """See `Memories.pin`."""
        body = {"pinned": pinned, "who": who}
        return from_wire(await self._door.ask("PUT", f"/memories/{_part(id)}/pin", scope, body), Memory)

    async def forget(
        self,
        scope: Scope,
        ids: Sequence[str] | str = (),
        *,
        session_id: str | None = None,
        everything: bool = False,
    ) -> tuple[str, ...]:
        """See `Memories.forget`."""
        wanted = [ids] if isinstance(ids, str) else list(ids)
        if not wanted and session_id is None and not everything:
            return ()
        body = {"ids": wanted, "session_id": session_id, "everything": everything}
        return tuple((await self._door.ask("POST", "/memories/forget", scope, body))["ids"])

    async def undo(self, scope: Scope, id: str, *, who: str = "") -> tuple[Memory, ...]:
        """See `Memories.undo`."""
        return from_wire(
            await self._door.ask("POST", f"/memories/{_part(id)}/undo", scope, {"who": who}), tuple[Memory, ...]
        )

    async def feedback(self, scope: Scope, id: str, *, success: bool) -> None:
        """See `Memories.feedback`."""
        await self._door.ask("POST", f"/memories/{_part(id)}/feedback", scope, {"success": success})

    # -- the read river -------------------------------------------------------------------------

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
        """See `Memories.recall`."""
        own = self.settings
        body = {
            "query": query,
            "limit": own.search_limit if limit is None and own.search_limit != _DEFAULTS.search_limit else limit,
            "min_score": own.min_score if min_score is None and own.min_score != _DEFAULTS.min_score else min_score,
            "filter": to_wire(filter),
            "vector": None if embedding is None else [float(x) for x in embedding],
            "generation": generation,
            "explain": explain,
            "deliver": deliver,
            "gate": gate,
            "tool": tool,
            "is_fact": is_fact,
            "history": list(history),
            "budget_tokens": budget_tokens,
            "timeout_seconds": timeout_seconds,
        }
        return from_wire(await self._door.ask("POST", "/memories/search", scope, body), Recall)

    async def get(self, scope: Scope, id: str, *, superseded: bool = False) -> Memory:
        """See `Memories.get`."""
        query = {"superseded": True} if superseded else None
        return from_wire(await self._door.ask("GET", f"/memories/{_part(id)}", scope, query=query), Memory)

    async def list(
        self,
        scope: Scope,
        *,
        filter: Filter = Filter(),
        order: Order = "newest",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        """See `Memories.list`."""
        given = {name: value for name, value in to_wire(filter).items() if value not in (None, [], {})}
        if "metadata" in given:
            given["metadata"] = json.dumps(given["metadata"])
        query = {**given, "order": order, "limit": limit, **({"cursor": cursor} if cursor else {})}
        return from_wire(await self._door.ask("GET", "/memories", scope, query=query), Page)

    async def history(self, scope: Scope, id: str) -> Sequence[Revision]:
        """See `Memories.history`."""
        return from_wire(await self._door.ask("GET", f"/memories/{_part(id)}/history", scope), list[Revision])

    async def stats(self, scope: Scope) -> ScopeStats:
        """See `Memories.stats`."""
        return from_wire(await self._door.ask("GET", "/stats", scope), ScopeStats)

    # -- upkeep ---------------------------------------------------------------------------------

    async def jobs(
        self,
        *,
        scope: Scope | None = None,
        tenant: str | None = None,
        user: str | None = None,
        app: str | None = None,
        state: JobState | None = None,
        limit: int = 100,
        id: str | None = None,
        payloads: bool = False,
    ) -> Sequence[Job]:
        """See `Memories.jobs`; the payloads stay at the server in any case."""
        query = _given(tenant=tenant, user=user, app=app, state=state, limit=limit, id=id)
        return from_wire(await self._door.ask("GET", "/jobs", scope, query=query), list[Job])

    async def retry_job(self, job_id: str) -> None:
        """See `Memories.retry_job`."""
        await self._door.ask("POST", f"/jobs/{_part(job_id)}/retry")

    async def drop_job(self, job_id: str) -> None:
        """See `Memories.drop_job`."""
        await self._door.ask("DELETE", f"/jobs/{_part(job_id)}")

    async def prune(self, *, dry_run: bool = False) -> Pruned:
        """See `Memories.prune`."""
        return from_wire(await self._door.ask("POST", "/prune", body={"dry_run": dry_run}), Pruned)

    async def consolidate(self, scope: Scope, *, dry_run: bool = False) -> Sequence[Change]:
        """See `Memories.consolidate`."""
        return from_wire(await self._door.ask("POST", "/consolidate", scope, {"dry_run": dry_run}), tuple[Change, ...])

    async def scopes(
        self,
        *,
        tenant: str | None = None,
        user: str | None = None,
        app: str | None = None,
        after: Scope | None = None,
        limit: int = 1000,
    ) -> Sequence[Scope]:
        """See `Memories.scopes`."""
        last = {f"after_{name}": getattr(after, name) for name in ("tenant", "user", "app")} if after else {}
        query = _given(tenant=tenant, user=user, app=app, limit=limit, **last)
        return from_wire(await self._door.ask("GET", "/scopes", query=query), list[Scope])

    async def check(self) -> Mapping[str, str]:
        """See `Memories.check`."""
        try:
            return await self._door.ask("GET", "/check")
        except KagentMemoryError as error:
            return {"store": str(error)}

    async def drain(self, timeout: float = 30.0) -> bool:  # noqa: ASYNC109 the name of the verb
        """See `Memories.drain`."""
        end = time.monotonic() + timeout
        while True:
            left = max(0.0, min(end - time.monotonic(), LONGEST_DRAIN_SECONDS))
            try:
                if (await self._door.ask("POST", "/drain", body={"timeout_seconds": left}))["drained"]:
                    return True
            except StoreError:
                return False
            if (left := end - time.monotonic()) <= 0:
                return False
            await asyncio.sleep(min(left, DRAIN_PAUSE_SECONDS))  # dead letters are answered at once


def _item(fact: Fact) -> dict[str, Any]:
    # metadata as given, and what is no JSON in it refused: the record's own way would make nulls and texts of it
    return {**to_wire(replace(fact, metadata={})), "metadata": dict(fact.metadata)}


def _given(**values: str | int | None) -> dict[str, str | int]:
    return {name: value for name, value in values.items() if value is not None}


def _part(id: str) -> str:
    return quote(id, safe="")
