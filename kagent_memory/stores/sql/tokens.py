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
        """Store a token durably."""
        await session.send("insert_token", **asdict(token))

    @reading
    async def find(self, session: Transaction, *, digest: str | None = None) -> Sequence[Token]:
        """Return the tokens, expired ones too, oldest first; only the one with `digest` if
        given.
        """
        return [Token(**row) for row in await session.rows("tokens", digest=digest)]

    @writing
    async def drop(self, session: Transaction, token_id: str) -> None:
        """Revoke a token at once.

        Raises:
            NotFound: there is no such token.
        """
        if not await session.rows("drop_token", id=token_id):
            raise NotFound(f"There is no token {token_id!r}.")
