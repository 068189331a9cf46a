"""`service.memories`: the verbs of `Memories`, callable from any event loop."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from ..memories import Memories
from .loop_thread import Home

P = ParamSpec("P")
Result = TypeVar("Result")
Verb = Callable[Concatenate[Memories, P], Coroutine[Any, Any, Result]]
Hopped = Callable[Concatenate["ThreadsafeMemories", P], Coroutine[Any, Any, Result]]


def _hop(verb: Verb[P, Result], *, finish: bool = False) -> Hopped[P, Result]:
    """The same verb behind the hop; `finish`: what was begun is not undone when the caller goes away."""
    name = verb.__name__

    @functools.wraps(verb)
    async def hopped(self: ThreadsafeMemories, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return await self.home.run(lambda memories: getattr(memories, name)(*args, **kwargs), finish=finish)

    return hopped


class ThreadsafeMemories:
    """Every verb of `Memories`, with the same arguments, answers and errors; they run on the service's home loop."""

    def __init__(self, home: Home[Memories]) -> None:
        self.home = home

    remember = _hop(Memories.remember, finish=True)
    end_session = _hop(Memories.end_session, finish=True)
    add = _hop(Memories.add, finish=True)
    edit = _hop(Memories.edit, finish=True)
    pin = _hop(Memories.pin, finish=True)
    forget = _hop(Memories.forget, finish=True)
    undo = _hop(Memories.undo, finish=True)
    feedback = _hop(Memories.feedback, finish=True)
    recall = _hop(Memories.recall)
    get = _hop(Memories.get)
    list = _hop(Memories.list)
    history = _hop(Memories.history)
    stats = _hop(Memories.stats)
    jobs = _hop(Memories.jobs)
    retry_job = _hop(Memories.retry_job, finish=True)
    drop_job = _hop(Memories.drop_job, finish=True)
    prune = _hop(Memories.prune, finish=True)
    consolidate = _hop(Memories.consolidate)
    scopes = _hop(Memories.scopes)
    check = _hop(Memories.check)
    drain = _hop(Memories.drain)
