"""A search for a caller who is gone goes no further."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from kagent_memory import Memories, Scope
from kagent_memory.retrieval import retriever

ADA = Scope("", "ada", "app")


@pytest.mark.parametrize(("step", "after"), [("join", "rank"), ("rank", "select")])
async def test_a_cancelled_recall_does_no_more_steps(
    step: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above a few hundred candidates each step has a thread, and the event loop hears of the
    cancellation.
    """
    begun, done, go_on = threading.Event(), list[str](), threading.Event()
    threads: set[int] = set()
    works: dict[str, Any] = {name: getattr(retriever, name) for name in (step, after)}

    def held(*args: Any, **options: Any) -> Any:
        threads.add(threading.get_ident())
        begun.set()
        go_on.wait(60)
        return works[step](*args, **options)

    def noted(*args: Any, **options: Any) -> Any:
        done.append(after)
        return works[after](*args, **options)

    async with await Memories.open("libsql:///:memory:", worker=False) as memories:
        await memories.add(ADA, [f"Crate {number} of green tea came in." for number in range(500)])
        monkeypatch.setattr(retriever, step, held)
        monkeypatch.setattr(retriever, after, noted)
        task = asyncio.create_task(memories.recall(ADA, "green tea", limit=200))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        await asyncio.sleep(0.05)
    assert threading.get_ident() not in threads
    assert done == []
