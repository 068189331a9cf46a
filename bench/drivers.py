"""The two drivers of a file side by side: latency alone and with 16 callers, writes, Python's global lock, memory.

    python bench/drivers.py
    python bench/drivers.py --memories 5000 --rounds 5

Each round starts a fresh process for each driver in turn; figures are medians over the rounds, of the store alone: no
embedder, no ranking. The lock is Python's global one: while a driver keeps it, nothing else in the process runs.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Literal

import numpy as np

from kagent_memory.records import Change, Memory, Scope, new_id
from kagent_memory.stores import open_store
from kagent_memory.stores.base import Batch
from kagent_memory.stores.libsql.connection import Connection

DRIVERS = ("sqlite3", "libsql")
CALLERS = 16
WORDS = [f"word{number}" for number in range(800)]
SCOPE = Scope("", "ada", "bench")
NOW = datetime.now(UTC)
LONG_STATEMENT = (
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) SELECT max(i) FROM n"
)


def lock_kept(driver: str) -> float:
    """The share of one long statement for which no other thread could run."""
    connection = Connection(":memory:", driver)
    counted = threading.Event()
    runs = 0

    def count() -> None:
        nonlocal runs
        while not counted.is_set():
            runs += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    started, before = time.perf_counter(), runs
    connection.tuples(LONG_STATEMENT, {})
    seconds, during = time.perf_counter() - started, runs - before
    started, before = time.perf_counter(), runs
    time.sleep(seconds)
    free = (runs - before) / (time.perf_counter() - started)
    counted.set()
    thread.join()
    return max(0.0, 1 - during / (free * seconds))


async def timed(name: str, call: Callable[[], Awaitable[object]], count: int) -> dict[str, float]:
    """The median of so many calls, one after another, and this process's CPU time for one, in milliseconds."""
    taken: list[float] = []
    cpu = time.process_time()
    for _ in range(count):
        started = time.perf_counter()
        await call()
        taken.append(time.perf_counter() - started)
    used = (time.process_time() - cpu) / count
    return {f"{name}, ms": statistics.median(taken) * 1000, f"{name}, CPU ms": used * 1000}


async def rate(call: Callable[[], Awaitable[object]], count: int) -> float:
    """Calls a second of sixteen callers."""

    async def caller() -> None:
        for _ in range(count):
            await call()

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return CALLERS * count / (time.perf_counter() - started)


async def measured(driver: Literal["sqlite3", "libsql"], folder: str, memories: int) -> dict[str, float]:
    chance = random.Random(7)
    numbers = itertools.count()
    rows = np.random.default_rng(7).normal(size=(512, 384)).astype(np.float32)
    figures: dict[str, float] = {}
    async with await open_store(f"libsql:///{folder}/memory.db", driver=driver) as store:
        space = (await store.add_embedding_space("bench", 384, None)).number

        async def add(count: int = 1) -> None:
            made = [
                Memory(
                    id=new_id(), content=f"{' '.join(chance.choices(WORDS, k=12))} {n}", created_at=NOW, updated_at=NOW
                )
                for n in itertools.islice(numbers, count)
            ]
            vectors = {memory.id: chance.choice(rows) for memory in made}
            changes = [Change(kind="add", memory=memory) for memory in made]
            await store.apply(SCOPE, Batch(changes=changes, vectors=vectors, space_number=space), now=NOW)

        async def by_vector() -> None:
            await store.search_vector(SCOPE, space, [chance.choice(rows)], limit=10, now=NOW)

        async def by_words() -> None:
            await store.search_text(SCOPE, chance.choices(WORDS, k=4), limit=10, now=NOW)

        async def read() -> None:
            await store.list(SCOPE, limit=50, now=NOW)

        for _ in range(memories // 100):
            await add(100)
        for name, call, count in (
            ("vector search", by_vector, 100),
            ("word search", by_words, 100),
            ("page of 50", read, 50),
        ):
            await call()
            figures |= await timed(name, call, count)
        figures |= await timed("add", add, 100)
        figures |= await timed("100 adds at once", lambda: add(100), 5)
        figures["vector searches a second, 16 callers"] = await rate(by_vector, 20)
        figures["adds a second, 16 callers"] = await rate(add, 20)
    figures["lock kept during a long statement, share"] = lock_kept(driver)
    figures["memory, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--memories", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--driver", choices=DRIVERS, help="one round of one driver, as JSON")
    given = parser.parse_args()
    if given.driver:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(asyncio.run(measured(given.driver, folder, given.memories))))
        return
    rounds: dict[str, list[dict[str, float]]] = {driver: [] for driver in DRIVERS}
    for _, driver in itertools.product(range(given.rounds), DRIVERS):
        command = [sys.executable, __file__, "--driver", driver, "--memories", str(given.memories)]
        rounds[driver].append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    print(f"| {given.memories} memories, {given.rounds} rounds | {' | '.join(DRIVERS)} |\n|---|---|---|")
    for name in rounds[DRIVERS[0]][0]:
        medians = [statistics.median(figures[name] for figures in rounds[driver]) for driver in DRIVERS]
        print(f"| {name} | {' | '.join(f'{median:.2f}' for median in medians)} |")


if __name__ == "__main__":
    main()
