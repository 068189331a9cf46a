"""Views of several scopes as if all their memories lay in one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import TypeVar

import numpy as np

from ..concurrency import run_in_thread
from ..records import Filter, LeftOut, Memory, Scope, Vector
from ..stores.base import EARLIEST, TermMatrix, TextMatches
from ..stores.columns import Places
from ..stores.view import View
from .ranking import Nearest, term_matrix

SCOPES_AT_ONCE = 4
ROW_WEIGHT = 20  # of one match, against a character of what else is worked on in a thread
MAX_EXCLUSIONS = 50
ANY_STATE = Filter(superseded=True)

Answer = TypeVar("Answer")


class ManyViews:
    """Views that one search reads: its scopes, and the short-term memories of its session.

    Memories go by keys here: by their ids in a single view. Of several views the key says which one
    as well, since an id (and a session's) may be used in each of them.

    Args:
        views: of the scopes, each once.
        short_term: scope → a view of its short-term memories that are searched as well.
    """

    def __init__(self, views: Sequence[View], short_term: Mapping[Scope, View] = {}) -> None:
        self._views = [*views, *short_term.values()]
        self._whole, self._short_term = views, short_term
        self.is_single = len(self._views) == 1

    def scope_of(self, key: str) -> Scope:
        """Return the scope of a memory."""
        return self._views[self._number(key)].scope

    def id_of(self, key: str) -> str:
        """Return the id of a memory."""
        return key if self.is_single else key.partition(":")[2]

    def key_of(self, beside: str, id: str) -> str:
        """Return the key of an id in the scope of another memory's key."""
        return self._key(self._number(beside), id)

    def by_id(self, left_out: Sequence[LeftOut]) -> tuple[LeftOut, ...]:
        """Return what was left out by scope and id instead of by key."""
        return tuple(
            replace(out, memory_id=self.id_of(out.memory_id), scope=self.scope_of(out.memory_id))
            for out in left_out
        )

    async def text(self, terms: Sequence[str], *, limit: int) -> TextMatches:
        """Return what the text search finds, counted over all scopes together: no word is rare for
        lying in a small scope, and the same text matches as well in each of them.
        """
        if self.is_single:
            return await self._views[0].text(terms, limit=limit)
        found = await self._each(lambda view: view.text(terms, limit=limit))
        return await run_in_thread(
            ROW_WEIGHT * sum(len(part.matches) for part in found), self._pooled, found, limit
        )

    async def nearest(
        self, space: int, vectors: Sequence[Vector], *, limit: int
    ) -> Sequence[Nearest]:
        """Return for each vector the nearest memories of all scopes, each with its cosine."""
        if self.is_single:
            return await self._views[0].nearest(space, vectors, limit=limit)
        found = await self._each(lambda view: view.nearest(space, vectors, limit=limit))
        size = ROW_WEIGHT * sum(len(near) for lists in found for near in lists)
        return await run_in_thread(size, self._nearest_of_all, found, limit)

    async def features(self, keys: Sequence[str], *, reach: int) -> Places:
        """Return where these memories stand in their sessions, and those beside them."""
        if self.is_single:
            return await self._views[0].features(keys, reach=reach)
        found = await self._each_named(keys, lambda view, ids: view.features(ids, reach=reach))
        return Places.joined(
            [part for _, part in found],
            [[self._key(number, id) for id in part.ids] for number, part in found],
        )

    async def memories(self, keys: Sequence[str]) -> Mapping[str, Memory]:
        """Return the visible ones of these memories, by key.

        Raises:
            Stale: the search went by what was out of date.
        """
        if self.is_single:  # also without any: nothing found is true only of a scope as it is now
            return await self._views[0].memories(keys)
        return self._by_key(await self._each_named(keys, lambda view, ids: view.memories(ids)))

    async def former(self, keys: Sequence[str], now: datetime) -> Mapping[str, Memory]:
        """Return these memories though they are history, by key."""
        return self._by_key(
            await self._each_named(keys, lambda view, ids: view.under(ANY_STATE, now).memories(ids))
        )

    async def newest(self, filter: Filter, now: datetime, *, limit: int) -> list[str]:
        """Return the keys of the newest memories that pass this filter."""
        found = await self._each(lambda view: view.newest(filter, now, limit=limit))
        rows = [
            (memory.created_at, memory.id, number)
            for number, some in enumerate(found)
            for memory in some
        ]
        return [self._key(number, id) for _, id, number in sorted(rows, reverse=True)[:limit]]

    async def exclusions(
        self, terms: Sequence[str], filter: Filter, now: datetime
    ) -> tuple[LeftOut, ...]:
        """Return those of the memories with the rarest terms that have expired, were superseded or
        are quarantined, by key. Searched by words only, as of a time before any expired.
        """
        found: list[LeftOut] = []
        for number, view in enumerate(self._whole):
            ever = view.under(replace(filter, superseded=True), EARLIEST)
            matches = (await ever.text(terms, limit=MAX_EXCLUSIONS)).matches
            memories = await ever.memories(list(matches))
            if (own := self._short_term.get(view.scope)) is not None:
                searched = await own.memories(list(matches))
                memories = {id: memory for id, memory in memories.items() if id not in searched}
            for id, memory in memories.items():
                if memory.state not in ("active", "source") and not filter.superseded:
                    found.append(LeftOut(memory_id=self._key(number, id), reason=memory.state))
                elif (
                    memory.expires_at is not None and memory.expires_at <= now and not memory.pinned
                ):
                    found.append(LeftOut(memory_id=self._key(number, id), reason="expired"))
        return tuple(found)

    def _key(self, number: int, id: str) -> str:
        return id if self.is_single else f"{number}:{id}"

    def _number(self, key: str) -> int:
        return 0 if self.is_single else int(key.partition(":")[0])

    async def _each(self, ask: Callable[[View], Awaitable[Answer]]) -> list[Answer]:
        return await _few_at_once([partial(ask, view) for view in self._views])

    async def _each_named(
        self, keys: Sequence[str], ask: Callable[[View, Sequence[str]], Awaitable[Answer]]
    ) -> list[tuple[int, Answer]]:
        """Return what each view that the keys name answers for its own of them."""
        grouped = groupby(sorted(keys, key=self._number), self._number)
        named = {number: [self.id_of(key) for key in some] for number, some in grouped}
        answers = await _few_at_once(
            [partial(ask, self._views[number], ids) for number, ids in named.items()]
        )
        return list(zip(named, answers, strict=True))

    def _by_key(self, found: Sequence[tuple[int, Mapping[str, Memory]]]) -> Mapping[str, Memory]:
        return {
            self._key(number, id): memory for number, some in found for id, memory in some.items()
        }

    def _pooled(self, parts: Sequence[TextMatches], limit: int) -> TextMatches:
        """Return the matches as those of one scope that holds all memories, cut at `limit` as a
        store cuts.
        """
        frequencies: Counter[str] = Counter()
        for part in parts:
            frequencies.update(part.frequencies)
        documents = sum(part.documents for part in parts)
        terms = list(frequencies)
        matrices = [term_matrix(part.matches, terms) for part in parts]
        keys = [
            self._key(number, id) for number, matrix in enumerate(matrices) for id in matrix.ids
        ]
        ids = np.array([id for matrix in matrices for id in matrix.ids], np.str_)
        counts = np.concatenate([matrix.counts for matrix in matrices])
        lengths = np.concatenate([matrix.lengths for matrix in matrices])
        worth = ((counts > 0) @ np.array([1 / frequencies[term] for term in terms])).round(12)
        best = np.lexsort((ids, worth))[::-1][:limit]
        rows: list[int] = best.tolist()
        whole = sum(part.documents * part.average_length for part in parts)
        return TextMatches(
            documents=documents,
            average_length=whole / documents if documents else 0.0,
            frequencies=frequencies,
            matches=TermMatrix([keys[row] for row in rows], terms, lengths[best], counts[best]),
        )

    def _nearest_of_all(self, found: Sequence[Sequence[Nearest]], limit: int) -> list[Nearest]:
        def best(lists: Sequence[Nearest]) -> Nearest:
            rows = sorted(
                ((cosine, id, number) for number, near in enumerate(lists) for id, cosine in near),
                reverse=True,
            )
            return [(self._key(number, id), cosine) for cosine, id, number in rows[:limit]]

        return [best(lists) for lists in zip(*found, strict=True)]


async def _few_at_once(asks: Sequence[Callable[[], Awaitable[Answer]]]) -> list[Answer]:
    """Return all answers in order; when one fails, the others end before its error is told."""
    if len(asks) == 1:
        return [await asks[0]()]
    room = asyncio.Semaphore(SCOPES_AT_ONCE)

    async def answer(ask: Callable[[], Awaitable[Answer]]) -> Answer:
        async with room:
            return await ask()

    tasks: list[asyncio.Task[Answer]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks += [group.create_task(answer(ask)) for ask in asks]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
