"""The bearer tokens of one database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from typing_extensions import override

from ...errors import NotFound
from ..parts import TokenStore
from ..values import Token
from .scripts import reading, writing
from .session import Database, Session

COLUMNS = ("digest", "id", "tenant", "label", "created_at", "expires_at", "is_operator")


class SqlTokenStore(TokenStore):
    """Tokens in one database, by transaction scripts."""

    def __init__(self, database: Database) -> None:
        self.database = self.reads = database

    @override
    @writing
    async def add(self, session: Session, token: Token) -> None:
        await session.run_many("insert_token", [asdict(token)])

    @override
    @reading
    async def find(self, session: Session, *, digest: str | None = None) -> Sequence[Token]:
        found = await session.rows("tokens", {"digest": digest})
        return [
            Token(user=row["user_id"], **{name: row[name] for name in COLUMNS}) for row in found
        ]

    @override
    @writing
    async def drop(self, session: Session, token_id: str) -> None:
        if not await session.run("drop_token", {"id": token_id}):
            raise NotFound(f"There is no token {token_id!r}.")
