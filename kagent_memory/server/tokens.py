"""Bearer tokens of the server, stored only as digests."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from ..memories import Memories
from ..records import new_id
from ..stores.values import Token

PREFIX = "kmem_"


async def create_token(
    memories: Memories,
    *,
    tenant: str | None = None,
    user: str | None = None,
    label: str = "",
    days: int | None = None,
    is_operator: bool = False,
) -> tuple[str, Token]:
    """Create a token; it is durable on return.

    Args:
        memories: the memories that it gives access to.
        tenant: the tenant that it gives access to; None: the setting's.
        user: the user that it gives access to; None: the whole tenant.
        label: a name for people.
        days: the days until it expires; None: never.
        is_operator: True for access to every tenant, and to the verbs that cross tenants.

    Returns:
        The secret, which is not stored and cannot be shown again, and the token's record.
    """
    secret, now = PREFIX + secrets.token_urlsafe(32), memories.clock()
    token = Token(
        id=new_id(now),
        digest=_digest(secret),
        tenant=memories.settings.tenant if tenant is None else tenant,
        user=user,
        label=label,
        created_at=now,
        expires_at=now + timedelta(days=days) if days else None,
        is_operator=is_operator,
    )
    await memories.store.tokens.add(token)
    return secret, token


async def find_token(memories: Memories, secret: str) -> Token | None:
    """Return the token of a secret; None if it is unknown, revoked or expired."""
    if not secret.startswith(PREFIX):
        return None
    token = next(iter(await memories.store.tokens.find(digest=_digest(secret))), None)
    if token is None or (token.expires_at is not None and token.expires_at <= memories.clock()):
        return None
    return token


def _digest(secret: str) -> str:
    """Return the stored hash of a secret. Plain SHA-256 is enough, since secrets are 256 random
    bits.
    """
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
