"""The loop thread: one thread, many callers, and an orderly end."""

from __future__ import annotations

import asyncio
import gc
import os
import threading

import pytest

from kagent_memory.adk.loop_thread import LoopThread

THREAD = "kagent-memory-loop"


class Resource:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed = False

    async def close(self) -> None:
        self.closed = True


class Noting(LoopThread[Resource]):
    """Keeps what it opened."""

    def __init__(self) -> None:
        async def opener() -> Resource:
            await asyncio.sleep(0.01)
            opened.append(Resource())
            return opened[-1]

        self.opened = opened = list[Resource]()  # the opener must not hold the thread itself
        super().__init__(opener, Resource.close)


async def loop_of(resource: Resource) -> asyncio.AbstractEventLoop:
    assert asyncio.get_running_loop() is resource.loop
    return resource.loop


def threads(before: set[threading.Thread]) -> list[threading.Thread]:
    """Return the loop threads that run now and did not before."""
    return [thread for thread in set(threading.enumerate()) - before if thread.name == THREAD]


async def test_calls_and_closes_may_overlap():
    """Callers that come together share one opening; each close ends what was opened."""
    mine = Noting()
    loops = await asyncio.gather(*(mine.run(loop_of) for _ in range(50)))
    assert len({*loops, asyncio.get_running_loop()}) == 2
    assert len(mine.opened) == 1

    async def use() -> None:
        for _ in range(20):
            await mine.run(loop_of)

    async def close() -> None:
        for _ in range(5):
            await asyncio.sleep(0.02)
            await mine.close()

    await asyncio.wait_for(asyncio.gather(*(use() for _ in range(8)), close()), 120)
    await mine.close()
    assert all(resource.closed for resource in mine.opened)


@pytest.mark.parametrize("finish", [True, False])
async def test_a_cancelled_callers_work_ends_or_goes_on_as_asked(
    finish: bool, caplog: pytest.LogCaptureFixture
):
    """When a caller is cancelled its work is cancelled too, unless it was to be finished; what
    fails then is logged by its kind, and never in its words.
    """
    mine = Noting()
    began, go_on, over, ended = threading.Event(), threading.Event(), threading.Event(), list[str]()

    async def work(_: Resource) -> None:
        began.set()
        try:
            assert await asyncio.to_thread(go_on.wait, 60)
            ended.append("finished")
            raise OSError("hunter2")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        finally:
            over.set()

    running = asyncio.ensure_future(mine.run(work, finish=finish))
    assert await asyncio.to_thread(began.wait, 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    if finish:
        assert ended == []
        go_on.set()
    assert await asyncio.to_thread(over.wait, 60)
    go_on.set()
    assert ended == ["finished" if finish else "cancelled"]
    await mine.close()
    reason = "work whose caller was gone: memory unavailable (OSError at "
    assert [message.startswith(reason) for message in caplog.messages] == [True] * finish
    assert "hunter2" not in caplog.text


async def test_a_loop_thread_that_nobody_holds_ends_its_thread():
    """A loop thread that is collected ends its thread."""
    before, mine = set(threading.enumerate()), Noting()
    await mine.run(loop_of)
    (thread,) = threads(before)
    del mine
    gc.collect()
    await asyncio.to_thread(thread.join, 60)
    assert threads(before) == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_a_thread_of_its_own():
    """A forked child opens the resource anew on a thread of its own, and hangs on none."""
    mine = Noting()
    asyncio.run(mine.run(loop_of))
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(asyncio.wait_for(mine.run(loop_of), 60))
            os._exit(0 if len(mine.opened) == 2 else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    asyncio.run(mine.close())
