"""The verbs of `Memories` over a server's /api/v1: the caller holds no database password and needs no embedder."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_type_hints
from urllib.parse import quote

from typing_extensions import Unpack, override

from ..concurrency import run_in_thread
from ..errors import ConfigurationError, InvalidInput, KagentMemoryError, StoreError
from ..memories import Items, Memories, OpenedMemories, api
from ..memories.api import ForwardingMemories
from ..memories.audit import audit_each
from ..memories.findings import MOST_FINDINGS, Audit, Progress, checked_defects
from ..memories.forgetting import Which
from ..memories.forwarding import Call
from ..memories.options import (
    AddOptions,
    AuditOptions,
    EditOptions,
    ExportOptions,
    ForgetOptions,
    JobOptions,
    ListOptions,
    RememberOptions,
    ScopeOptions,
)
from ..memories.receipts import ReceiptCheck
from ..memories.transfer import Imported
from ..records import (
    Fact,
    Filter,
    Memory,
    Message,
    Mode,
    Recall,
    Scope,
    Scopes,
    WhichScopes,
    checked_time,
)
from ..retrieval.options import RecallOptions
from ..settings import MemorySettings, compose, scheme_of
from ..stores.base import Job, Page, Pruned, ScopeStats, checked_vector
from ..stores.receipts import Receipt
from ..stores.values import ForgottenTenant
from .serialization import from_wire, to_wire
from .transport import Transport, error_of, without_secrets

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger(__name__)

SCHEMES = ("http", "https")
ANSWER_SECONDS = 60.0
LONGEST_DRAIN_SECONDS = 30.0
TENANT_STEP = 1000  # memories of a tenant that one request erases
DRAIN_PAUSE_SECONDS = 0.5
PIECE = 2**18  # bytes of a file that are sent at once
_DEFAULTS = MemorySettings()
_ANSWERS = (ForgottenTenant, Imported, Job, Page, Pruned, Receipt, ReceiptCheck, ScopeStats)
Result = TypeVar("Result")


def is_remote(uri: str | None) -> bool:
    """Whether the URI, or without one the environment's, names a server instead of a database.

    Raises:
        ConfigurationError: not a URI.
    """
    named = (os.environ.get("KAGENT_MEMORY_URI") or "") if uri is None else uri
    return scheme_of(named) in SCHEMES


async def open_memories(uri: str | None = None, **options: Any) -> OpenedMemories:
    """`Memories.open`, or a server's memories when the URI is http(s).

    Raises:
        ConfigurationError: a setting does not fit.
        StoreError: the database or server cannot be reached.
    """
    if is_remote(uri):
        return await RemoteMemories.open(uri, **options)
    return await Memories.open(uri, **options)


class RemoteMemories(ForwardingMemories, OpenedMemories):
    """A server's memories."""

    def __init__(self, server: Transport, settings: MemorySettings, mode: Mode, *, needs_model: bool) -> None:
        self._server = server
        self._settings = settings
        self._mode: Mode = mode
        self._needs_model = needs_model

    @classmethod
    async def open(
        cls,
        uri: str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        **options: Any,
    ) -> Self:
        """Connects to the server.

        Args:
            uri: http://host:port of `kagent-memory serve`; None: KAGENT_MEMORY_URI.
            transport: httpx's; None: the network.
            **options: what `Memories.open` takes. Of the settings `tenant`, `token`, `search_limit`, `min_score` and
                `ttl_days` count here, the others are the server's; what only a server can have is refused, but for
                `resolve_llm`, as the server finds models itself.

        Raises:
            ConfigurationError: an option that only a server can have is given, or the token does not hold.
            StoreError: the server cannot be reached.
        """
        import httpx

        names = {field.name for field in fields(MemorySettings)} - {"embedding", "llm", "rerank"}
        passed: dict[str, object] = {name: value for name, value in options.items() if value is not None}
        passed.pop("resolve_llm", None)
        passed.pop("settings", None)
        if foreign := [name for name, value in passed.items() if name not in names and (name, value) != ("llm", False)]:
            raise ConfigurationError(f"{', '.join(foreign)}: set this where the server {uri or ''} is started.")
        bare, settings = compose(uri, options.get("settings"), passed, os.environ)
        headers = {"authorization": f"Bearer {settings.token}"} if settings.token else {}
        try:
            base = httpx.URL(f"{bare.rstrip('/')}/api/v1")
        except httpx.InvalidURL as error:
            raise ConfigurationError(f"Invalid server URI: {error}.") from error
        client = httpx.AsyncClient(base_url=base, headers=headers, timeout=ANSWER_SECONDS, transport=transport)
        server = Transport(client, without_secrets(bare))
        try:
            mode, needs_model = await server.info()
        except BaseException:
            await client.aclose()
            raise
        return cls(server, settings, mode, needs_model=needs_model)

    @property
    @override
    def settings(self) -> MemorySettings:
        return self._settings

    @property
    @override
    def location(self) -> str:
        return self._server.location

    @property
    @override
    def mode(self) -> Mode:
        return self._mode

    @override
    async def close(self) -> None:
        await self._server.close()  # the server goes on with what it accepted

    @override
    async def _forward(self, call: Call[Result], *, finish: bool) -> Result:
        """The verbs that a server takes and answers as they are; `over_http` says where."""
        declared, answer = _declaration(call.verb)
        try:
            bound = declared.bind(self, *call.args, **call.kwargs)
        except TypeError as error:
            raise TypeError(f"{call.verb.__name__}(): {error}") from None
        bound.apply_defaults()
        _, *given = ((name, value) for name, value in bound.arguments.items() if value is not None)
        values, (method, path) = dict(given), call.route
        scope = values.pop("scope", None)
        path = path.format_map({name: _part(values.pop(name)) for name in [*values] if f"{{{name}}}" in path})
        query, body = (values, None) if method == "GET" else (None, values or None)
        return from_wire(await self._server.request(method, path, scope, body, query), answer)

    # -- writing

    @override
    async def remember(
        self, scope: Scope, messages: Sequence[Message], session_id: str, **options: Unpack[RememberOptions]
    ) -> str | None:
        llm = options.pop("llm", None) if self._settings.llm is not False else None
        options.pop("llm", None)
        name = "" if llm is None else llm if isinstance(llm, str) else llm.name
        if name and self._needs_model:
            self._needs_model = False
            logger.warning(
                "The server %s has no model of its own: sessions wait in its queue for a worker that can make %r. "
                "Start it with KAGENT_MEMORY_LLM, or open this service with llm=False to store turns as they are said.",
                self.location,
                name,
            )
        body = {
            "session_id": session_id,
            "messages": [to_wire(message) for message in messages],
            "model": name,
            **options,
        }
        return (await self._server.request("POST", "/sessions", scope, body))["job"]

    @override
    async def add(self, scope: Scope, items: Items, **options: Unpack[AddOptions]) -> list[str]:
        facts = [item if isinstance(item, Fact) else Fact(text=item) for item in items]
        if self._settings.ttl_days != _DEFAULTS.ttl_days:
            facts = [
                replace(fact, ttl_days=self._settings.ttl_days) if fact.ttl_days is None else fact for fact in facts
            ]
        vectors = options.pop("embedding", None)
        # metadata as given: the record's own serialisation would make nulls and texts of what is not JSON
        given = [dict(m) if isinstance(m := fact.metadata, Mapping) else m for fact in facts]  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
        body = {
            "items": [
                {**to_wire(replace(fact, metadata={})), "metadata": metadata}
                for fact, metadata in zip(facts, given, strict=True)
            ],
            "vectors": None if vectors is None else [checked_vector(vector, None).tolist() for vector in vectors],
            **options,
        }
        return (await self._server.request("POST", "/memories", scope, body))["ids"]

    @override
    async def edit(self, scope: Scope, id: str, **options: Unpack[EditOptions]) -> Memory:
        happened_at = options.get("happened_at")
        body = {**options, "happened_at": happened_at and happened_at.isoformat()}
        return from_wire(await self._server.request("PATCH", f"/memories/{_part(id)}", scope, body), Memory)

    @override
    async def forget(
        self, scope: Scope, ids: Sequence[str] | str = (), **options: Unpack[ForgetOptions]
    ) -> tuple[str, ...]:
        which = Which(ids=(ids,) if isinstance(ids, str) else tuple(ids), **options)
        if which.is_empty:
            return ()
        return tuple((await self._server.request("POST", "/memories/forget", scope, to_wire(which)))["ids"])

    @override
    async def reject(self, scope: Scope, id: str, *, who: str = "") -> tuple[str, ...]:
        return tuple((await self._server.request("POST", f"/memories/{_part(id)}/reject", scope, {"who": who}))["ids"])

    # -- reading

    @override
    async def recall(self, scope: WhichScopes, query: str, **options: Unpack[RecallOptions]) -> Recall:
        vector, as_of = options.pop("embedding", None), checked_time(options.pop("as_of", None), "as_of")
        # What this side sets otherwise than by default; the rest is the server's to say.
        values = {"limit": self._settings.search_limit, "min_score": self._settings.min_score}
        defaults = {"limit": _DEFAULTS.search_limit, "min_score": _DEFAULTS.min_score}
        body = {
            **{name: value for name, value in values.items() if value != defaults[name]},
            **{name: value for name, value in options.items() if value is not None},
            "query": query,
            "as_of": as_of and as_of.isoformat(),
            "filter": to_wire(options.get("filter", Filter())),
            "vector": None if vector is None else checked_vector(vector, None).tolist(),
        }
        if isinstance(scope, Scope):
            return from_wire(await self._server.request("POST", "/memories/search", scope, body), Recall)
        body["scopes"] = [to_wire(one) for one in ([scope] if isinstance(scope, Scopes) else scope)]
        return from_wire(await self._server.request("POST", "/search", body=body), Recall)

    @override
    async def list(self, scope: Scope, **options: Unpack[ListOptions]) -> Page:
        query = {name: value for name, value in options.items() if name != "filter" and value is not None}
        for name, value in to_wire(options.get("filter", Filter())).items():
            if value not in (None, [], {}):
                query[name] = json.dumps(value) if name == "metadata" else value
        return from_wire(await self._server.request("GET", "/memories", scope, query=query), Page)

    @override
    async def scopes(self, **options: Unpack[ScopeOptions]) -> Sequence[Scope]:
        after = options.pop("after", None)
        query = {name: value for name, value in options.items() if value is not None}
        if after is not None:
            query |= {"after_tenant": after.tenant, "after_user": after.user, "after_app": after.app}
        return from_wire(await self._server.request("GET", "/scopes", query=query), list[Scope])

    # -- the queue and maintenance

    @override
    async def jobs(self, **options: Unpack[JobOptions]) -> Sequence[Job]:
        scope = options.pop("scope", None)
        options.pop("payloads", None)
        query = {name: value for name, value in options.items() if value is not None}
        return from_wire(await self._server.request("GET", "/jobs", scope, query=query), list[Job])

    @override
    async def forget_tenant(self, tenant: str, *, limit: int | None = None, who: str = "") -> ForgottenTenant:
        erased = ForgottenTenant(done=False)
        while not erased.done:
            body = {"tenant": tenant, "limit": TENANT_STEP if limit is None else limit, "who": who}
            erased += from_wire(await self._server.request("POST", "/tenants/forget", body=body), ForgottenTenant)
            if limit is not None:
                break
        return erased

    @override
    async def export(self, **options: Unpack[ExportOptions]) -> AsyncGenerator[str]:
        query = {name: value for name, value in options.items() if value is not None}
        last = ""
        async with aclosing(self._server.lines("GET", "/export", query=query)) as lines:
            async for line in lines:
                yield line
                last = line
        if not last.startswith('{"end"'):
            raise StoreError(f"The export of {self.location} was cut off; call it again.")

    @override
    async def import_(
        self,
        path: Path | str,
        *,
        tenant: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Imported:
        query: dict[str, Any] = {"dry_run": dry_run} | ({} if tenant is None else {"tenant": tenant})
        done: Imported | None = None
        async with aclosing(self._server.lines("POST", "/import", query=query, content=_pieces(Path(path)))) as lines:
            async for line in lines:
                told = json.loads(line)
                if "error" in told:
                    raise error_of(told["error"], f"The server {self.location} could not import it.")
                if "imported" in told:
                    done = from_wire(told["imported"], Imported)
                elif progress is not None:
                    progress(told["done"])
        if done is None:
            raise StoreError(f"The import into {self.location} was cut off; call it again to continue.")
        return done

    @override
    async def receipts(self, *, tenant: str | None = None, after: int = 0, limit: int = 100) -> Sequence[Receipt]:
        whose = (self._settings.tenant or None) if tenant is None else tenant
        query = {"after": after, "limit": limit} | ({} if whose is None else {"tenant": whose})
        return from_wire(await self._server.request("GET", "/receipts", query=query), list[Receipt])

    @override
    async def audit(self, scope: Scope | Scopes | None = None, **options: Unpack[AuditOptions]) -> Audit:
        defects, most = checked_defects(options.get("defects")), options.get("most", MOST_FINDINGS)

        async def one(whose: Scope) -> Audit:
            query = {"defects": list(defects), "most": most}
            part = from_wire(await self._server.request("GET", "/audit", whose, query=query), Audit)
            if (progress := options.get("progress")) is not None:
                progress(part.memories)
            return part

        return await audit_each(self, scope, one, most=most)

    @override
    async def check(self) -> Mapping[str, str]:
        try:
            return await self._server.request("GET", "/check")
        except KagentMemoryError as error:
            return {"store": str(error)}

    @override
    async def drain(self, timeout: float = 30.0) -> bool:
        end = time.monotonic() + timeout
        while True:
            left = max(0.0, min(end - time.monotonic(), LONGEST_DRAIN_SECONDS))
            try:
                if (await self._server.request("POST", "/drain", body={"timeout_seconds": left}))["drained"]:
                    return True
            except StoreError:
                return False
            if (left := end - time.monotonic()) <= 0:
                return False
            await asyncio.sleep(min(left, DRAIN_PAUSE_SECONDS))  # dead letters are answered at once


@cache
def _declaration(verb: Callable[..., Any]) -> tuple[inspect.Signature, Any]:
    """What a verb takes, and of what type its answer is."""
    declared = inspect.signature(verb)
    stated = SimpleNamespace(__annotations__={"return": declared.return_annotation})
    kinds = get_type_hints(stated, {**vars(api)}, {kind.__name__: kind for kind in _ANSWERS})
    return declared, kinds["return"]


def _part(id: str) -> str:
    return quote(id, safe="")


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := await run_in_thread(PIECE, file.read, PIECE):
                yield piece
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}.") from error
