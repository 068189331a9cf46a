"""Workers find due jobs once for several claims, and a long queue does not slow them down."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

from kagent_memory.records import Scope
from kagent_memory.stores import open_store
from kagent_memory.testing.fixtures import NOW, a_job


async def test_ten_thousand_queued_events_of_one_user_hold_up_nobody(tmp_path: Path):
    """Ten thousand queued jobs of one user neither delay other users' jobs nor slow down claims."""
    path = tmp_path / "memory.db"
    others = [Scope("acme", f"user{number}", "desk") for number in range(12)]
    async with await open_store(f"libsql:///{path}") as store:
        await store.queue.enqueue([a_job(Scope("acme", "a", "desk"))])
        with closing(sqlite3.connect(path)) as file, file:
            names: list[str] = [row[1] for row in file.execute("PRAGMA table_info(ingest_job)")]
            new = "printf('%032d', number)"
            values = {"id": new, "key": new, "created_at": "'2026-02-01T00:00:00.000000Z'"}
            picked = ", ".join(values.get(name, name) for name in names)
            file.execute(
                "WITH RECURSIVE numbers(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM "
                "numbers LIMIT 10000) INSERT INTO ingest_job "
                f"SELECT {picked} FROM ingest_job, numbers WHERE key = ''"
            )
        await store.queue.enqueue([a_job(scope) for scope in others])
        async with asyncio.timeout(60):  # it took minutes while each job was compared with each
            claim = partial(store.queue.claim, "me", now=NOW, lease_seconds=30)
            served = [job.scope for _ in range(13) if (job := await claim())]
        assert set(served[1:]) == {*others}
