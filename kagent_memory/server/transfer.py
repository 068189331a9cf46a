"""/api/v1, export and import: streamed, so that neither a server nor its caller holds more than some memories."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from typing_extensions import Unpack

from ..concurrency import LONG, cancel_and_wait, run_in_thread
from ..errors import InvalidInput, KagentMemoryError, NotFound, family_of
from ..memories import Memories
from ..memories.options import ExportOptions
from ..remote.serialization import to_wire
from .api import PROBLEMS
from .dependencies import TheCaller, TheMemories, Unbound
from .error_responses import URN, message_of
from .maintenance import Name, TenantName, within

MEDIA_TYPE = "application/jsonl"
BODY = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
SENT_AT_ONCE = 65_536  # characters
WRITTEN_AT_ONCE = 2**20  # bytes
LONGEST_LINE = 64 * 2**20  # bytes
TELL_SECONDS = 5.0

router = APIRouter(prefix="/api/v1", responses=PROBLEMS)


@router.get("/export", response_class=StreamingResponse)
async def export(
    memories: TheMemories,
    caller: TheCaller,
    tenant: TenantName = None,
    app: Name = None,
    user: Name = None,
    vectors: Annotated[bool, Query(description="With their vectors.")] = False,
) -> StreamingResponse:
    """All memories of a tenant, user and app, as far as they are the caller's: JSON lines that `import` takes. Only one
    that ends with the line `{"end": …}` is whole.
    """
    whose = within(caller, tenant=tenant, app=app, user=user)
    if whose is None:
        raise NotFound("No such memories.")
    return await exported(memories, tenant=whose["tenant"], app=whose["app"], user=whose["user"], vectors=vectors)


async def exported(memories: Memories, **which: Unpack[ExportOptions]) -> StreamingResponse:
    """An export as it is made, begun before the answer is: what cannot be exported is told by its status."""
    lines = memories.export(**which)
    ahead = [await anext(lines), await anext(lines)]  # what is asked for is checked after the first

    async def pieces() -> AsyncIterator[str]:
        held, size = ahead, 0
        async for line in lines:
            held.append(line)
            size += len(line)
            if size >= SENT_AT_ONCE:
                yield "".join(f"{one}\n" for one in held)
                held, size = [], 0
        yield "".join(f"{one}\n" for one in held)

    return StreamingResponse(pieces(), media_type=MEDIA_TYPE, headers={"cache-control": "no-store"})


@router.post(
    "/import",
    response_class=StreamingResponse,
    openapi_extra={"requestBody": {"content": BODY, "required": True}},
)
async def import_(
    request: Request, memories: TheMemories, caller: Unbound, tenant: TenantName = None, dry_run: bool = False
) -> StreamingResponse:
    """Takes in what `export` gave, all of it or nothing, and nothing twice. Answers JSON lines: `{"done": N}` while it
    goes on, at the end `{"imported": …}`, or `{"error": …}` when that comes after the answer began.
    """
    told = _imported(request, memories, tenant=tenant, dry_run=dry_run)
    first = await anext(told)

    async def lines() -> AsyncIterator[str]:
        async with aclosing(told):
            yield _line(first)
            try:
                async for one in told:
                    yield _line(one)
            except KagentMemoryError as error:
                yield _line({"error": {"type": f"{URN}{family_of(error).name}", "detail": message_of(error)}})

    return StreamingResponse(lines(), media_type=MEDIA_TYPE, headers={"cache-control": "no-store"})


def _line(told: Mapping[str, Any]) -> str:
    return json.dumps(told) + "\n"


async def _imported(
    request: Request, memories: Memories, *, tenant: str | None, dry_run: bool
) -> AsyncGenerator[Mapping[str, Any]]:
    """How far the import is, every few seconds, and what came of it; one that nobody listens to any more ends."""
    done = [0]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "upload"
        await _spool(request, path)
        importing = memories.import_(path, tenant=tenant, dry_run=dry_run, progress=done.append)
        task = asyncio.create_task(importing, name="kagent-memory-import")
        try:
            while not (await asyncio.wait([task], timeout=TELL_SECONDS))[0]:
                yield {"done": done[-1]}
            outcome = await task
        except InvalidInput as error:
            raise InvalidInput(str(error).replace(str(path), "the upload")) from error
        finally:
            await cancel_and_wait(task)
    yield {"done": done[-1]}
    yield {"imported": to_wire(outcome)}


async def _spool(request: Request, path: Path) -> None:
    """Writes a body to a file, which is read twice.

    Raises:
        InvalidInput: a line is longer than anything that is exported.
    """
    held, line, number = bytearray(), 0, 1
    with path.open("wb") as file:
        async for piece in request.stream():
            held += piece
            end = piece.rfind(b"\n")
            line = line + len(piece) if end < 0 else len(piece) - end - 1
            number += piece.count(b"\n")
            if line > LONGEST_LINE:
                raise InvalidInput(f"Line {number} of the upload is longer than {LONGEST_LINE:,} bytes.")
            if len(held) >= WRITTEN_AT_ONCE:
                await run_in_thread(LONG, file.write, bytes(held))
                held.clear()
        file.write(held)
