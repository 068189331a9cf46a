"""Callers, their rights to memories, and their share of requests at once, the same for every
protocol.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeVar
from weakref import WeakValueDictionary

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from ..errors import ConfigurationError, InvalidInput, NotFound
from ..memories import Memories
from ..memories.tokens import PREFIX
from ..records import Scope, Scopes
from ..stores.values import Token

AnyScope = TypeVar("AnyScope", Scope, Scopes, Scope | Scopes)
COOKIE = "kagent_memory_token"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})
MAX_OPEN = 128  # requests of one caller; further ones are refused
MAX_RUNNING = 64  # requests of all callers that are worked on; others wait
SHARES = 8  # one caller may have one of so many parts of them
LONG_BODY = 2_000  # bytes; a longer search takes processor time to read
NOT_FROM_HERE = (
    "Without auth this server answers its own machine only. Let others in with a token "
    "(`kagent-memory serve --auth`; `create_app(…, Access(required=True))`) or behind a proxy "
    "that sets X-User-Id (`--trusted-proxy`)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Rules by which a server lets callers in.

    Attributes:
        required: every call needs a token or a trusted proxy's word; False only on loopback.
        trusted_proxy: X-User-Id (and X-Agent-Name, X-Tenant-Id) are believed: a proxy in front sets
            them.
        hosts: names this server answers to without auth; others are refused, so that no web page
            rebinds to it.
        models: names of models that callers may ask for, beside the server's own.
        max_body_bytes: the longest request body.
        max_import_bytes: the longest file that an import takes; it waits on the disk, not in
            memory.
    """

    required: bool = False
    trusted_proxy: bool = False
    hosts: frozenset[str] = LOOPBACK_NAMES
    models: frozenset[str] = frozenset()
    max_body_bytes: int = 8 * 1024 * 1024
    max_import_bytes: int = 16 * 2**30

    @property
    def is_guarded(self) -> bool:
        """Return True if a call needs credentials."""
        return self.required or self.trusted_proxy


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An authenticated caller.

    Attributes:
        name: for the history ("who"); no secret.
        id: the token's; "" without one.
        tenant, user, app: what the caller is bound to; None: not bound.
    """

    name: str
    id: str = ""
    tenant: str | None = None
    user: str | None = None
    app: str | None = None

    @property
    def is_bound(self) -> bool:
        """True if there is anything this caller may not see."""
        return (self.tenant, self.user, self.app) != (None, None, None)

    def tenant_or(self, default: str) -> str:
        """Return the tenant that the caller is bound to, or else the default."""
        return default if self.tenant is None else self.tenant

    def may(self, scope: Scope | Scopes) -> bool:
        """Return True if the scopes are within the caller's; each part is compared whole."""
        pairs = ((self.tenant, scope.tenant), (self.user, scope.user), (self.app, scope.app))
        return all(bound is None or bound == part for bound, part in pairs)

    def checked(self, scope: AnyScope) -> AnyScope:
        """Return `scope` itself.

        Raises:
            InvalidInput: its user or app is empty.
            NotFound: it is not the caller's; that it exists is none of their business.
        """
        if "" in (scope.user, scope.app):
            raise InvalidInput(
                "Name the app and the user whose memories they are; neither is empty."
            )
        if not self.may(scope):
            raise NotFound("No such memories.")
        return scope


LOCAL = Caller(name="local")


def caller_of_token(token: Token) -> Caller:
    """The caller that a token stands for; an operator's is not bound to a tenant or user."""
    name = f"token {token.label or token.id}"
    if token.is_operator:
        return Caller(name=name, id=token.id)
    return Caller(name=name, id=token.id, tenant=token.tenant, user=token.user)


def caller_of_proxy(headers: Headers, tenant: str) -> Caller | None:
    """Whom a trusted proxy vouches for: a user, or an agent that acts for its users (X-Agent-Name
    alone).

    Nobody when one of the headers comes twice: then the proxy let through what its caller had sent.
    """
    try:
        user, app = _told(headers, "x-user-id"), _told(headers, "x-agent-name")
        named = _told(headers, "x-tenant-id")
    except ValueError:
        return None
    if not user and not app:
        return None
    tenant = tenant if named is None else named
    return Caller(
        name=f"proxy {user or app}", tenant=tenant, user=user or None, app=None if user else app
    )


def _told(headers: Headers, name: str) -> str | None:
    """A header as its sender wrote it: in UTF-8, or else in Latin-1, as which servers hand headers
    on.
    """
    values = headers.getlist(name)  # starlette reads Latin-1
    if len(values) > 1:
        raise ValueError(name)
    if not values:
        return None
    try:
        return values[0].encode("latin-1").decode()
    except UnicodeDecodeError:
        return values[0]


def bearer(headers: Headers, cookies: Mapping[str, str]) -> str:
    """The secret a request brings, in its Authorization header or the page's cookie; "" when
    none.
    """
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    return cookies.get(COOKIE, "")


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches what is bound to `host`."""
    address = _address(host)
    return host in LOOPBACK_NAMES if address is None else address.is_loopback


def is_elsewhere(host: str) -> bool:
    """Return True if this is the address of another machine, or one by which others reach this
    machine.
    """
    address = _address(host)
    return address is not None and not address.is_loopback


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def check_binding(host: str, access: Access) -> None:
    """Refuse an address that other machines reach when calls need no auth.

    Raises:
        ConfigurationError: `host` is not loopback and calls need no auth.
    """
    if not is_loopback(host) and not access.is_guarded:
        raise ConfigurationError(
            f"Binding {host} exposes the server to other machines. Add --auth (make a token "
            "with `kagent-memory token "
            "create`), or --trusted-proxy when a proxy in front sets X-User-Id, or bind 127.0.0.1."
        )


class Admission:
    """Authenticates callers, and gives each a fair share of the requests in progress.

    Args:
        access: who may call.
        memories: returns those that are served, once they are open.
    """

    def __init__(self, access: Access, memories: Callable[[], Memories]) -> None:
        self.access, self.memories = access, memories
        self._open = Counter[Hashable]()
        self._slots = asyncio.Semaphore(MAX_RUNNING)
        self._own_slots = WeakValueDictionary[Hashable, asyncio.Semaphore]()

    async def caller(self, headers: Headers, cookies: Mapping[str, str], address: str) -> Caller:
        """Return who calls from an address.

        Raises:
            HTTPException: 401 without valid credentials, 403 from a machine that needs some.
            StoreError: the token cannot be looked up.
        """
        access, memories = self.access, self.memories()
        if not access.is_guarded and is_elsewhere(address):
            raise HTTPException(403, NOT_FROM_HERE)
        caller = None if access.is_guarded else LOCAL
        secret = bearer(headers, cookies)
        if secret.startswith(PREFIX):  # one of ours: it must hold, also where none is needed
            async with self.turn(address):
                token = await memories.tokens.authenticate(secret)
            caller = token and caller_of_token(token)
        elif access.trusted_proxy:
            caller = caller_of_proxy(headers, memories.settings.tenant)
        if caller is None:
            raise HTTPException(
                401, "Send `Authorization: Bearer <token>`.", {"www-authenticate": "Bearer"}
            )
        return caller

    @contextmanager
    def open(self, caller: Hashable) -> Generator[None]:
        """Count a request of `caller` as open.

        Raises:
            HTTPException: 429: too many are open already.
        """
        if self._open[caller] >= MAX_OPEN:
            text = "Too many of your requests are in progress; wait for some of them."
            raise HTTPException(429, text, {"retry-after": "1"})
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]

    @asynccontextmanager
    async def turn(self, caller: Hashable, *, is_long: bool = False) -> AsyncGenerator[None]:
        """Wait until a request of `caller` may be worked on; long ones are, one after another."""
        slots = 1 if is_long else max(1, MAX_RUNNING // SHARES)
        own = self._own_slots.setdefault((caller, is_long), asyncio.Semaphore(slots))
        async with own, self._slots:
            yield
