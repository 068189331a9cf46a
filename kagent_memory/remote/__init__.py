"""The verbs of `Memories` over a server's /api/v1, without a database password or an embedder."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from pydantic import TypeAdapter
from typing_extensions import TypedDict, override

from ..checks import json_text
from ..errors import ConfigurationError, KagentMemoryError, NotFound, StoreError, error_class
from ..memories.audit import DEFECTS, Audit
from ..memories.diagnosis import Diagnosis, bad
from ..memories.memories import Memories
from ..memories.transfer import Imported, opened
from ..memories.verbs import Verb
from ..records import Mode, Scope
from ..settings import PREFIX, MemorySettings, compose, scheme_of, without_secrets
from ..stores.values import ForgottenTenant

if TYPE_CHECKING:
    import httpx

ANSWER_SECONDS = 60.0
MAX_DRAIN_SECONDS = 30.0
PIECE = 2**18  # bytes sent at once
OWN_SETTINGS = frozenset({"tenant", "token", "llm"})
OWN_VARIABLES = {f"{PREFIX}{name}" for name in ("URI", "TENANT", "TOKEN")}


def is_remote(uri: str | None) -> bool:
    """Return True if the URI, or the one of the environment, is a server instead of a database.

    Raises:
        ConfigurationError: the text is no URI.
    """
    named = os.environ.get("KAGENT_MEMORY_URI", "") if uri is None else uri
    return scheme_of(named) in ("http", "https")


async def open_memories(uri: str | None = None, **options: Any) -> Memories:
    """Open memories with `Memories.open`, or a server's if the URI is http(s).

    Raises:
        ConfigurationError: a setting is invalid.
        StoreError: the database or server cannot be reached.
    """
    kind = RemoteMemories if is_remote(uri) else Memories
    return await kind.open(uri, **options)


class Info(TypedDict):
    """A server's description of itself: its search mode, and the models that it offers."""

    mode: Mode
    models: Sequence[str]


class RemoteMemories(Memories):
    """The memories of a server."""

    _info: Info

    def __init__(self, client: httpx.AsyncClient, location: str, settings: MemorySettings) -> None:
        self._client = client
        self.location = location
        self.settings = settings

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
            settings: used instead of the environment's.
            transport: the transport of httpx; None: the network.
            **options: options of `Memories.open`. Only the settings `tenant` and `token` and
                `llm=False` count here, the others are the server's: one that is given here, in
                `settings` or in the URI, is refused; one in the environment is ignored, and so is
                `resolve_llm`, since the server finds models itself.

        Raises:
            ConfigurationError: an option that only a server can have is given, or the token is
                invalid.
            StoreError: the server cannot be reached.
        """
        import httpx

        options.pop("resolve_llm", None)
        others = {name: value for name, value in options.items() if value is not None}
        own = {name: others.pop(name) for name in OWN_SETTINGS & others.keys()}
        environ = {name: os.environ[name] for name in OWN_VARIABLES & os.environ.keys()}
        bare, composed = compose(uri, settings, own, environ)
        location = without_secrets(bare)
        foreign = {*composed.differences(MemorySettings()), *others} - OWN_SETTINGS
        if composed.llm:
            foreign.add("llm")
        if foreign:
            raise ConfigurationError(
                f"{', '.join(foreign)}: set this where the server {location} is started."
            )
        headers = {"authorization": f"Bearer {composed.token}"} if composed.token else {}
        try:
            client = httpx.AsyncClient(
                base_url=f"{bare.rstrip('/')}/api/v1",
                headers=headers,
                timeout=ANSWER_SECONDS,
                transport=transport,
            )
        except httpx.InvalidURL as error:
            raise ConfigurationError(f"Invalid server URI: {error}.") from error
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
        await self._client.aclose()  # the server continues with what it accepted

    @override
    def perform(self, verb: Verb, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Have the server perform a verb.

        Raises:
            ConfigurationError: only the process that opened the store can perform it.
        """
        arguments = verb.checked(args, kwargs)
        return getattr(self, f"_{verb.name}", self._send)(verb, arguments)

    async def _send(self, verb: Verb, arguments: Mapping[str, Any]) -> Any:
        """Send a verb with its arguments, and parse the answer."""
        if not verb.method:
            raise ConfigurationError(f"{verb.name} works where the store is opened: call it there.")
        return await self._read(verb.answer, verb.method, *_request(verb, arguments))

    async def _read(self, kind: TypeAdapter[Any], method: str, *request: Any) -> Any:
        """Parse the answer to a request; unknown fields are ignored."""
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
        """Send a request, and yield the answer.

        Raises:
            StoreError: the server cannot be reached.
            KagentMemoryError: the server's error, as the same exception.
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
        # the server would refuse any other model
        if name and self.settings.llm is not False and name in self._info["models"]:
            arguments["llm"] = name
        return await self._send(verb, arguments)

    async def _forget_tenant(self, verb: Verb, arguments: dict[str, Any]) -> ForgottenTenant:
        is_part = arguments.get("limit") is not None
        return await (self._send(verb, arguments) if is_part else verb.function(self, **arguments))

    async def _audit(self, verb: Verb, arguments: dict[str, Any]) -> Audit:
        # a server audits one at a time; for no defect that only one of another version knows
        is_one = isinstance(arguments.get("scope"), Scope)
        known = {"defects": [*DEFECTS], **arguments}
        return await (self._send(verb, known) if is_one else verb.function(self, **arguments))

    async def _check(self, verb: Verb, arguments: dict[str, Any]) -> Sequence[Diagnosis]:
        server = Diagnosis("server", "ok", f"{self.location} answers.")
        try:
            return [server, *await self._send(verb, arguments)]
        except NotFound as error:  # only for callers who may see everything
            return [server, bad("check", error)]
        except KagentMemoryError as error:
            return [bad("server", error)]

    async def _drain(self, verb: Verb, arguments: dict[str, Any]) -> bool:
        remaining = arguments.get("timeout", verb.defaults["timeout"])
        with suppress(StoreError):
            while remaining >= 0:
                if await self._send(verb, {"timeout": min(remaining, MAX_DRAIN_SECONDS)}):
                    return True
                remaining -= MAX_DRAIN_SECONDS
        return False

    async def _export(self, verb: Verb, arguments: dict[str, Any]) -> AsyncGenerator[str]:
        line = ""
        async with self._answer(verb.method, *_request(verb, arguments)) as answer:
            async for line in answer.aiter_lines():
                yield line
        if not line.startswith('{"end"'):
            raise StoreError(f"The export of {self.location} was cut off; call it again.")

    async def _import_(self, verb: Verb, arguments: dict[str, Any]) -> Imported:
        path, query, _ = _request(verb, arguments)
        progress, content = arguments.get("progress"), _pieces(Path(arguments["path"]))
        async with self._answer(verb.method, path, query, content) as answer:
            async for line in answer.aiter_lines():
                event = json.loads(line)
                if "error" in event:
                    raise _error_of(200, json.dumps(event["error"]), self.location)
                if "imported" in event:
                    return verb.answer.validate_python(event["imported"])
                if progress is not None:
                    progress(event["done"])
        raise StoreError(f"The import into {self.location} was cut off; call it again to continue.")


def _error_of(status: int, problem: str | bytes, location: str) -> KagentMemoryError:
    """Return the exception for a server's problem in JSON."""
    if status in (401, 403):
        return ConfigurationError(
            f"{location} requires a valid token: set KAGENT_MEMORY_TOKEN or token=."
        )
    try:
        fields = TypeAdapter(dict[str, Any]).validate_json(problem)
    except ValueError:  # not a server of ours
        fields = {}
    kind = error_class(str(fields.get("type")).rpartition(":")[2])
    return kind(str(fields.get("detail") or f"The server {location} answered {status}."))


def _request(verb: Verb, arguments: Mapping[str, Any]) -> tuple[str, dict[str, str], bytes | None]:
    """Return the path, query and body of a request to the server.

    Raises:
        InvalidInput: JSON cannot represent an argument.
    """
    of_items = [getattr(item, "metadata", None) for item in arguments.get("items", ())]
    for metadata in (arguments.get("metadata"), *of_items):
        json_text(metadata, "The metadata")  # else a time in it would become a text
    values = verb.written(arguments)
    is_one = isinstance(arguments.get("scope"), Scope)
    query = _named(values.pop("scope")) if is_one else {}
    if "scope" in values:
        scope: Any = values["scope"]
        values["scope"] = _named(scope) if "tenant" in scope else [*map(_named, scope)]
    in_path = [name for name in values if f"{{{name}}}" in verb.path]
    path = verb.path.format(**{name: quote(values.pop(name), safe="") for name in in_path})
    if verb.in_query:
        query |= {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in values.items()
        }
        return path, query, None
    return path, query, json_text(values, "The request").encode()


def _named(scope: Mapping[str, str]) -> dict[str, str]:
    """Return the named parts of a scope; without a tenant the server takes the caller's, or its
    own.
    """
    return {name: value for name, value in scope.items() if value}


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with opened(path) as file:
        while piece := file.read(PIECE):
            yield piece
