"""Who calls, and how often: the same for every protocol that a server speaks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from cachetools import LRUCache
from starlette.datastructures import Headers

from ..memories import Memories
from ..memories.tokens import PREFIX, digest
from . import auth
from .auth import Access, Caller
from .rate_limit import RateLimit

MAX_KNOWN = 10_000


class TooOften(Exception):
    """The caller has to wait before the next request.

    Attributes:
        seconds: how long.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__("Too many requests; wait a little.")
        self.seconds = math.ceil(seconds)


class Admission:
    """Decides who may call, and counts how often."""

    def __init__(self, access: Access, memories: Callable[[], Memories]) -> None:
        self._access, self._memories = access, memories
        self._rate = RateLimit(access.requests_per_minute)
        self._known = LRUCache[str, str](MAX_KNOWN)  # digests of tokens that held, and their ids

    async def caller(self, headers: Headers, secret: str, address: str) -> Caller | None:
        """Return the caller, or None without valid credentials.

        Raises:
            TooOften: the caller must wait.
            StoreError: the token cannot be looked up.
        """
        token, proxied = digest(secret) if secret.startswith(PREFIX) else None, None
        if token is None and self._access.trusted_proxy:
            proxied = auth.caller_of_proxy(headers, self._memories().settings.tenant)
        waits = self._rate.wait_seconds(self._counted_as(address, token, proxied), time.monotonic())
        if waits:
            raise TooOften(waits)
        if token is not None:  # one of ours: it must hold, also where none is needed
            known = await self._memories().tokens.authenticate(secret)
            if known is None:
                self._known.pop(token, None)
                return None
            self._known[token] = known.id
            return auth.caller_of_token(known)
        if proxied is None and not (self._access.required or self._access.trusted_proxy):
            return auth.LOCAL
        return proxied

    def _counted_as(self, address: str, token: str | None, proxied: Caller | None) -> str:
        """The key of a request's rate limit, chosen before anything is looked up: an unverified
        token does not count as a caller, except where all requests come from this machine, as they
        do through a proxy on it.
        """
        if proxied is not None:
            return f"proxy {(proxied.tenant, proxied.user, proxied.app)}"
        network = auth.network_of(address)
        if token is None:
            return f"address {network}"
        if auth.is_loopback(address):
            return f"token {token}"
        known = self._known.get(token)
        return f"address {network}" if known is None else f"token {known} at {network}"
