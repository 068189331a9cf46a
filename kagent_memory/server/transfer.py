"""Export and import over HTTP: streamed, so that neither a server nor its caller holds more than
some memories.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import StreamingResponse

from ..concurrency import LONG, cancel_and_wait, run_in_thread
from ..errors import InvalidInput, KagentMemoryError, family_of
from ..memories import Memories
from .error_responses import URN, message_of

MEDIA_TYPE = "application/jsonl"
SENT_AT_ONCE = 65_536  # characters
WRITTEN_AT_ONCE = 2**20  # bytes
TELL_SECONDS = 5.0


async def exported(lines: AsyncGenerator[str]) -> StreamingResponse:
    """Answer an export as it is made, begun before the answer is: what cannot be exported is told
    by its status.
    """
    ahead = [await anext(lines), await anext(lines)]  # what is asked for is checked after the first

    async def pieces() -> AsyncIterator[str]:
        waiting, size = ahead, 0
        async for line in lines:
            waiting.append(line)
            size += len(line)
            if size >= SENT_AT_ONCE:
                yield "".join(f"{line}\n" for line in waiting)
                waiting, size = [], 0
        yield "".join(f"{line}\n" for line in waiting)

    return StreamingResponse(pieces(), media_type=MEDIA_TYPE, headers={"cache-control": "no-store"})


async def imported(request: Request, memories: Memories, **options: Any) -> StreamingResponse:
    """Import a request's body. Answer JSON lines: `{"done": N}` while it goes on, at the end
    `{"imported": …}`, or `{"error": …}` when that comes after the answer began.
    """
    events = _imported(request, memories, options)
    first = await anext(events)

    async def lines() -> AsyncIterator[str]:
        async with aclosing(events):
            yield _line(first)
            try:
                async for line in events:
                    yield _line(line)
            except KagentMemoryError as error:
                yield _line(
                    {
                        "error": {
                            "type": f"{URN}{family_of(error).name}",
                            "detail": message_of(error),
                        }
                    }
                )

    return StreamingResponse(lines(), media_type=MEDIA_TYPE, headers={"cache-control": "no-store"})


def _line(told: Mapping[str, Any]) -> str:
    return json.dumps(told) + "\n"


async def _imported(
    request: Request, memories: Memories, options: Mapping[str, Any]
) -> AsyncGenerator[Mapping[str, Any]]:
    """Yield how far the import is, every few seconds, and its outcome; one that nobody listens to
    any more ends.
    """
    done = [0]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "upload"
        await _spool(request, path)
        importing = memories.import_(path, **options, progress=done.append)
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
    yield {"imported": asdict(outcome)}


async def _spool(request: Request, path: Path) -> None:
    """Write a body to a file, which is read twice."""
    with path.open("wb", WRITTEN_AT_ONCE) as file:
        async for piece in request.stream():
            await run_in_thread(LONG, file.write, piece)
