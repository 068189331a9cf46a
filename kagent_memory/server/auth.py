"""Callers, their rights and their share of concurrent requests, the same for every protocol."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeVar
from weakref import WeakValueDictionary

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from ..concurrency import turn
from ..errors import ConfigurationError, InvalidInput, NotFound
from ..memories import Memories
from ..records import Scope, Scopes
from ..stores.values import Token
from .tokens import PREFIX, find_token

AnyScope = TypeVar("AnyScope", Scope, Scopes, Scope | Scopes)
COOKIE = "kagent_memory_token"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})
MAX_OPEN = 128  # open requests of one caller; more are refused
MAX_RUNNING = 64  # requests in progress; further ones wait
SHARES = 8  # the share of one caller: 1/8 of the requests in progress
LONG_BODY = 2_000  # bytes; longer searches take noticeable CPU time
NOT_FROM_HERE = (
    "Without auth this server answers its own machine only. Let others in with a token "
    "(`kagent-memory serve --auth`; `create_app(…, Access(required=True))`) or behind a proxy "
    "that sets X-User-Id (`--trusted-proxy`)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The rules of access to a server.

    Attributes:
        required: True if every call needs a token or a trusted proxy; False only on loopback.
        trusted_proxy: True to trust X-User-Id, X-Agent-Name and X-Tenant-Id, set by a proxy in
            front.
        hosts: the host names of a server without authentication; requests for others are refused,
            against DNS rebinding.
        models: the models that callers may choose beside the server's own.
        max_body_bytes: the largest request body, in bytes.
        max_import_bytes: the largest import, in bytes; imports are spooled to disk.
    """

    required: bool = False
    trusted_proxy: bool = False
    hosts: frozenset[str] = LOOPBACK_NAMES
    models: frozenset[str] = frozenset()
    max_body_bytes: int = 8 * 1024 * 1024
    max_import_bytes: int = 16 * 2**30

    @property
    def is_guarded(self) -> bool:
        """Return True if every call needs credentials."""
        return self.required or self.trusted_proxy


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An authenticated caller.

    Attributes:
        name: the name for the history ("who"); no secret.
        id: the id of the token; "" without one.
        tenant, user, app: the parts of a scope that the caller is bound to, or None.
    """

    name: str
    id: str = ""
    tenant: str | None = None
    user: str | None = None
    app: str | None = None

    @property
    def is_bound(self) -> bool:
        """Return True if the caller is bound to a tenant, user or app."""
        return (self.tenant, self.user, self.app) != (None, None, None)

    def tenant_or(self, default: str) -> str:
        """Return the caller's tenant, or the default for an unbound caller."""
        return default if self.tenant is None else self.tenant

    def may(self, scope: Scope | Scopes) -> bool:
        """Return True if the scopes are within the caller's; each part is compared as a whole."""
        pairs = ((self.tenant, scope.tenant), (self.user, scope.user), (self.app, scope.app))
        return all(bound is None or bound == part for bound, part in pairs)

    def checked(self, scope: AnyScope) -> AnyScope:
        """Return `scope` if the caller may touch it.

        Raises:
            InvalidInput: its user or app is empty.
            NotFound: the caller may not touch it, or know that it exists.
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
    """Return the caller of a token; an operator's is not bound to a tenant or user."""
    name = f"token {token.label or token.id}"
    if token.is_operator:
        return Caller(name=name, id=token.id)
    return Caller(name=name, id=token.id, tenant=token.tenant, user=token.user)


def caller_of_proxy(headers: Headers, tenant: str) -> Caller | None:
    """Return the caller that a trusted proxy names: a user, or an agent that acts for its users
    (X-Agent-Name alone).

    Return None if a header comes twice, because then the proxy passed on its caller's header.
    """
    try:
        user, app = _header(headers, "x-user-id"), _header(headers, "x-agent-name")
        named_tenant = _header(headers, "x-tenant-id")
    except ValueError:
        return None
    if not user and not app:
        return None
    tenant = tenant if named_tenant is None else named_tenant
    return Caller(
        name=f"proxy {user or app}", tenant=tenant, user=user or None, app=None if user else app
    )


def _header(headers: Headers, name: str) -> str | None:
    """Decode a header as UTF-8 if possible, otherwise as Latin-1.

    Raises:
        ValueError: the header comes twice.
    """
    values = headers.getlist(name)  # starlette decodes headers as Latin-1
    if len(values) > 1:
        raise ValueError(name)
    if not values:
        return None
    try:
        return values[0].encode("latin-1").decode()
    except UnicodeDecodeError:
        return values[0]


def bearer(headers: Headers, cookies: Mapping[str, str]) -> str:
    """Return the token of a request from its Authorization header or the page's cookie, or ""."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    return cookies.get(COOKIE, "")


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach a server bound to `host`."""
    address = _address(host)
    return host in LOOPBACK_NAMES if address is None else address.is_loopback


def is_elsewhere(host: str) -> bool:
    """Return True for the address of another machine, or one by which others reach this machine."""
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
    """Refuse an address that other machines can reach if calls need no authentication.

    Raises:
        ConfigurationError: `host` is not loopback and calls need no authentication.
    """
    if not is_loopback(host) and not access.is_guarded:
        raise ConfigurationError(
            f"Binding {host} exposes the server to other machines. Add --auth (make a token "
            "with `kagent-memory token "
            "create`), or --trusted-proxy when a proxy in front sets X-User-Id, or bind 127.0.0.1."
        )


class Admission:
    """Authenticate callers and give each a fair share of the requests in progress.

    Args:
        access: the rules of access.
        memories: returns the memories to serve, once they are open.
    """

    def __init__(self, access: Access, memories: Callable[[], Memories]) -> None:
        self.access, self.memories = access, memories
        self._open = Counter[Hashable]()
        self._slots = asyncio.Semaphore(MAX_RUNNING)
        self._own_slots = WeakValueDictionary[Hashable, asyncio.Semaphore]()

    async def caller(self, headers: Headers, cookies: Mapping[str, str], address: str) -> Caller:
        """Authenticate the caller at an address.

        Raises:
            HTTPException: 401 without valid credentials; 403 from another machine if the server
                requires none.
            StoreError: the token cannot be looked up.
        """
        access, memories = self.access, self.memories()
        if not access.is_guarded and is_elsewhere(address):
            raise HTTPException(403, NOT_FROM_HERE)
        caller = None if access.is_guarded else LOCAL
        secret = bearer(headers, cookies)
        if secret.startswith(PREFIX):  # a token of ours must be valid even if none is required
            async with self.turn(address):
                turn.set(nullcontext())  # all callers behind a proxy have its address
                token = await find_token(memories, secret)
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
            HTTPException: 429 if the caller has too many open requests.
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
        """Wait for the turn of a request; the long requests of one caller run one by one, and so
        does the work in threads of all its requests.
        """
        slots = 1 if is_long else max(1, MAX_RUNNING // SHARES)
        own = self._own_slots.setdefault((caller, is_long), asyncio.Semaphore(slots))
        turn.set(self._own_slots.setdefault((caller, "in threads"), asyncio.Semaphore(1)))
        async with own, self._slots:
            yield
