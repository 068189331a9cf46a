"""The verbs of `Memories` over a server's /api/v1: the caller holds no database password and needs
no embedder.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, Self, cast
from urllib.parse import quote

from typing_extensions import TypedDict, override

from ..checks import json_text
from ..errors import ConfigurationError, KagentMemoryError, NotFound, StoreError, error_class
from ..memories.audit import DEFECTS, Audit
from ..memories.diagnosis import Diagnosis, bad
from ..memories.memories import Memories
from ..memories.opened import without_secrets
from ..memories.transfer import Imported, opened
from ..memories.verbs import Verb
from ..records import Fact, Mode, Scope
from ..settings import PREFIX, MemorySettings, compose, scheme_of
from ..stores.values import ForgottenTenant

if TYPE_CHECKING:
    import httpx
    from pydantic import TypeAdapter

logger = logging.getLogger(__name__)

SCHEMES = ("http", "https")
ANSWER_SECONDS = 60.0
MAX_DRAIN_SECONDS = 30.0
PIECE = 2**18  # bytes of a file that are sent at once
OWN_SETTINGS = frozenset({"tenant", "token"})
OWN_VARIABLES = {f"{PREFIX}{name}" for name in ("URI", "TENANT", "TOKEN")}


def is_remote(uri: str | None) -> bool:
    """Return True if the URI, or without one the environment's, names a server instead of a
    database.

    Raises:
        ConfigurationError: not a URI.
    """
    named = (os.environ.get("KAGENT_MEMORY_URI") or "") if uri is None else uri
    return scheme_of(named) in SCHEMES


async def open_memories(uri: str | None = None, **options: Any) -> Memories:
    """Open memories by `Memories.open`, or a server's when the URI is http(s).

    Raises:
        ConfigurationError: a setting does not fit.
        StoreError: the database or server cannot be reached.
    """
    if is_remote(uri):
        return await RemoteMemories.open(uri, **options)
    return await Memories.open(uri, **options)


class Info(TypedDict):
    """A server's description of itself: how it searches, and which models it makes for callers."""

    mode: Mode
    models: NotRequired[Sequence[str]]
    needs_model: NotRequired[bool]


class RemoteMemories(Memories):
    """A server's memories."""

    def __init__(self, client: httpx.AsyncClient, location: str, settings: MemorySettings) -> None:
        self._client = client
        self.location = location
        self.settings = settings
        self._info: Info = {"mode": "keyword"}

    @classmethod
    async def open(
        cls,
        uri: str | None = None,
        *,
        settings: MemorySettings | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        **options: Any,
    ) -> Self:
        """Connect to the server.

        Args:
            uri: http://host:port of `kagent-memory serve`; None: KAGENT_MEMORY_URI.
            settings: instead of the environment's variables.
            transport: httpx's; None: the network.
            **options: what `Memories.open` takes. Only the settings `tenant` and `token` and
                `llm=False` count here, the others are the server's: one that is given, in
                `settings` or the URI too, is refused, and one of the environment is warned of.
                `resolve_llm` is ignored, as the server finds models itself.

        Raises:
            ConfigurationError: an option that only a server can have is given, or the token does
                not hold.
            StoreError: the server cannot be reached.
        """
        import httpx
        from pydantic import TypeAdapter

        options.pop("resolve_llm", None)
        passed = {name: value for name, value in options.items() if value is not None}
        own = {name: value for name, value in passed.items() if _is_own(name, value)}
        environ = {name: os.environ[name] for name in OWN_VARIABLES & os.environ.keys()}
        bare, composed = compose(uri, settings, own, environ)
        location, changed = without_secrets(bare), composed.differences(MemorySettings())
        foreign = [
            name for name, value in {**passed, **changed}.items() if not _is_own(name, value)
        ]
        if foreign:
            raise ConfigurationError(
                f"{', '.join(foreign)}: set this where the server {location} is started."
            )
        # Kubernetes makes further variables, of services' names
        named = {f"{PREFIX}{setting.name.upper()}" for setting in fields(composed)}
        others = sorted(named & os.environ.keys() - environ.keys())
        if others and settings is None:
            logger.warning(
                "The server %s has settings of its own; these of the environment have no effect "
                "here: %s.",
                location,
                ", ".join(others),
            )
        headers = {"authorization": f"Bearer {composed.token}"} if composed.token else {}
        try:
            base = httpx.URL(f"{bare.rstrip('/')}/api/v1")
        except httpx.InvalidURL as error:
            raise ConfigurationError(f"Invalid server URI: {error}.") from error
        client = httpx.AsyncClient(
            base_url=base, headers=headers, timeout=ANSWER_SECONDS, transport=transport
        )
        memories = cls(client, location, composed)
        try:
            memories._info = await memories._read(TypeAdapter(Info), "GET", "/info")
        except BaseException:
            await client.aclose()
            raise
        memories.mode = memories._info["mode"]
        return memories

    @override
    async def close(self) -> None:
        await self._client.aclose()  # the server goes on with what it accepted

    @override
    def perform(self, verb: Verb, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Have the server perform a verb.

        Raises:
            ConfigurationError: only the process that opened the store can.
        """
        arguments = verb.checked(args, kwargs)
        return getattr(self, f"_{verb.name}", self._send)(verb, arguments)

    async def _send(self, verb: Verb, arguments: Mapping[str, Any]) -> Any:
        """Send a verb with its arguments, and read the answer."""
        if not verb.method:
            raise ConfigurationError(f"{verb.name} works where the store is opened: call it there.")
        return await self._read(verb.answer, verb.method, *_request(verb, arguments))

    async def _read(self, kind: TypeAdapter[Any], method: str, *request: Any) -> Any:
        """Read the answer to a request; fields that this version does not know are ignored."""
        async with self._answer(method, *request) as answer:
            try:
                return kind.validate_json(await answer.aread())
            except ValueError as error:
                raise StoreError(
                    f"What answers at {self.location} is not a kagent-memory server; check the "
                    "host and port in the URI."
                ) from error

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        content: bytes | AsyncIterator[bytes] | None = None,
    ) -> AsyncGenerator[httpx.Response]:
        """Send a request, and give the answer to a block that reads it.

        Raises:
            StoreError: the server cannot be reached.
            KagentMemoryError: what the server says went wrong, as the exception it had there.
        """
        import httpx

        headers = {"content-type": "application/json"} if isinstance(content, bytes) else {}
        try:
            async with self._client.stream(
                method, path, params=query, content=content, headers=headers
            ) as answer:
                if not answer.is_success:
                    raise _error_of(answer.status_code, await answer.aread(), self.location)
                yield answer
        except httpx.HTTPError as error:
            raise StoreError(
                f"The server {self.location} cannot be reached: {type(error).__name__}."
            ) from error

    async def _remember(self, verb: Verb, arguments: dict[str, Any]) -> str | None:
        llm = arguments.pop("llm", None)
        name = getattr(llm, "name", llm)
        if name and self.settings.llm is not False:
            if self._info.pop("needs_model", False):
                logger.warning(
                    "The server %s has no model of its own: facts are extracted where a worker can "
                    "make %r, and sessions are stored as said otherwise. Start it with "
                    "KAGENT_MEMORY_LLM, or open this service with llm=False.",
                    self.location,
                    name,
                )
            if name in self._info.get("models", (name,)):
                arguments["llm"] = name
        return await self._send(verb, arguments)

    async def _forget_tenant(self, verb: Verb, arguments: dict[str, Any]) -> ForgottenTenant:
        is_part = arguments.get("limit") is not None
        return await (self._send(verb, arguments) if is_part else verb.function(self, **arguments))

    async def _receipts(self, verb: Verb, arguments: dict[str, Any]) -> Any:
        if arguments.get("tenant") is None:
            arguments["tenant"] = self.settings.tenant or None
        return await self._send(verb, arguments)

    async def _audit(self, verb: Verb, arguments: dict[str, Any]) -> Audit:
        if not isinstance(arguments.get("scope"), Scope):  # a server audits one at a time
            return await verb.function(self, **arguments)
        # for no defect that only a server of another version knows
        return await self._send(verb, {"defects": DEFECTS, **arguments})

    async def _check(self, verb: Verb, arguments: dict[str, Any]) -> Sequence[Diagnosis]:
        server = Diagnosis("server", "ok", f"{self.location} answers.")
        try:
            return [server, *await self._send(verb, arguments)]
        except NotFound as error:  # it tells only callers who may see everything
            return [server, bad("check", error)]
        except KagentMemoryError as error:
            return [bad("server", error)]

    async def _drain(self, verb: Verb, arguments: dict[str, Any]) -> bool:
        left = arguments.get("timeout", verb.defaults["timeout"])
        with suppress(StoreError):
            while left >= 0:
                if await self._send(verb, {"timeout": min(left, MAX_DRAIN_SECONDS)}):
                    return True
                left -= MAX_DRAIN_SECONDS
        return False

    async def _export(self, verb: Verb, arguments: dict[str, Any]) -> AsyncGenerator[str]:
        path, query, _ = _request(verb, arguments)
        last = ""
        async with self._answer(verb.method, path, query) as answer:
            async for line in answer.aiter_lines():
                yield line
                last = line
        if not last.startswith('{"end"'):
            raise StoreError(f"The export of {self.location} was cut off; call it again.")

    async def _import_(self, verb: Verb, arguments: dict[str, Any]) -> Imported:
        path, query, _ = _request(verb, arguments)
        progress, content = arguments.get("progress"), _pieces(Path(arguments["path"]))
        done: Imported | None = None
        async with self._answer(verb.method, path, query, content) as answer:
            async for line in answer.aiter_lines():
                event = json.loads(line)
                if "error" in event:
                    raise _error_of(200, json.dumps(event["error"]), self.location)
                if "imported" in event:
                    done = verb.answer.validate_python(event["imported"])
                elif progress is not None:
                    progress(event["done"])
        if done is None:
            raise StoreError(
                f"The import into {self.location} was cut off; call it again to continue."
            )
        return done


def _error_of(status: int, problem: str | bytes, location: str) -> KagentMemoryError:
    """Return the exception that a server's problem, as JSON, stands for."""
    if status in (401, 403):
        return ConfigurationError(
            f"{location} requires a valid token: set KAGENT_MEMORY_TOKEN or token=."
        )
    try:
        told = json.loads(problem)
    except ValueError:  # no server of ours
        told = None
    fields = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
    kind = error_class(str(fields.get("type", "")).rpartition(":")[2])
    return kind(str(fields.get("detail") or f"The server {location} answered {status}."))


def _is_own(name: str, value: object) -> bool:
    """Return True for a setting that counts where a server is called."""
    return name in OWN_SETTINGS or (name == "llm" and value is False)


def _request(verb: Verb, arguments: Mapping[str, Any]) -> tuple[str, dict[str, str], bytes | None]:
    """Return the path, the query and the body by which a server is asked.

    Raises:
        InvalidInput: an argument holds what JSON cannot hold.
    """
    items: list[Fact | str] = arguments.get("items", [])
    metadata = [item.metadata for item in items if isinstance(item, Fact)]
    for data in (arguments.get("metadata"), *metadata):
        if isinstance(data, Mapping):  # a time in it would become a text
            json_text({**data}, "The metadata")
    values = verb.written(arguments)
    query: dict[str, str] = {}
    if isinstance(arguments.get("scope"), Scope):
        query |= _named(values.pop("scope"))
    elif "scope" in values:
        several: list[dict[str, str]] = (
            [values["scope"]] if "tenant" in values["scope"] else values["scope"]
        )
        values["scope"] = [_named(scope) for scope in several]
    in_path = [name for name in values if f"{{{name}}}" in verb.path]
    path = verb.path.format(**{name: quote(values.pop(name), safe="") for name in in_path})
    if verb.in_query:
        texts = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in values.items()
        }
        return path, {**query, **texts}, None
    return path, query, json_text(values, "The request", compact=True).encode()


def _named(scope: Mapping[str, str]) -> dict[str, str]:
    """Return the parts of a scope that are named: without a tenant the server takes the caller's,
    or its own.
    """
    return {name: value for name, value in scope.items() if value}


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with opened(path) as file:
        while piece := file.read(PIECE):
            yield piece
