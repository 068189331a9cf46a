"""The bearer tokens of one database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ...errors import NotFound
from ..values import Token
from .session import Part, Transaction, reading, writing


class TokenStore(Part):
    """The bearer tokens of the server. The verbs cross scopes."""

    @writing
    async def add(self, session: Transaction, token: Token) -> None:
        """Keep a token; durable when it returns."""
        await session.send("insert_token", **asdict(token))

    @reading
    async def find(self, session: Transaction, *, digest: str | None = None) -> Sequence[Token]:
        """Return all tokens, oldest first, expired ones too; with `digest` the one that has it."""
        return [Token(**row) for row in await session.rows("tokens", digest=digest)]

    @writing
    async def drop(self, session: Transaction, token_id: str) -> None:
        """Revoke a token at once. Raises NotFound when there is none."""
        if not await session.rows("drop_token", id=token_id):
            raise NotFound(f"There is no token {token_id!r}.")
