"""Workers look for due jobs once for several claims: what happened since the look is still told at
the claim.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from kagent_memory.records import Scope
from kagent_memory.stores import Store, open_store
from kagent_memory.stores.values import Job
from kagent_memory.testing.fixtures import NOW, a_job

A = Scope("acme", "a", "desk")


def job(scope: Scope, age: int, *, model: str = "") -> Job:
    at = NOW - timedelta(minutes=age)
    said = {"session_id": f"{scope.user}{age}", "payload": {"messages": []}}
    return a_job(scope, now=at, provider="llm", model=model, **said)


async def claimed(store: Store, owner: str = "me", exclude: Sequence[tuple[str, str]] = ()) -> str:
    """The session of the job that is claimed; "" for none."""
    found = await store.queue.claim(owner, now=NOW, lease_seconds=30, exclude=exclude)
    return found.session_id if found else ""


async def test_two_processes_that_found_the_same_jobs_share_them(tmp_path: Path):
    """Each job goes to one of them, and both get as many."""
    uri = f"libsql:///{tmp_path}/memory.db"
    async with await open_store(uri) as one, await open_store(uri) as other:
        await one.enqueue(
            [job(Scope("acme", f"user{number}:", "desk"), number) for number in range(30)]
        )
        taken = [
            await claimed(*((one, "one"), (other, "other"))[number % 2]) for number in range(30)
        ]
        assert len(set(taken) - {""}) == 30
        running = await one.queue.jobs(state="running")
        assert Counter(job.owner for job in running) == {"one": 15, "other": 15}
        assert [await claimed(one), await claimed(other)] == ["", ""]


async def test_ten_thousand_queued_events_of_one_user_hold_up_nobody(tmp_path: Path):
    """The jobs of others come next, and a claim takes no longer for it."""
    path = tmp_path / "memory.db"
    others = [Scope("acme", f"user{number}", "desk") for number in range(12)]
    async with await open_store(f"libsql:///{path}") as store:
        await store.enqueue([job(A, 900)])
        with closing(sqlite3.connect(path)) as file, file:
            names: list[str] = [row[1] for row in file.execute("PRAGMA table_info(ingest_job)")]
            new = "printf('%032d', number)"
            given = {"id": new, "key": new, "created_at": "'2026-02-01T00:00:00.000000Z'"}
            picked = ", ".join(given.get(name, name) for name in names)
            file.execute(
                "WITH RECURSIVE numbers(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM "
                "numbers LIMIT 10000) INSERT INTO ingest_job "
                f"SELECT {picked} FROM ingest_job, numbers WHERE key = ''"
            )
        await store.enqueue([job(scope, 1) for scope in others])
        async with asyncio.timeout(60):  # it took minutes while each job was compared with each
            served = [await claimed(store) for _ in range(30)]
        assert served[1:13] == [f"user{number}1" for number in range(12)]
        assert served[0].startswith("a")
