"""Admission of callers and their share of requests at once, the same for every protocol."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Mapping
from contextlib import asynccontextmanager, contextmanager
from weakref import WeakValueDictionary

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from ..memories import Memories
from ..memories.tokens import PREFIX
from . import auth
from .auth import Access, Caller

MAX_OPEN = 128  # requests of one caller; further ones are refused
MAX_RUNNING = 64  # requests of all callers that are worked on; others wait
SHARES = 8  # one caller may have one of so many parts of them
LONG_BODY = 2_000  # bytes; a longer search takes processor time to read
NOT_FROM_HERE = (
    "Without auth this server answers its own machine only. Let others in with a token "
    "(`kagent-memory serve --auth`; `create_app(…, Access(required=True))`) or behind a proxy "
    "that sets X-User-Id (`--trusted-proxy`)."
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
        if not access.is_guarded and auth.is_elsewhere(address):
            raise HTTPException(403, NOT_FROM_HERE)
        caller = None if access.is_guarded else auth.LOCAL
        secret = auth.bearer(headers, cookies)
        if secret.startswith(PREFIX):  # one of ours: it must hold, also where none is needed
            async with self.turn(address):
                token = await memories.tokens.authenticate(secret)
            caller = token and auth.caller_of_token(token)
        elif access.trusted_proxy:
            caller = auth.caller_of_proxy(headers, memories.settings.tenant)
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
