"""kagent's memory HTTP contract to the letter (kagent 0.8 to 0.10), so that its agents work here
unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import JSONResponse, Response

from ..concurrency import run_in_thread
from ..errors import InvalidInput, KagentMemoryError, NotFound
from .dependencies import caller_of, memories_of
from .kagent_verbs import VERBS, KagentVerb, size_of
from .kagent_wire import decoded

router = APIRouter(prefix="/api/memories", include_in_schema=False)
ROUTES: Mapping[str, tuple[str, str, int]] = {
    "AddSession": ("POST", "/sessions", 201),
    "AddSessionBatch": ("POST", "/sessions/batch", 201),
    "Search": ("POST", "/search", 200),
    "List": ("GET", "", 200),
    "Delete": ("DELETE", "", 200),
}
"""Where the methods of the contract stand, and the status of their answers."""


def handler_of(verb: KagentVerb, status: int) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers a verb's route."""

    async def handle(request: Request) -> Response:
        body, query = await request.body(), dict(request.query_params)

        def read() -> Any:
            return verb.read(decoded(body) if request.method == "POST" else query)

        try:
            asked = await run_in_thread(len(body), read)
            answer = await verb.answer(memories_of(request), caller_of(request), asked)
        except (InvalidInput, NotFound):
            raise
        except KagentMemoryError as error:
            raise HTTPException(500, f"{verb.failed}: {error}") from error
        content = answer.get("memories", answer)
        return await run_in_thread(size_of(answer), JSONResponse, content, status)

    return handle


for _name, (_method, _path, _status) in ROUTES.items():
    router.add_api_route(_path, handler_of(VERBS[_name], _status), methods=[_method])
