"""One file a tenant: what its file is called, what is done in it alone, and which files are open."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, Self, TypeVar

from ...concurrency import cancel_and_wait
from ...errors import ConfigurationError, KagentMemoryError, StoreError
from ...records import Scope
from ..encryption import KeyRing
from ..receipts import Receipt, ReceiptChain, chain_id
from ..sql import forgetting, queue, receipts, transfer, write_queries
from ..sql.session import Row
from .database import Database
from .location import Server, to_place
from .session import LibSQLSession
from .store import LibSQLStore

P = ParamSpec("P")
T = TypeVar("T")
PLACE = "{tenant}"
CATALOGUE = "@tenants"
MOST_OPEN = 64
IDLE_SECONDS = 60.0
LONGEST_NAME = 180
LONG = "~"
ALL_RECEIPTS = 2**31 - 1
MAKING: frozenset[Callable[..., Any]] = frozenset(
    {write_queries.apply, queue.enqueue, transfer.restore, forgetting.forget, receipts.add, queue.withdraw}
)
"""The scripts that write even where a tenant has nothing yet; the others find nothing to do, and no file is made."""
_ESCAPED = re.compile(r"[^a-z0-9_-]")
_ESCAPES = re.compile(r"(?:=[0-9a-f]{2})+")
_logger = logging.getLogger(__name__)


def file_name(tenant: str) -> str:
    """What stands for a tenant in the name of its file: lower-case letters, digits, - and _ as they are, the bytes of
    anything else as =2e, so that no name leaves the directory and none equals another where case does not count. One
    that would be too long for a file is a digest.
    """
    name = _ESCAPED.sub(lambda found: "".join(f"={byte:02x}" for byte in found[0].encode()), tenant) or "="
    digest = hashlib.blake2b(tenant.encode(), digest_size=20).hexdigest()
    return name if len(name) <= LONGEST_NAME else LONG + digest


def named_tenant(name: str) -> str | None:
    """The tenant that `file_name` gave this name; None: a long one, which the file itself tells, or none at all."""
    try:
        tenant = (
            "" if name == "=" else _ESCAPES.sub(lambda found: bytes.fromhex(found[0].replace("=", "")).decode(), name)
        )
        return tenant if file_name(tenant) == name and "\0" not in tenant else None
    except UnicodeError:
        return None


class TenantPlaces(NamedTuple):
    """Where the files of a directory stand: `libsql:///directory/{tenant}.db`."""

    directory: Path
    before: str
    after: str

    @classmethod
    def parse(cls, uri: str) -> Self:
        """The places that a URI means.

        Raises:
            ConfigurationError: {tenant} is not in the file's name, there twice, or with no ending after it.
        """
        place = to_place(uri)
        path = Path("" if isinstance(place, Server) else place).absolute()  # wherever the process goes from here
        before, _, after = path.name.partition(PLACE)
        if PLACE in str(path.parent) or PLACE not in path.name or PLACE in after or not after.startswith("."):
            raise ConfigurationError(
                "{tenant} must appear once in a libSQL URI, in the file's name and right before its ending: "
                "libsql:///directory/{tenant}.db."
            )
        return cls(path.parent, before, after)

    def path(self, name: str) -> str:
        """The path of the file with this name in the place of {tenant}."""
        return str(self.directory / f"{self.before}{name}{self.after}")

    def names(self) -> Sequence[str]:
        """What stands in the place of {tenant} in the names of the tenants' files that there are."""
        start, end = len(self.before), -len(self.after)
        found = (
            entry.name[start:end]
            for entry in self.directory.iterdir()
            if entry.name.startswith(self.before) and entry.name.endswith(self.after)
        )
        return sorted(name for name in found if name.startswith(LONG) or named_tenant(name) is not None)


class TenantFile(LibSQLStore):
    """The store of one tenant, or the catalogue of all: what is common to them, and nobody's memories.

    Attributes:
        spaces: the embedding spaces that it has under the numbers of the catalogue.
    """

    def __init__(self, database: Database, ring: KeyRing | None) -> None:
        super().__init__(database, {"cache_mb": 1}, ring=ring)
        self.database = database
        self.spaces: Sequence[Row] | None = None

    async def all_spaces(self) -> Sequence[Row]:
        """The rows of all embedding spaces there ever were."""
        return await self.database.read(LibSQLSession.rows, "all_embedding_spaces", {})

    async def number_spaces(self, spaces: Sequence[Row]) -> bool:
        """Gives the embedding spaces the numbers and states of these, which hold all that it has; whether any moved."""
        moved = False
        if list(await self.all_spaces()) != list(spaces):
            moved = await self.database.write(self._number, spaces)
        self.spaces = spaces
        return moved

    async def _number(self, session: LibSQLSession, spaces: Sequence[Row]) -> bool:
        known = await session.rows("all_embedding_spaces", {})
        here, wanted = _numbers(known), _numbers(spaces)
        moved = {number: wanted[one] for one, number in here.items() if wanted.get(one, number) != number}
        for number in list(moved)[:1]:
            await session.run("keep_vectors_aside", {}, space_number=number)
        for number in moved:
            await session.run("put_vectors_aside", {}, space_number=number)
        for _, number in {*here.items()} - {*wanted.items()}:
            await session.run("drop_vectors", {}, space_number=number)
        for _, number in {*wanted.items()} - {*here.items()}:
            for statement in ("make_vectors", "index_vectors", "index_vector_changes"):
                await session.run(statement, {}, space_number=number)
        for former, number in moved.items():
            await session.run("put_vectors_back", {"former": former}, space_number=number)
        if moved:
            await session.run("drop_vectors_aside", {})
        await session.run("erase_embedding_spaces", {})
        await session.run_many("number_embedding_space", spaces)
        return bool(moved)

    async def tenant(self) -> str | None:
        """Whose file it is, where that is still known."""
        return next((row["tenant"] for row in await self.database.read(LibSQLSession.rows, "a_tenant", {})), None)

    async def next_work(self) -> Row:
        """How many `jobs` there are, and when the next of them may be due."""
        [row] = await self.database.read(LibSQLSession.rows, "next_work", {})
        return row

    async def copy_chain(self, tenant: str, other: TenantFile) -> int:
        """Adds to the receipts of a tenant here those that another file has beyond them; gives how many it has."""
        id = chain_id(tenant)
        whose = await other.database.read(LibSQLSession.rows, "chain", {"chain": id})
        for row in whose:
            known = await self.chain(id)
            if (known.length if known else 0) < row["length"]:
                beyond = await other.receipts(id, after=known.length if known else 0, limit=ALL_RECEIPTS)
                await self.database.write(_continue, id, bytes(row["key"]), known, beyond)
        return sum(row["length"] for row in whose)

    async def remove(self, path: str, *, receipts: int) -> bool:
        """Removes the file, with its log, if nobody has written to it since it was found empty. Whoever has it open
        finds it `Moved`.
        """
        return await self.database.write(_remove, path, receipts)


def _numbers(spaces: Sequence[Row]) -> dict[tuple[str, int], int]:
    """The numbers of those that have a table, by name and width."""
    return {(row["name"], row["dimensions"]): row["number"] for row in spaces if row["state"] != "dropped"}


async def _continue(
    session: LibSQLSession, chain: str, key: bytes, known: ReceiptChain | None, beyond: Sequence[Receipt]
) -> None:
    if await receipts.chain(session, chain) == known and beyond:
        await session.run("hold_chain", {"chain": chain, "key": key})
        for receipt in beyond:
            await session.run("insert_receipt", {"chain": chain, **asdict(receipt)})
        await session.run("move_chain", {"chain": chain, "number": beyond[-1].number, "digest": beyond[-1].digest})


async def _remove(session: LibSQLSession, path: str, copied: int) -> bool:
    tenants = await session.rows("a_tenant", {})
    lengths = [(await receipts.chain(session, id)) for id in await receipts.chains(session)]
    if tenants or sum(one.length for one in lengths if one) != copied:
        return False
    for suffix in ("", "-wal", "-shm"):
        Path(path + suffix).unlink(missing_ok=True)  # noqa: ASYNC240 this is the driver thread
    return True


@dataclass(eq=False, slots=True)
class _Open:
    file: TenantFile | None = None
    users: int = 0
    used_at: float = 0.0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # who opens or closes it


class OpenFiles:
    """The files that are open: each is opened when it is first used, and at most `MOST_OPEN` of them stay open; one is
    closed when nobody has used it for `IDLE_SECONDS`, or the room is needed for another, and never in use.
    """

    def __init__(self, open_file: Callable[[str], Awaitable[TenantFile]]) -> None:
        self._open_file = open_file
        self._known: dict[str, _Open] = {}
        self._room = asyncio.Semaphore(MOST_OPEN)
        self._waiting = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None
        self._closed = False

    def __contains__(self, tenant: str) -> bool:
        return tenant in self._known

    @asynccontextmanager
    async def use(self, tenant: str) -> AsyncGenerator[TenantFile]:
        """The tenant's file, which stays open till the end of this.

        Raises:
            StoreError: all were closed.
        """
        known = self._known.setdefault(tenant, _Open())
        known.users += 1
        try:
            async with known.turn:
                if known.file is None:
                    known.file = await self._opened(tenant)
            yield known.file
        finally:
            known.users -= 1
            known.used_at = time.monotonic()
            if not known.users:
                is_current = self._known.get(tenant) is known
                if known.file is None and is_current:
                    del self._known[tenant]
                elif not is_current or self._waiting:
                    task = asyncio.create_task(self._close(tenant, known))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)

    def let_go(self, tenant: str, file: TenantFile) -> None:
        """Closes a file as soon as those who use it now have ended; who comes next opens another."""
        if (known := self._known.get(tenant)) is not None and known.file is file:
            del self._known[tenant]

    async def close(self) -> None:
        """Closes all, after the work already handed over."""
        self._closed = True
        await cancel_and_wait(*(() if self._sweeper is None else (self._sweeper,)))
        for known in list(self._known.values()):
            async with known.turn:
                if known.file is not None:
                    await known.file.close()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _opened(self, tenant: str) -> TenantFile:
        if self._closed:
            raise StoreError("The store is closed; open it again.")
        while self._room.locked() and (idle := self._idle(0.0)):
            await self._close(*idle[0])
        self._waiting += 1
        try:
            await self._room.acquire()
        finally:
            self._waiting -= 1
        try:
            file = await self._open_file(tenant)
        except BaseException:
            self._room.release()
            raise
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.create_task(self._sweep(), name="kagent-memory-tenant-files")
        return file

    def _idle(self, seconds: float) -> Sequence[tuple[str, _Open]]:
        """Those that nobody has used for so long, the longest first."""
        since = time.monotonic() - seconds
        known = sorted(self._known.items(), key=lambda pair: pair[1].used_at)
        return [
            (tenant, one)
            for tenant, one in known
            if one.file and not one.users and one.used_at <= since and not one.turn.locked()
        ]

    async def _sweep(self) -> None:
        while self._known:
            await asyncio.sleep(IDLE_SECONDS / 4)
            for tenant, known in self._idle(IDLE_SECONDS):
                await self._close(tenant, known)

    async def _close(self, tenant: str, known: _Open) -> None:
        async with known.turn:
            if known.users or known.file is None:
                return
            file, known.file = known.file, None
            try:
                await file.close()
            except KagentMemoryError as error:
                _logger.warning("A tenant's file could not be closed in order: %s", error)
            finally:
                self._room.release()
        if not known.users and self._known.get(tenant) is known:
            del self._known[tenant]


class _Run(Protocol):
    async def __call__(self, tenant: str, work: Callable[[TenantFile], Awaitable[T]], /, *, makes: bool = False) -> T:
        """What some work gives in a tenant's file; where there is none, and it makes none, in the catalogue."""
        ...


class TenantDatabase:
    """The databases of all tenants as one: scripts of a scope run in its tenant's file, the others in the catalogue."""

    def __init__(self, run: _Run, catalogue: Database) -> None:
        self._run = run
        self._catalogue = catalogue

    def within(self, scope: Scope) -> TenantView:
        """The tenant's file."""
        return TenantView(self._run, scope.tenant)

    def read(
        self,
        script: Callable[Concatenate[LibSQLSession, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, T]:
        """See `Database`; in the catalogue."""
        return self._catalogue.read(script, *args, **kwargs)

    def write(
        self,
        script: Callable[Concatenate[LibSQLSession, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, T]:
        """See `Database`; in the catalogue."""
        return self._catalogue.write(script, *args, **kwargs)

    async def erase(self) -> None:
        """See `Database`; of the catalogue."""
        await self._catalogue.erase()

    async def close(self) -> None:
        """Closes the catalogue."""
        await self._catalogue.close()


class TenantView:
    """One tenant's file, opened whenever it is used."""

    def __init__(self, run: _Run, tenant: str) -> None:
        self._run = run
        self._tenant = tenant

    def within(self, scope: Scope) -> TenantView:
        """The file of that scope's tenant."""
        return TenantView(self._run, scope.tenant)

    async def read(
        self,
        script: Callable[Concatenate[LibSQLSession, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """See `Database`."""
        return await self._run(self._tenant, lambda file: file.database.read(script, *args, **kwargs))

    async def write(
        self,
        script: Callable[Concatenate[LibSQLSession, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """See `Database`."""
        return await self._run(
            self._tenant, lambda file: file.database.write(script, *args, **kwargs), makes=script in MAKING
        )

    async def erase(self) -> None:
        """See `Database`."""
        await self._run(self._tenant, lambda file: file.database.erase())

    async def close(self) -> None:
        """Nothing: it is closed when it is idle."""
