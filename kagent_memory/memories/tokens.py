"""Bearer tokens of the server: made once, kept only as a digest."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..records import new_id
from ..stores import TokenStore
from ..stores.values import Token

PREFIX = "kmem_"


@dataclass(frozen=True)
class Tokens:
    """The tokens that one store keeps.

    Attributes:
        tenant: whose memories a token opens that names no tenant.
        clock: the time now (aware UTC).
    """

    store: TokenStore
    tenant: str
    clock: Callable[[], datetime]

    async def create(
        self,
        *,
        tenant: str | None = None,
        user: str | None = None,
        label: str = "",
        days: int | None = None,
        is_operator: bool = False,
    ) -> tuple[str, Token]:
        """Make a token; durable when it returns.

        Args:
            tenant: whose memories it opens; None: its own.
            user: only this user's; None: the whole tenant's.
            label: for people.
            days: how long it is valid; None: until it is revoked.
            is_operator: it opens every tenant, and the verbs that cross them.

        Returns:
            The secret, which is not kept and cannot be shown again, and the token's record.
        """
        secret, now = PREFIX + secrets.token_urlsafe(32), self.clock()
        token = Token(
            id=new_id(now),
            digest=digest(secret),
            tenant=self.tenant if tenant is None else tenant,
            user=user,
            label=label,
            created_at=now,
            expires_at=now + timedelta(days=days) if days else None,
            is_operator=is_operator,
        )
        await self.store.add(token)
        return secret, token

    async def authenticate(self, secret: str) -> Token | None:
        """Return the token that a secret proves; None when it is unknown, revoked or expired."""
        if not secret.startswith(PREFIX):
            return None
        token = next(iter(await self.store.find(digest=digest(secret))), None)
        if token is None or (token.expires_at is not None and token.expires_at <= self.clock()):
            return None
        return token


def digest(secret: str) -> str:
    """Return the stored hash of a secret. Plain SHA-256 is enough: secrets are 256 random bits,
    not chosen by people.
    """
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
