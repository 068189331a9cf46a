"""One server's /api/v1: requests out, JSON or errors of ours back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from ..errors import ConfigurationError, KagentMemoryError, StoreError, error_class

if TYPE_CHECKING:
    import httpx
    from pydantic import TypeAdapter


class Transport:
    """Requests to one server."""

    def __init__(self, client: httpx.AsyncClient, location: str) -> None:
        self._client = client
        self.location = location

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> bytes:
        """Send a request, and return the JSON of its answer.

        Raises:
            StoreError: the server cannot be reached.
            KagentMemoryError: what the server says went wrong, as the exception it had there.
        """
        async with self._answer(method, path, query, body) as answer:
            return await answer.aread()

    async def lines(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        content: AsyncIterator[bytes] | None = None,
    ) -> AsyncGenerator[str]:
        """Yield the lines of an answer as they come, however long it takes; raises as `request`."""
        async with self._answer(method, path, query, content) as answer:
            async for line in answer.aiter_lines():
                yield line

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        content: bytes | AsyncIterator[bytes] | None,
    ) -> AsyncGenerator[httpx.Response]:
        import httpx

        headers = {"content-type": "application/json"} if isinstance(content, bytes) else {}
        try:
            async with self._client.stream(
                method, path, params=query, content=content, headers=headers
            ) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise _error(answer, self.location)
                yield answer
        except httpx.HTTPError as error:
            raise StoreError(
                f"The server {self.location} cannot be reached: {type(error).__name__}."
            ) from error

    def read(self, kind: TypeAdapter[Any], answer: bytes) -> Any:
        """Read an answer; fields that this version does not know are ignored.

        Raises:
            StoreError: something else answered.
        """
        try:
            return kind.validate_json(answer)
        except ValueError as error:
            raise StoreError(
                f"What answers at {self.location} is not a kagent-memory server; check the host "
                "and port in the URI."
            ) from error


def _error(answer: httpx.Response, location: str) -> KagentMemoryError:
    otherwise = f"The server {location} answered {answer.status_code}."
    try:
        problem = answer.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        return StoreError(otherwise)
    if answer.status_code in (401, 403):
        return ConfigurationError(
            f"{location} requires a valid token: set KAGENT_MEMORY_TOKEN or token=."
        )
    return error_of(cast("dict[str, Any]", problem), otherwise)


def error_of(problem: Mapping[str, Any], otherwise: str) -> KagentMemoryError:
    """Return the exception that a server's problem stands for."""
    return error_class(str(problem.get("type", "")).rpartition(":")[2])(
        str(problem.get("detail") or otherwise)
    )
