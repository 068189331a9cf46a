r"""Search scopes of 10 to 50,000 memories in one table, beside the bare statement.

    python bench/scope_sizes.py           # a private PostgreSQL; some minutes
    python bench/scope_sizes.py --markdown bench/NOTES.md \
        --picture docs/images/scope-sizes.svg

Each size is the scope of one user; users of 100 memories fill the table. The vector leg is the
store's search, made by the database; its recall is counted against the products with all of the
scope's vectors. "First" is the hybrid recall of a store that has not seen the scope, "next" one
that has. All sizes and calls in turn; medians.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from growth import BATCH, PER_USER, MadeVectors, private_postgres, question, sentences
from pages import drawn, replace_table
from psycopg_pool import AsyncConnectionPool
from speed import SCHEMA, configured, raw_search, vector

from kagent_memory import Filter, Memories, Scope

SIZES = (10, 100, 300, 1000, 2000, 5000, 10_000, 20_000, 50_000)
TABLE = 235_000
CALLS, LIMIT = 10, 10  # of each search in a round; memories found
RAW, LEG, FIRST, NEXT = "raw SQL", "vector leg", "first hybrid recall", "next"
Taken = dict[tuple[str, int], list[float]]
"""(what was called, of how many memories) → milliseconds of each call."""


def of_size(size: int) -> Scope:
    return Scope("sizes", f"user{size}", "bench")


async def fill(memories: Memories, table: int) -> None:
    users = range(max(0, table - sum(SIZES)) // PER_USER)
    fillers = [(Scope("filling", f"user{number}", "bench"), PER_USER) for number in users]
    for scope, count in (*((of_size(size), size) for size in SIZES), *fillers):
        for first in range(0, count, BATCH):
            await memories.add(scope, sentences(scope, min(BATCH, count - first), first))


async def recall_of_leg(memories: Memories, size: int, space: int) -> float:
    """Return the share of the nearest memories that the vector search finds."""
    scope, store, shares = of_size(size), memories.store, list[float]()
    vectors = await store.memories.vectors(scope, space, await store.memories.kept(scope, Filter()))
    ids, rows = np.array([*vectors]), np.stack([*vectors.values()]).astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for _ in range(CALLS):
        query = vector()
        [nearest] = await (await store.memories.view(scope, now=datetime.now(UTC))).nearest(
            space, [query], limit=LIMIT
        )
        best = np.argsort(-(rows @ query.astype(np.float16).astype(np.float64)))[:LIMIT]
        shares.append(
            len({id for id, _ in nearest}.intersection(ids[best].tolist())) / min(LIMIT, size)
        )
    return statistics.mean(shares)


async def measure(
    uri: str, memories: Memories, pool: AsyncConnectionPool, space: int, times: Taken
) -> None:
    """Run one round: each call for each size."""
    chance = random.Random(len(times))

    async def timed(what: str, size: int, call: Awaitable[object]) -> None:
        start = time.perf_counter()
        await call
        times[what, size].append((time.perf_counter() - start) * 1000)

    async with await opened(uri) as stranger:
        await stranger.recall(Scope("sizes", "nobody", "bench"), "connected")
        for size in SIZES:
            scope = of_size(size)
            await timed(FIRST, size, stranger.recall(scope, question(scope, chance), limit=LIMIT))
            # brings the vectors into memory
            await stranger.recall(scope, question(scope, chance), limit=LIMIT)
            raw = raw_search(pool, space, scope)
            for _ in range(CALLS):
                await timed(
                    NEXT, size, stranger.recall(scope, question(scope, chance), limit=LIMIT)
                )
                await timed(RAW, size, raw())
                await timed(LEG, size, nearest(memories, scope, space))


async def nearest(memories: Memories, scope: Scope, space: int) -> None:
    view = await memories.store.memories.view(scope, now=datetime.now(UTC))
    await view.nearest(space, [vector()], limit=LIMIT)


async def opened(uri: str) -> Memories:
    return await Memories.open(uri, embedding=MadeVectors(), worker=False, postgres_schema=SCHEMA)


def table(times: Taken, recalls: Mapping[int, float]) -> list[str]:
    """Return the table: ratios first, then the milliseconds."""
    ratios, calls = (LEG, FIRST, NEXT), (RAW, LEG, FIRST, NEXT)
    heads = [
        "memories in the scope",
        *(f"{what}: × raw" for what in ratios),
        "first: × next",
        "recall of the leg",
    ]
    lines = [
        f"| {' | '.join((*heads, *(f'{what}: ms' for what in calls)))} |",
        "|---" * (len(heads) + 4) + "|",
    ]
    for size in SIZES:
        ms = {what: statistics.median(times[what, size]) for what in calls}
        shown = [f"{ms[what] / ms[RAW]:.2f}" for what in ratios] + [f"{ms[FIRST] / ms[NEXT]:.2f}"]
        cells = [
            f"{size:,}",
            *shown,
            f"{recalls[size]:.3f}",
            *(f"{value:.2f}" for value in ms.values()),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def draw(times: Taken, picture: Path) -> None:
    with drawn(picture, (7, 4.2)) as axes:
        for what in (RAW, LEG, FIRST, NEXT):
            label = "hybrid recall, next" if what == NEXT else what
            axes.loglog(
                SIZES,
                [statistics.median(times[what, size]) for size in SIZES],
                marker="o",
                ms=3,
                label=label,
            )
        axes.set(xlabel="memories in the scope", ylabel="ms")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)


async def run(uri: str, options: argparse.Namespace) -> None:
    times: Taken = defaultdict(list)
    async with await opened(uri) as memories:
        await fill(memories, options.table)
        space = (await memories.store.memories.spaces.all())[-1].number
        async with AsyncConnectionPool(uri, min_size=1, max_size=1, configure=configured) as pool:
            async with pool.connection() as connection:
                await connection.execute("VACUUM (ANALYZE)")
            recalls = {size: await recall_of_leg(memories, size, space) for size in SIZES}
            for number in range(options.rounds + 1):
                await measure(uri, memories, pool, space, times if number else defaultdict(list))
    made = table(times, recalls)
    print("\n".join(made))
    if options.markdown:
        replace_table(
            options.markdown,
            made,
            f"medians of {options.rounds} rounds, a table of {options.table:,} memories",
        )
    if options.picture:
        draw(times, options.picture)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", type=int, default=TABLE, help="memories in all")
    parser.add_argument("--rounds", type=int, default=5, help="beside a first one that warms up")
    parser.add_argument("--markdown", type=Path, help="the page whose table is replaced")
    parser.add_argument("--picture", type=Path, help="where the times are drawn: .svg or .png")
    options = parser.parse_args()
    with private_postgres(None) as private:
        asyncio.run(run(private, options))
