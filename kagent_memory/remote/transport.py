"""One server's /api/v1: requests out, records' JSON or errors of ours back."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
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
        import httpx

        headers = None if body is None else {"content-type": "application/json"}
        try:
            answer = await self._client.request(
                method, path, params=query, content=body, headers=headers
            )
        except httpx.HTTPError as error:
            raise StoreError(
                f"The server {self.location} cannot be reached: {type(error).__name__}."
            ) from error
        if not answer.is_success:
            raise _error(answer, self.location)
        return answer.content

    def read(self, kind: TypeAdapter[Any], answer: bytes) -> Any:
        """Read an answer; fields that this version does not know are ignored.

        Raises:
            StoreError: something else answered.
        """
        try:
            return kind.validate_json(answer)
        except ValueError as error:
            raise _stranger(self.location) from error

    async def lines(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        content: AsyncIterator[bytes] | None = None,
    ) -> AsyncGenerator[str]:
        """The lines of an answer as they come, however long it takes.

        Raises:
            StoreError: the server cannot be reached, or goes away on the way.
            KagentMemoryError: what the server says went wrong, as the exception it had there.
        """
        import httpx

        try:
            async with self._client.stream(method, path, params=query, content=content) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise _error(answer, self.location)
                async for line in answer.aiter_lines():
                    yield line
        except httpx.HTTPError as error:
            raise StoreError(
                f"The server {self.location} cannot be reached: {type(error).__name__}."
            ) from error

    async def info(self) -> Mapping[str, Any]:
        """Return what the server says of itself: how it searches, and which models it offers.

        Raises:
            StoreError: it cannot be reached, or something else answers there.
            ConfigurationError: the token does not hold.
        """
        answer = await self.request("GET", "/info")
        try:
            told: Any = json.loads(answer)
            told["mode"]
        except (ValueError, TypeError, KeyError) as error:
            raise _stranger(self.location) from error
        return told


def _stranger(location: str) -> StoreError:
    return StoreError(
        f"What answers at {location} is not a kagent-memory server; check the host and port in "
        "the URI."
    )


def _error(answer: httpx.Response, location: str) -> KagentMemoryError:
    try:
        problem = answer.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        return StoreError(f"The server {location} answered {answer.status_code}.")
    told = cast("dict[str, Any]", problem)
    if answer.status_code in (401, 403):
        return ConfigurationError(
            f"{location} requires a valid token: set KAGENT_MEMORY_TOKEN or token=."
        )
    return error_of(told, f"The server {location} answered {answer.status_code}.")


def error_of(problem: Mapping[str, Any], otherwise: str) -> KagentMemoryError:
    """The exception that a server's problem stands for."""
    return error_class(str(problem.get("type", "")).rpartition(":")[2])(
        str(problem.get("detail") or otherwise)
    )
