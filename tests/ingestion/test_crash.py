"""Invariants 2 and 3 under SIGKILL: after any kill, the memories are those of a life without a
crash.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import sys
from itertools import product
from multiprocessing.forkserver import ensure_running
from typing import Any

import pytest

from . import life
from .ground import opened

FORKS = multiprocessing.get_context("forkserver")


@pytest.fixture(scope="module", autouse=True)
def forkserver() -> None:
    """Return a server with the modules of a life preloaded, which need the path to be found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        FORKS.set_forkserver_preload([life.__name__])
        ensure_running()


class Lives:
    """Processes one after another on one store, with a record of acknowledged sessions."""

    def __init__(self, uri: str, user: str = "ada") -> None:
        self.uri, self.user = uri, user
        self.acknowledged: list[str] = []
        self.kills = 0

    def once(self, point: str = "", seconds: float | None = None) -> bool:
        """Run one process; return True if it finished, False if it was killed."""
        near, far = FORKS.Pipe(duplex=False)
        process = FORKS.Process(
            target=life.live, args=(self.uri, self.user, point, tuple(self.acknowledged), far)
        )
        process.start()
        far.close()
        process.join(240 if seconds is None else seconds)
        if process.is_alive():
            process.kill()
            process.join()
        self._hear(near)
        self.kills += process.exitcode == -9
        assert process.exitcode in (0, -9)
        return process.exitcode == 0

    def _hear(self, near: Any) -> None:
        try:
            while True:
                self.acknowledged.append(near.recv())
        except EOFError:
            near.close()


def memories_of(uri: str, user: str = "ada") -> list[tuple[str, tuple[str, ...]]]:
    async def read() -> list[tuple[str, tuple[str, ...]]]:
        async with opened(uri) as memories:
            page = await memories.list(life.scope_of(user), limit=1000)
            assert {job.kind for job in await memories.jobs()} <= {"consolidate"}
            return sorted((memory.content, memory.event_ids) for memory in page.memories)

    return asyncio.run(read())


def expected() -> list[str]:
    return sorted(
        text
        for number in range(life.SESSIONS)
        for text in (
            f"locker {number} opens with key K-{number}00.",
            f"the parrot number {number} is called Polly{number}.",
        )
    )


@pytest.mark.parametrize(
    ("store_uri", "point"),
    [*product(["libsql"], life.POINTS), *product(["postgres"], life.WITHIN)],
    indirect=["store_uri"],
)
def test_a_kill_at_a_named_point_loses_and_doubles_nothing(store_uri: str, point: str):
    """A kill at any named point of a job loses no fact and stores none twice."""
    lives = Lives(store_uri)
    assert not lives.once(point), f"{point} was never reached"
    assert lives.once()
    assert [content for content, _ in memories_of(store_uri)] == expected()


@pytest.mark.parametrize("wanted", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_kills_at_random_moments_lose_and_double_nothing(store_uri: str, wanted: int):
    """Each fact is stored exactly once in the end, after any number of kills at any moment."""
    chance = random.Random(20261121)
    kills = lives_lived = 0
    while kills < wanted:
        lives_lived += 1
        lives = Lives(store_uri, f"user{lives_lived}")
        for _ in range(8):
            if lives.once(seconds=chance.uniform(0.02, 0.9)):
                break
        assert lives.once()
        kills += lives.kills
        assert [content for content, _ in memories_of(store_uri, lives.user)] == expected()
