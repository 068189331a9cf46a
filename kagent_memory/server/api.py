"""/api/v1: one route for each verb of `Memories`, made from its signature, with JSON in and out.

Export and import are streamed, so that neither the server nor its caller holds all memories at
once.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from .. import __version__
from ..concurrency import LONG, cancel_and_wait, run_in_thread
from ..errors import InvalidInput, KagentMemoryError
from ..memories.memories import Memories
from ..memories.verbs import Verb, verbs_of
from ..records import Scope, Scopes
from .dependencies import (
    NAMES,
    access_of,
    caller_of,
    media_type,
    memories_of,
    own_job,
    refuse_bound,
    scope_of,
    tenant_of,
    tenant_wide,
    who,
    within,
)
from .error_responses import URN, message_of
from .request_arguments import read, read_texts

JSON = "application/json"
JSON_LINES = "application/jsonl"
EXPORT_CHUNK_CHARS = 65_536
SPOOL_BUFFER_BYTES = 2**20
PROGRESS_SECONDS = 5.0
CROSSES_SCOPES = frozenset({"receipts", "check_receipts"})
OPEN_TO_ALL = frozenset({"drain"})
MAX_ARGUMENTS: Mapping[str, float] = {
    "items": 500,
    "ids": 10_000,
    "messages": 10_000,
    "history": 50,
    "scope": 100,
    "limit": 1000,
    "most": 1000,
    "timeout": 60,
    "who": 256,
    "why": 16_384,
    "cursor": 4096,
}
"""By argument, the largest number or the greatest length of a text or list in a request, beside the
limits of the verbs.
"""

MAX_HITS = 100  # of one search

router = APIRouter(prefix="/api/v1", include_in_schema=False)


@router.get("/info")
async def info(request: Request) -> Mapping[str, Any]:
    """Describe this server."""
    memories = memories_of(request)
    names = ("search_limit", "ttl_days", "popular_after", "max_content_bytes")
    settings = {name: getattr(memories.settings, name) for name in names}
    return {
        "version": __version__,
        "mode": memories.mode,
        "needs_model": memories.providers.needs_model,
        "models": sorted(access_of(request).models),
        **settings,
    }


def handler_of(verb: Verb) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """Return the handler of a verb's route."""

    async def handle(request: Request) -> Response:
        arguments, memories = await _arguments(verb, request), memories_of(request)
        if verb.is_stream:
            return await stream_export(verb.function(memories, **arguments))
        if verb.takes_file:
            return await stream_import(request, memories, **arguments)
        answer = await verb.function(memories, **arguments)
        return Response(await run_in_thread(LONG, verb.answer.dump_json, answer), media_type=JSON)

    return handle


async def stream_export(lines: AsyncGenerator[str]) -> StreamingResponse:
    """Stream an export.

    The first lines are made before the answer begins, so that an error in them sets the status.
    """
    # the first line checks the arguments
    first_lines = [await anext(lines), await anext(lines)]

    async def chunks() -> AsyncIterator[str]:
        chunk, size = first_lines, 0
        async for line in lines:
            chunk.append(line)
            size += len(line)
            if size >= EXPORT_CHUNK_CHARS:
                yield "".join(f"{line}\n" for line in chunk)
                chunk, size = [], 0
        yield "".join(f"{line}\n" for line in chunk)

    return StreamingResponse(chunks(), media_type=JSON_LINES, headers={"cache-control": "no-store"})


async def stream_import(request: Request, memories: Memories, **options: Any) -> StreamingResponse:
    """Import the body of a request and stream JSON lines.

    The lines are `{"done": N}` for progress, and at the end `{"imported": …}`, or `{"error": …}` if
    it fails after the answer began.
    """
    events = _import_events(request, memories, options)
    first = await anext(events)

    async def lines() -> AsyncIterator[str]:
        async with aclosing(events):
            yield _line(first)
            try:
                async for event in events:
                    yield _line(event)
            except KagentMemoryError as error:
                problem = {"type": f"{URN}{error.family.name}", "detail": message_of(error)}
                yield _line({"error": problem})

    return StreamingResponse(lines(), media_type=JSON_LINES, headers={"cache-control": "no-store"})


def _line(event: Mapping[str, Any]) -> str:
    return json.dumps(event) + "\n"


async def _import_events(
    request: Request, memories: Memories, options: Mapping[str, Any]
) -> AsyncGenerator[Mapping[str, Any]]:
    """Yield the progress of an import every few seconds, then its outcome; stop the import if the
    client is gone.
    """
    done = [0]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "upload"
        await _spool(request, path)
        importing = memories.import_(path, **options, progress=done.append)
        task = asyncio.create_task(importing, name="kagent-memory-import")
        try:
            while not (await asyncio.wait([task], timeout=PROGRESS_SECONDS))[0]:
                yield {"done": done[-1]}
            outcome = await task
        except InvalidInput as error:
            raise InvalidInput(str(error).replace(str(path), "the upload")) from error
        finally:
            await cancel_and_wait(task)
    yield {"done": done[-1]}
    yield {"imported": asdict(outcome)}


async def _spool(request: Request, path: Path) -> None:
    """Write the body to a file, because the import reads it twice."""
    with path.open("wb", SPOOL_BUFFER_BYTES) as file:
        async for chunk in request.stream():
            file.write(chunk)


async def _arguments(verb: Verb, request: Request) -> dict[str, Any]:
    """Return the arguments of a call, limited to what the caller may touch.

    Raises:
        InvalidInput: an argument is missing, unknown or of the wrong type.
        NotFound: the caller may not touch the named memories.
    """
    query = _query(verb, request)
    if verb.in_query:
        values = read_texts(verb, query)
    else:
        if query:
            raise InvalidInput(
                f"{', '.join(query)[:200]}: unknown in the query; name it in the JSON of the body."
            )
        body = await request.body()
        values = await run_in_thread(
            len(body), read, verb, _json(request, body), tenant=tenant_of(request)
        )
    if repeated := values.keys() & request.path_params.keys():
        raise InvalidInput(f"{', '.join(repeated)}: already named in the path.")
    values |= request.path_params
    _check_sizes(verb, values)
    _check_model(request, values.get("llm"))
    values |= await _limits(verb, request, values)
    if "who" in verb.types:
        values["who"] = who(values.get("who", ""), caller_of(request))
    known = values.keys() | verb.defaults.keys() | {"return", verb.takes_file}
    if missing := sorted(verb.types.keys() - known):
        raise InvalidInput(f"{', '.join(missing)}: missing.")
    return values


def _query(verb: Verb, request: Request) -> dict[str, str]:
    """Return the query parameters that do not name the scope.

    Raises:
        InvalidInput: a parameter is given twice.
    """
    pairs = request.query_params.multi_items()
    query = dict(pairs)
    if len(query) < len(pairs):
        raise InvalidInput(
            "The query names something twice; give several values as one list in JSON."
        )
    if "scope" not in verb.types:
        return query
    return {name: text for name, text in query.items() if name not in NAMES or name in verb.types}


def _json(request: Request, body: bytes) -> bytes:
    """Return the JSON of a body; "{}" for a missing body.

    Raises:
        InvalidInput: the content type is not JSON.
    """
    if not body:
        return b"{}"
    kind = media_type(request)
    if kind != JSON and not (kind.startswith("application/") and kind.endswith("+json")):
        raise InvalidInput(f"Send the arguments as one JSON object, with content-type: {JSON}.")
    return body


def _check_model(request: Request, name: str | None) -> None:
    """Refuse a model that the operator does not allow; use the server's own if it has one.

    Raises:
        InvalidInput: the model is not allowed.
    """
    models, providers = access_of(request).models, memories_of(request).providers
    if name and providers.needs_model and name not in models:
        allowed = ", ".join(sorted(models)) or "none"
        raise InvalidInput(f"llm: the server does not make this model for callers, but {allowed}.")


def _check_sizes(verb: Verb, values: Mapping[str, Any]) -> None:
    hits = {"limit": MAX_HITS} if verb.name == "recall" else {}
    for name, maximum in {**MAX_ARGUMENTS, **hits}.items():
        value = values.get(name)
        if isinstance(value, str | list | tuple) and len(value) > maximum:  # pyright: ignore[reportUnknownArgumentType]
            raise InvalidInput(f"{name}: longer than the {maximum:,} that a server takes at once.")
        if isinstance(value, int | float) and value > maximum:
            raise InvalidInput(f"{name}: greater than the {maximum:,} that a server allows.")


async def _limits(verb: Verb, request: Request, values: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that limit a call to what the caller may touch.

    Raises:
        NotFound: the call asks for anything else.
        InvalidInput: the scope is missing or incomplete.
    """
    caller, names = caller_of(request), verb.types.keys()
    if "scope" in names:
        return _scope(verb, request, values)
    if "app" in names:
        return within(caller, **{name: values.get(name) for name in NAMES})
    if verb.name in CROSSES_SCOPES:
        return tenant_wide(caller, values.get("tenant"))
    if "job_id" in names:
        return {"job_id": (await own_job(request, values["job_id"])).id}
    if verb.name not in OPEN_TO_ALL:
        refuse_bound(request)
    return {}


def _scope(verb: Verb, request: Request, values: dict[str, Any]) -> dict[str, Any]:
    caller, scopes = caller_of(request), values.get("scope")
    if scopes:
        for scope in [scopes] if isinstance(scopes, Scope | Scopes) else scopes:
            caller.checked(scope)
        return {}
    # several scopes
    if "app" in verb.types and not {"app", "user"} <= request.query_params.keys():
        return within(caller, **{name: values.get(name) for name in NAMES})
    for name in NAMES:
        values.pop(name, None)
    return {"scope": scope_of(request)}


VERBS: Mapping[str, Verb] = {name: verb for name, verb in verbs_of(Memories).items() if verb.method}
for _verb in VERBS.values():
    router.add_api_route(_verb.path, handler_of(_verb), methods=[_verb.method], name=_verb.name)
