"""One server's /api/v1: requests out, records' JSON or errors of ours back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from ..errors import ConfigurationError, KagentMemoryError, StoreError, error_class
from ..records import Mode, Scope, json_text

if TYPE_CHECKING:
    import httpx


class Transport:
    """Requests to one server."""

    def __init__(self, client: httpx.AsyncClient, location: str) -> None:
        self._client = client
        self.location = location

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def request(
        self,
        method: str,
        path: str,
        scope: Scope | None = None,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Any:
        """The JSON of an answer; None when it has no body.

        Raises:
            InvalidInput: the body is not JSON.
            StoreError: the server cannot be reached.
            KagentMemoryError: what the server says went wrong, as the exception it had there.
        """
        import httpx

        content = None if body is None else json_text(body, "The request", compact=True).encode()
        headers = None if body is None else {"content-type": "application/json"}
        params = dict(query or {})
        if scope is not None:  # without a tenant the server takes the token's, or its own
            tenant = {"tenant": scope.tenant} if scope.tenant else {}
            params = {"app": scope.app, "user": scope.user, **tenant, **params}
        try:
            answer = await self._client.request(method, path, params=params, content=content, headers=headers)
        except httpx.HTTPError as error:
            raise StoreError(f"The server {self.location} cannot be reached: {type(error).__name__}.") from error
        if not answer.is_success:
            raise _error(answer, self.location)
        try:
            return answer.json() if answer.content else None
        except ValueError as error:
            raise _stranger(self.location) from error

    async def lines(
        self, method: str, path: str, *, query: Mapping[str, Any], content: AsyncIterator[bytes] | None = None
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
            raise StoreError(f"The server {self.location} cannot be reached: {type(error).__name__}.") from error

    async def info(self) -> tuple[Mode, bool]:
        """How the server finds memories, and whether its sessions need a model that their agent names.

        Raises:
            StoreError: it cannot be reached, or something else answers there.
            ConfigurationError: the token does not hold.
        """
        told = await self.request("GET", "/info")
        if not isinstance(told, dict) or "mode" not in told:
            raise _stranger(self.location)
        info = cast("dict[str, Any]", told)
        return info["mode"], bool(info.get("needs_model"))


def _stranger(location: str) -> StoreError:
    return StoreError(f"What answers at {location} is not a kagent-memory server; check the host and port in the URI.")


def _error(answer: httpx.Response, location: str) -> KagentMemoryError:
    try:
        problem = answer.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        return StoreError(f"The server {location} answered {answer.status_code}.")
    told = cast("dict[str, Any]", problem)
    if answer.status_code in (401, 403):
        return ConfigurationError(f"{location} requires a valid token: set KAGENT_MEMORY_TOKEN or token=.")
    return error_of(told, f"The server {location} answered {answer.status_code}.")


def error_of(problem: Mapping[str, Any], otherwise: str) -> KagentMemoryError:
    """The exception that a server's problem stands for."""
    return error_class(str(problem.get("type", "")).rpartition(":")[2])(str(problem.get("detail") or otherwise))


def without_secrets(uri: str) -> str:
    """The URI without password and query, for people."""
    parts = urlsplit(uri)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
