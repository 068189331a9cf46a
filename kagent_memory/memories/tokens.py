"""Bearer tokens of the server: made once, kept only as a digest."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta

from ..records import new_id
from ..stores.base import Token

PREFIX = "kmem_"


def new_token(
    tenant: str,
    user: str | None,
    label: str,
    *,
    now: datetime,
    days: int | None = None,
    is_operator: bool = False,
) -> tuple[str, Token]:
    """A fresh secret and the row that proves it: 256 random bits, of which only the SHA-256 is kept."""
    secret = PREFIX + secrets.token_urlsafe(32)
    token = Token(
        id=new_id(now),
        digest=digest(secret),
        tenant=tenant,
        user=user,
        label=label,
        created_at=now,
        expires_at=now + timedelta(days=days) if days else None,
        is_operator=is_operator,
    )
    return secret, token


def digest(secret: str) -> str:
    """What is stored of a secret. Plain SHA-256 is enough: the secrets are random, not chosen by people."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
