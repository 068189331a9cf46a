"""Counts of use are written together."""

from __future__ import annotations

import psycopg

from kagent_memory import Memories, Scope
from kagent_memory.retention.deliveries import GATHER_SECONDS

SCOPE = Scope("acme", "ada", "desk")
RECALLS = int(10 * GATHER_SECONDS)


async def test_ten_recalls_a_second_write_little_of_the_log(postgres_uri: str) -> None:
    """What is recalled within a minute is one write, of less than 1 KB a recall."""
    async with await Memories.open(postgres_uri, worker=False) as memories:
        ids = await memories.add(SCOPE, [f"Locker {n} is near gate {n % 9}." for n in range(200)])
        with psycopg.connect(postgres_uri, autocommit=True) as connection:
            log = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
            [(before,)] = connection.execute(log)
            for number in range(RECALLS):
                await memories.recall(SCOPE, f"locker {number % 200}")
            await memories.parts.deliveries.drain()
            [(after,)] = connection.execute(log)
        assert (after - before) / RECALLS < 1_000
        stored = await memories.get(SCOPE, ids[7])
        assert stored.usage.delivered >= RECALLS // 200
