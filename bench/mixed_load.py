"""Run several servers and workers on one PostgreSQL under mixed load.

    python bench/mixed_load.py          # a private PostgreSQL, 2 servers, 2 workers, 60 seconds
    python bench/mixed_load.py --seconds 600 --callers 16 --uri postgresql://…  # an idle database

Nothing may be lost, doubled, stale or deadlocked.

Callers share a few users' memories and go from server to server at every call. Each keeps account
of what was acknowledged to it: what it added, what its sessions said (each is sent twice, to both
servers), how it edited, what it forgot. While it goes on it searches for what it wrote, which the
other server must know at once. When all is drained the memories are compared with the accounts,
text by text.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from growth import private_postgres

from kagent_memory import Memories, Message, Scope
from kagent_memory.errors import KagentMemoryError, StoreError
from kagent_memory.remote import RemoteMemories

USERS = 3


@dataclass(slots=True)
class Outcome:
    """The outcome of a load. Every list and count except `milliseconds` is a fault.

    Attributes:
        milliseconds: the durations of the calls, by name.
        lost: acknowledged texts that are missing.
        doubled: texts stored more than once.
        revenants: texts that are stored although an acknowledged call erased or overwrote them.
        unknown: texts that nobody wrote.
        stale: searches that missed what had been acknowledged before they began.
        errors: failed calls, by message.
        deadlocks: the deadlocks that the database counted.
        jobs: the remaining jobs, by state.
    """

    milliseconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    revenants: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    deadlocks: int = 0
    jobs: Counter[str] = field(default_factory=Counter)

    @property
    def faults(self) -> dict[str, object]:
        """Return the lists and counts that are not empty, by name."""
        values = {name: getattr(self, name) for name in self.__slots__ if name != "milliseconds"}
        return {name: value for name, value in values.items() if value}


@dataclass(slots=True)
class Account:
    """The memories that one caller wrote, as the servers acknowledged them.

    Attributes:
        there: the texts that must be stored, with their users.
        gone: the texts that must not be stored.
        open: the texts of failed calls, which may be stored or not.
        ids: the ids of the memories that the caller may edit or forget, with their texts.
    """

    there: dict[str, Scope] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    ids: dict[str, str] = field(default_factory=dict)


class Caller:
    """One caller with its account.

    Args:
        number: its number.
        servers: the servers to call in turn.
        outcome: the outcome to report to.
    """

    def __init__(self, number: int, servers: Sequence[RemoteMemories], outcome: Outcome) -> None:
        self.account = Account()
        self._number, self._servers, self._outcome = number, servers, outcome
        self._chance = random.Random(number)
        self._texts = (f"Item c{number}n{count} of the list." for count in range(sys.maxsize))

    async def work(self, until: float) -> None:
        ways = {
            "search": self._search,
            "add": self._add,
            "remember": self._remember,
            "edit": self._edit,
        }
        ways |= {"forget": self._forget}
        while time.monotonic() < until:
            [name] = self._chance.choices(list(ways), [40, 25, 10, 15, 10])
            start = time.perf_counter()
            try:
                await ways[name]()
            except KagentMemoryError as error:
                self._outcome.errors[f"{name}: {type(error).__name__}: {error}"] += 1
            else:
                self._outcome.milliseconds[name].append((time.perf_counter() - start) * 1000)

    @property
    def _server(self) -> RemoteMemories:
        return self._chance.choice(self._servers)

    def _begin(self) -> tuple[str, Scope]:
        """Return a new text, whose fate is open until its call is acknowledged, and the user to
        store it for.
        """
        text = next(self._texts)
        self.account.open.add(text)
        return text, Scope("load", f"user{self._chance.randrange(USERS)}", "bench")

    def _stored(self, text: str, scope: Scope) -> None:
        self.account.open.discard(text)
        self.account.there[text] = scope

    def _owned(self) -> tuple[str, str, Scope] | None:
        if not self.account.ids:
            return None
        id = self._chance.choice(list(self.account.ids))
        text = self.account.ids[id]
        return id, text, self.account.there[text]

    async def _add(self) -> None:
        text, scope = self._begin()
        [id] = await self._server.add(scope, [text])
        self._stored(text, scope)
        self.account.ids[id] = text

    async def _remember(self) -> None:
        (first, scope), (second, _) = self._begin(), self._begin()
        session_id = f"session of {first}"
        messages = [
            Message(text=text, event_id=f"{number}") for number, text in enumerate((first, second))
        ]
        server, other = self._chance.sample(self._servers, 2)
        await asyncio.gather(
            server.remember(scope, messages[:1], session_id),
            other.remember(scope, messages, session_id),
        )
        for text in (first, second):
            self._stored(text, scope)

    async def _edit(self) -> None:
        if (owned := self._owned()) is None:
            return
        id, text, scope = owned
        new, _ = self._begin()
        self.account.open.add(text)
        del self.account.ids[id], self.account.there[text]
        await self._server.edit(scope, id, content=new)
        self._stored(new, scope)
        self.account.open.discard(text)
        self.account.gone.add(text)
        self.account.ids[id] = new

    async def _forget(self) -> None:
        if (owned := self._owned()) is None:
            return
        id, text, scope = owned
        self.account.open.add(text)
        del self.account.ids[id], self.account.there[text]
        await self._server.forget(scope, [id])
        self.account.open.discard(text)
        self.account.gone.add(text)

    async def _search(self) -> None:
        if (owned := self._owned()) is None:
            return
        _, text, scope = owned
        hits = await self._server.recall(scope, text.split()[1], limit=5)
        if text not in [hit.memory.content for hit in hits.hits]:
            self._outcome.stale.append(text)


@contextmanager
def process(log: Path, *words: str) -> Iterator[Path]:
    """Run a command of the package for the length of a `with`, and yield its log."""
    command = [sys.executable, "-m", "kagent_memory", *words, "--set", "prune_every_hours=0"]
    with log.open("w") as output:
        running = subprocess.Popen(
            command, stderr=output, stdout=output, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
    try:
        yield log
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) in (0, -signal.SIGTERM), log.read_text(encoding="utf-8")
    finally:
        running.kill()
        running.wait()


def address_of(log: Path) -> str:
    """Return the address that a server prints when it has started."""
    for _ in range(1200):
        if match := re.search(r"http://[\d.:]+", log.read_text(encoding="utf-8")):
            return match[0]
        time.sleep(0.1)
    raise TimeoutError(log.read_text(encoding="utf-8"))


async def reached(log: Path) -> RemoteMemories:
    """Return the memories of a server that has just been started."""
    address = await asyncio.to_thread(address_of, log)
    async with asyncio.timeout(60):
        while True:
            try:
                return await RemoteMemories.open(address)
            except StoreError:
                await asyncio.sleep(0.1)


async def load(
    uri: str,
    *,
    seconds: float,
    servers: int = 2,
    workers: int = 2,
    callers: int = 8,
    words: Sequence[str] = (),
) -> Outcome:
    """Put an idle database under load, and return the outcome.

    Args:
        uri: the URI of the PostgreSQL; everything of the tenant "load" is erased first.
        seconds: the duration of the load.
        servers: the number of `kagent-memory serve` processes.
        workers: the number of `kagent-memory worker` processes.
        callers: the number of concurrent callers.
        words: more options of both commands.
    """
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        async with await Memories.open(uri, worker=False) as memories, AsyncExitStack() as opened:
            await memories.forget_tenant("load")
            before = await deadlocks(uri)
            serve = ("serve", "--port", "0", "--uri", uri, *words)
            logs = [
                processes.enter_context(process(Path(folder) / f"server{n}", *serve))
                for n in range(servers)
            ]
            for n in range(workers):
                processes.enter_context(
                    process(Path(folder) / f"worker{n}", "worker", "--uri", uri, *words)
                )
            remotes = [await opened.enter_async_context(await reached(log)) for log in logs]
            crowd = [Caller(number, remotes, outcome) for number in range(callers)]
            until = time.monotonic() + seconds
            await asyncio.gather(*(caller.work(until) for caller in crowd))
            await memories.drain(120)
            await compare(memories, [caller.account for caller in crowd], outcome)
            outcome.deadlocks = await deadlocks(uri) - before
    return outcome


async def deadlocks(uri: str) -> int:
    """Return the number of deadlocks that the database has counted so far."""
    async with await psycopg.AsyncConnection.connect(uri) as connection:
        cursor = await connection.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
        [(count,)] = await cursor.fetchall()
    return count


async def compare(memories: Memories, accounts: Sequence[Account], outcome: Outcome) -> None:
    """Compare the stored memories with the accounts."""
    there: Counter[tuple[str, Scope]] = Counter()
    for scope in await memories.scopes(tenant="load"):
        cursor: str | None = None
        while True:
            page = await memories.list(scope, limit=1000, cursor=cursor)
            there.update((memory.content, scope) for memory in page.memories)
            if (cursor := page.cursor) is None:
                break
        outcome.jobs.update(job.state for job in await memories.jobs(scope=scope))
    expected = {item for account in accounts for item in account.there.items()}
    absent, unsure = (
        {text for account in accounts for text in getattr(account, name)}
        for name in ("gone", "open")
    )
    outcome.lost += sorted(text for text, _ in expected - set(there))
    outcome.doubled += sorted(text for (text, _), count in there.items() if count > 1)
    for text, scope in sorted(set(there) - expected, key=str):
        if text in absent:
            outcome.revenants.append(text)
        elif text not in unsure:
            outcome.unknown.append(f"{text} ({scope.user})")


async def main(options: argparse.Namespace, uri: str) -> None:
    print(
        f"{datetime.now(UTC).date()}, {platform.machine()}, {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f}"
    )
    print(
        f"{options.servers} servers, {options.workers} workers, {options.callers} callers, "
        f"{options.seconds:g} s\n"
    )
    words = ["--embedding", options.embedding] if options.embedding else []
    outcome = await load(
        uri,
        seconds=options.seconds,
        servers=options.servers,
        workers=options.workers,
        callers=options.callers,
        words=words,
    )
    print("| call | calls | p50 ms | p95 ms |\n|---|---|---|---|")
    for name, durations in outcome.milliseconds.items():
        late = statistics.quantiles([*durations, max(durations)], n=20)[-1]
        print(f"| {name} | {len(durations)} | {statistics.median(durations):.0f} | {late:.0f} |")
    print(f"\nfaults: {outcome.faults or 'none'}")
    sys.exit(bool(outcome.faults))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--servers", type=int, default=2, help="at least 2")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument(
        "--embedding", help="the servers' and workers' embedder; default: keyword mode"
    )
    parser.add_argument("--uri", help="an idle PostgreSQL; default: a private one")
    options = parser.parse_args()
    if options.servers < 2 or options.callers < 1:
        parser.error(
            "callers go from one server to another: at least two --servers, and one --callers"
        )
    if options.uri:
        asyncio.run(main(options, options.uri))
    else:
        with private_postgres(None) as private:
            asyncio.run(main(options, private))
