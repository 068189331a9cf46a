"""Who calls, and whose memories they may touch."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

from ..errors import ConfigurationError, NotFound
from ..records import Scope, new_id
from ..stores.base import MemoryStore, Token

PREFIX = "kmem_"
COOKIE = "kagent_memory_token"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a server lets callers in.

    Attributes:
        required: every call needs a token or a trusted proxy's word; False only on loopback.
        trusted_proxy: X-User-Id (and X-Agent-Name, X-Tenant-Id) are believed: a proxy in front sets them.
        hosts: names this server answers to without auth; others are refused, so that no web page rebinds to it.
        max_body_bytes: the longest request body.
        requests_per_minute: of one caller; 0: no limit.
    """

    required: bool = False
    trusted_proxy: bool = False
    hosts: frozenset[str] = LOOPBACK_NAMES
    max_body_bytes: int = 8 * 1024 * 1024
    requests_per_minute: int = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody who was let in.

    Attributes:
        name: for rate limits and the history ("who"); no secret.
        tenant, user, app: what the caller is bound to; None: not bound.
    """

    name: str
    tenant: str | None = None
    user: str | None = None
    app: str | None = None

    @property
    def is_bound(self) -> bool:
        """Whether there is anything this caller may not see."""
        return (self.tenant, self.user, self.app) != (None, None, None)

    def may(self, scope: Scope) -> bool:
        """Whether the scope is within what the caller is bound to; each part is compared whole."""
        pairs = ((self.tenant, scope.tenant), (self.user, scope.user), (self.app, scope.app))
        return all(bound is None or bound == part for bound, part in pairs)

    def checked(self, scope: Scope) -> Scope:
        """`scope` itself.

        Raises:
            NotFound: it is not the caller's; that it exists is none of their business.
        """
        if not self.may(scope):
            raise NotFound("No such memories.")
        return scope


LOCAL = Caller(name="local")


def new_token(
    tenant: str, user: str | None, label: str, *, now: datetime, days: int | None = None
) -> tuple[str, Token]:
    """A fresh secret and the row that proves it: 256 random bits, of which only the SHA-256 is kept."""
    secret = PREFIX + secrets.token_urlsafe(32)
    expires_at = now + timedelta(days=days) if days else None
    token = Token(
        id=new_id(now),
        digest=digest(secret),
        tenant=tenant,
        user=user,
        label=label,
        created_at=now,
        expires_at=expires_at,
    )
    return secret, token


def digest(secret: str) -> str:
    """What is stored of a secret. Plain SHA-256 is enough: the secrets are random, not chosen by people."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


async def caller_of_token(store: MemoryStore, secret: str, now: datetime) -> Caller | None:
    """Whom a token stands for; None when it is unknown, revoked or expired."""
    if not secret.startswith(PREFIX):
        return None
    token = next(iter(await store.tokens(digest=digest(secret))), None)
    if token is None or (token.expires_at is not None and token.expires_at <= now):
        return None
    return Caller(name=f"token {token.label or token.id}", tenant=token.tenant, user=token.user)


def caller_of_proxy(headers: Mapping[str, str], tenant: str) -> Caller | None:
    """Whom a trusted proxy vouches for: a user, or an agent that acts for its users (X-Agent-Name alone)."""
    user, app = headers.get("x-user-id"), headers.get("x-agent-name")
    if not user and not app:
        return None
    named = headers.get("x-tenant-id", tenant)
    return Caller(name=f"proxy {user or app}", tenant=named, user=user or None, app=None if user else app)


def bearer(headers: Mapping[str, str], cookies: Mapping[str, str]) -> str:
    """The secret a request brings, in its Authorization header or the page's cookie; "" when none."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    return cookies.get(COOKIE, "")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what is bound to `host`."""
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_binding(host: str, access: Access) -> None:
    """Refuses to serve strangers.

    Raises:
        ConfigurationError: `host` is not loopback and calls need no auth.
    """
    if not is_loopback(host) and not (access.required or access.trusted_proxy):
        raise ConfigurationError(
            f"Binding {host} lets other machines in. Add --auth (make a token with `kagent-memory token create`), "
            "or --trusted-proxy when a proxy in front sets X-User-Id, or bind 127.0.0.1."
        )
