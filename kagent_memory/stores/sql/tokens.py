"""Bearer tokens of the server: scripts that keep, find and drop them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ...errors import NotFound
from ..base import Token
from .session import Session


async def add(session: Session, token: Token) -> None:
    """See `MemoryStore.add_token`."""
    await session.run_many("insert_token", [asdict(token)])


async def find(session: Session, digest: str | None) -> Sequence[Token]:
    """See `MemoryStore.tokens`."""
    names = ("digest", "id", "tenant", "label", "created_at", "expires_at", "is_operator")
    found = await session.rows("tokens", {"digest": digest})
    return [Token(user=row["user_id"], **{name: row[name] for name in names}) for row in found]


async def drop(session: Session, token_id: str) -> None:
    """See `MemoryStore.drop_token`."""
    if not await session.run("drop_token", {"id": token_id}):
        raise NotFound(f"There is no token {token_id!r}.")
