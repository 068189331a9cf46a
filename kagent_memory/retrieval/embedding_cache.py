"""Vectors asked of an embedder once: kept for a while by the hashes of their texts, shared by those who ask for the
same meanwhile, and asked for in batches that callers fill together.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from cachetools import TTLCache

from .. import telemetry
from ..errors import ModelUnavailable
from ..records import Vector

FILLING_SECONDS = 0.005  # that a batch waits for more callers, while another is under way
ENTRY_BYTES = 470
KEPT_SECONDS = 600.0

Kind: TypeAlias = Literal["document", "query"]
Ask: TypeAlias = Callable[[Sequence[str], Kind], Coroutine[Any, Any, Sequence[Vector]]]
_Key: TypeAlias = tuple[str, bytes]  # a tenant, and a text's keyed hash
_LOOKS: Mapping[Kind, Literal["documents", "queries"]] = {"document": "documents", "query": "queries"}


@dataclass(eq=False, slots=True)
class _Wanted:
    """A text whose vector is under way.

    Attributes:
        request: which call asked for it first.
        waiting: of the calls that wait for it, each one's own, so that who is cancelled takes no answer from others.
        batch: what it is asked for with; None: its batch is still being filled.
    """

    key: _Key
    text: str
    request: int
    waiting: set[asyncio.Future[Vector]] = field(default_factory=set[asyncio.Future[Vector]])
    batch: _Batch | None = None


class _Batch:
    def __init__(self, wanted: Sequence[_Wanted], task: asyncio.Task[None]) -> None:
        self.wanted = wanted
        self.task = task


class EmbeddingCache:
    """The vectors of one embedding space. It belongs to one event loop.

    What one tenant asked for is never told to another, not even by how fast the answer comes. Errors are not kept, and
    a batch that was refused is asked for again call by call, so that nobody pays for another's text.

    Args:
        ask: gives one vector for each text.
        batch_size: texts that fill a batch; a call with as many goes by itself.
        max_bytes: of the vectors kept, half for documents and half for queries; 0: none.
        seconds: that a vector is kept.
    """

    def __init__(self, ask: Ask, *, batch_size: int, max_bytes: int, seconds: float = KEPT_SECONDS) -> None:
        self._ask = ask
        self._batch_size = batch_size
        self._seconds = seconds if max_bytes else 0.0
        self._salt = os.urandom(16)
        self._by_kind: dict[Kind, _OfKind] = {
            "document": _OfKind(max_bytes // 2, seconds),
            "query": _OfKind(max_bytes // 2, seconds),
        }
        self._requests = itertools.count()
        self._purge: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(len(of_kind.kept) for of_kind in self._by_kind.values())

    def clear(self) -> None:
        """Forgets all vectors, also those under way once they have come."""
        for of_kind in self._by_kind.values():
            of_kind.kept.clear()
            of_kind.cleared += 1
        if self._purge is not None:
            self._purge.cancel()
            self._purge = None

    async def vectors(self, texts: Sequence[str], kind: Kind, *, tenant: str) -> list[Vector]:
        """One vector for each text; they are shared, so nobody may write to them.

        Raises:
            ModelError: as `ask`.
        """
        of_kind = self._by_kind[kind]
        raws = (text.encode("utf-8", "surrogatepass") for text in texts)
        keys = [(tenant, hashlib.blake2b(raw, key=self._salt, digest_size=16).digest()) for raw in raws]
        found, wanted = self._looked_up(kind, of_kind, dict(zip(keys, texts, strict=True)))
        if wanted:
            loop = asyncio.get_running_loop()
            answers = {one.key: loop.create_future() for one in wanted}
            for one in wanted:
                one.waiting.add(answers[one.key])
            try:
                if len(answers) == 1:
                    [(key, answer)] = answers.items()
                    found[key] = await answer
                else:
                    found |= await _all_of(wanted, answers)
            finally:
                for one in wanted:
                    of_kind.leave(one, answers[one.key])
        return [found[key] for key in keys]

    def _looked_up(
        self, kind: Kind, of_kind: _OfKind, texts: Mapping[_Key, str]
    ) -> tuple[dict[_Key, Vector], list[_Wanted]]:
        """The vectors that are kept, and the others, which are under way from now on if they were not."""
        request = next(self._requests)
        found: dict[_Key, Vector] = {}
        wanted: list[_Wanted] = []
        fresh: list[_Wanted] = []
        for key, text in texts.items():
            if (kept := of_kind.kept.get(key)) is not None:
                found[key] = kept
                continue
            one = of_kind.under_way.get(key)
            if one is None:
                one = of_kind.under_way[key] = _Wanted(key, text, request)
                fresh.append(one)
            wanted.append(one)
        telemetry.cache_looked_up(_LOOKS[kind], hit=False, count=len(fresh))
        telemetry.cache_looked_up(_LOOKS[kind], hit=True, count=len(texts) - len(fresh))
        if fresh:
            self._enqueue(kind, of_kind, fresh)
        return found, wanted

    def _enqueue(self, kind: Kind, of_kind: _OfKind, fresh: list[_Wanted]) -> None:
        if len(of_kind.filling) + len(fresh) > self._batch_size:
            self._send(kind, of_kind)
        of_kind.filling += fresh
        if len(of_kind.filling) >= self._batch_size:
            self._send(kind, of_kind)
        elif of_kind.timer is None:
            loop = asyncio.get_running_loop()
            later = partial(loop.call_later, FILLING_SECONDS) if of_kind.batches else loop.call_soon
            of_kind.timer = later(self._send, kind, of_kind)

    def _send(self, kind: Kind, of_kind: _OfKind) -> None:
        if of_kind.timer is not None:
            of_kind.timer.cancel()
            of_kind.timer = None
        if not of_kind.filling:
            return
        wanted, of_kind.filling = of_kind.filling, []
        batch = _Batch(wanted, asyncio.create_task(self._fetch(kind, of_kind, wanted), name="kagent-memory-embed"))
        for one in wanted:
            one.batch = batch
        of_kind.batches.add(batch)
        batch.task.add_done_callback(lambda _: of_kind.end(batch))

    async def _fetch(self, kind: Kind, of_kind: _OfKind, wanted: Sequence[_Wanted]) -> None:
        cleared = of_kind.cleared
        try:
            rows = await self._ask([one.text for one in wanted], kind)
        except Exception as error:
            requests: dict[int, list[_Wanted]] = {}
            for one in wanted:
                requests.setdefault(one.request, []).append(one)
            if len(requests) > 1 and not isinstance(error, ModelUnavailable):
                await asyncio.gather(*(self._fetch(kind, of_kind, some) for some in requests.values()))
                return
            for one in wanted:
                of_kind.failed(one, error)
            return
        for one, of_all in zip(wanted, rows, strict=True):
            row = of_all.copy()  # a row by itself: to keep one of a batch keeps no other
            row.flags.writeable = False
            if self._seconds and cleared == of_kind.cleared:
                of_kind.kept[one.key] = row
            of_kind.came(one, row)
        if self._seconds and self._purge is None:
            self._purge = asyncio.get_running_loop().call_later(self._seconds, self._purge_old)

    def _purge_old(self) -> None:
        """Lets go of what is too old, so that nothing stays longer because nobody asks."""
        self._purge = None
        for of_kind in self._by_kind.values():
            of_kind.kept.expire()
        if len(self):
            self._purge = asyncio.get_running_loop().call_later(self._seconds / 4, self._purge_old)


class _OfKind:
    """What is kept and under way of one kind.

    Attributes:
        filling: the batch that callers still add to.
        batches: those under way.
        cleared: how often everything was forgotten.
    """

    def __init__(self, max_bytes: int, seconds: float) -> None:
        def size(vector: Vector) -> int:
            return min(vector.nbytes + ENTRY_BYTES, max_bytes)  # the one that came last stays, however large

        self.kept = TTLCache[_Key, Vector](max_bytes, seconds, getsizeof=size)
        self.under_way: dict[_Key, _Wanted] = {}
        self.filling: list[_Wanted] = []
        self.batches: set[_Batch] = set()
        self.timer: asyncio.Handle | None = None
        self.cleared = 0

    def came(self, one: _Wanted, row: Vector) -> None:
        """The vector is there for all who wait for it."""
        self._end(one)
        for answer in one.waiting:
            if not answer.done():
                answer.set_result(row)

    def failed(self, one: _Wanted, error: Exception) -> None:
        """All who wait for the vector are told why it does not come."""
        self._end(one)
        for answer in one.waiting:
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # seen, also by who waits for several and was told of another

    def leave(self, one: _Wanted, answer: asyncio.Future[Vector]) -> None:
        """One call does not wait for it any more; a batch that nobody waits for is given up."""
        one.waiting.remove(answer)
        if one.waiting or self.under_way.get(one.key) is not one:
            return
        if one.batch is None:
            self._end(one)
            self.filling.remove(one)
        elif not any(other.waiting for other in one.batch.wanted):
            for other in one.batch.wanted:
                self._end(other)
            one.batch.task.cancel()

    def end(self, batch: _Batch) -> None:
        """A batch has come to its end, which for what has no answer by now was a cancellation."""
        self.batches.discard(batch)
        for one in batch.wanted:
            self._end(one)
            for answer in one.waiting:
                answer.cancel()

    def _end(self, one: _Wanted) -> None:
        if self.under_way.get(one.key) is one:
            del self.under_way[one.key]


async def _all_of(wanted: Sequence[_Wanted], answers: Mapping[_Key, asyncio.Future[Vector]]) -> dict[_Key, Vector]:
    while left := [one for one in wanted if not answers[one.key].done()]:
        first = {one.batch: answers[one.key] for one in reversed(left)}  # those of a batch mostly come together
        ended, _ = await asyncio.wait(first.values(), return_when=asyncio.FIRST_EXCEPTION)
        if any(answer.cancelled() or answer.exception() for answer in ended):
            break
    return {key: answer.result() for key, answer in answers.items() if answer.done()}  # or raises what went wrong
