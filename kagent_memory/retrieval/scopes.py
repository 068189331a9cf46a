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
from ..stores.base import RankFeatures, TermMatrix, TextMatches
from ..stores.view import View
from .exclusions import exclusions_of

AT_ONCE = 4  # scopes that one search reads side by side
ROW_WEIGHT = 20  # of one match, against a character of what else is worked on in a thread

Answer = TypeVar("Answer")


class ManyViews:
    """What one search reads: its scopes, and the short-term memories of its session.

    Memories go by keys here: by their ids in a single view. Of several views the key says which one as well, since
    an id (and a session's) may be used in each of them.

    Args:
        views: of the scopes, each once.
        short_term: scope → a view of its short-term memories that are searched as well.
    """

    def __init__(self, views: Sequence[View], short_term: Mapping[Scope, View] = {}) -> None:
        self._views = [*views, *short_term.values()]
        self._scopes = [view.scope for view in self._views]
        self._whole, self._short_term = views, short_term
        self._single = len(self._views) == 1

    @property
    def is_single(self) -> bool:
        """Whether all that is searched lies in one place, so that ids are keys."""
        return self._single

    def scope_of(self, key: str) -> Scope:
        """Return the scope of a memory."""
        return self._scopes[self._number(key)]

    def id_of(self, key: str) -> str:
        """Return the id of a memory."""
        return key if self._single else key.partition(":")[2]

    def by_id(self, left_out: Sequence[LeftOut]) -> tuple[LeftOut, ...]:
        """Return what was left out by scope and id instead of by key."""
        return tuple(
            replace(out, memory_id=self.id_of(out.memory_id), scope=self.scope_of(out.memory_id)) for out in left_out
        )

    async def text(self, terms: Sequence[str], *, limit: int) -> TextMatches:
        """Return what the text search finds: counted over all scopes together, so that no word is rare for lying in a
        small scope, and the same text matches as well in each of them.
        """
        if self._single:
            return await self._views[0].text(terms, limit=limit)
        found = await self._each(lambda view: view.text(terms, limit=limit))
        size = ROW_WEIGHT * sum(len(matches.matches) for matches in found)
        return await run_in_thread(size, _pooled, found, limit)

    async def nearest(self, space: int, vectors: Sequence[Vector], *, limit: int) -> list[list[tuple[str, float]]]:
        """Return for each vector the nearest memories of all scopes, each with its cosine."""
        if self._single:
            return await self._views[0].nearest(space, vectors, limit=limit)
        found = await self._each(lambda view: view.nearest(space, vectors, limit=limit))
        size = ROW_WEIGHT * sum(len(near) for lists in found for near in lists)
        return await run_in_thread(size, _nearest_of_all, found, len(vectors), limit)

    async def features(self, keys: Sequence[str], *, reach: int) -> Sequence[RankFeatures]:
        """Return where these memories stand in their sessions, and those beside them."""
        if self._single:
            return await self._views[0].features(keys, reach=reach)
        found = await self._each_named(keys, lambda view, ids: view.features(ids, reach=reach))
        rows = [(one, number) for number, some in found for one in some]
        rows.sort(key=lambda row: (row[0].id, row[1]))
        return [
            replace(one, id=_key(number, one.id), session_id=one.session_id and _key(number, one.session_id))
            for one, number in rows
        ]

    async def memories(self, keys: Sequence[str]) -> Mapping[str, Memory]:
        """Return the visible ones of these memories, by key.

        Raises:
            Stale: the search went by what was out of date.
        """
        if self._single:
            return await self._views[0].memories(keys)
        found = await self._each_named(keys, lambda view, ids: view.memories(ids))
        return {_key(number, id): memory for number, some in found for id, memory in some.items()}

    async def newest(self, filter: Filter, now: datetime, *, limit: int) -> list[str]:
        """Return the newest memories that pass this filter."""
        if self._single:
            return [memory.id for memory in await self._views[0].newest(filter, now, limit=limit)]
        found = await self._each(lambda view: view.newest(filter, now, limit=limit))
        rows = [(memory.created_at, memory.id, number) for number, some in enumerate(found) for memory in some]
        return [_key(number, id) for _, id, number in sorted(rows, reverse=True)[:limit]]

    async def exclusions(self, terms: Sequence[str], filter: Filter, now: datetime) -> tuple[LeftOut, ...]:
        """Return the memories that match and are kept from every reader, by key."""
        found: list[LeftOut] = []
        for number, view in enumerate(self._whole):  # all that is searched of short-term memories is found
            out = await exclusions_of(view, terms, filter, now=now)
            if (own := self._short_term.get(view.scope)) is not None:
                searched = await own.memories([one.memory_id for one in out])
                out = tuple(one for one in out if one.memory_id not in searched)
            found += out if self._single else (replace(one, memory_id=_key(number, one.memory_id)) for one in out)
        return tuple(found)

    def _number(self, key: str) -> int:
        return 0 if self._single else int(key.partition(":")[0])

    async def _each(self, ask: Callable[[View], Awaitable[Answer]]) -> list[Answer]:
        return await _few_at_once([partial(ask, view) for view in self._views])

    async def _each_named(
        self, keys: Sequence[str], ask: Callable[[View, Sequence[str]], Awaitable[Answer]]
    ) -> list[tuple[int, Answer]]:
        """Return what each view that the keys name answers for its own of them."""
        grouped = groupby(sorted(keys, key=self._number), self._number)
        named = [(number, [self.id_of(key) for key in some]) for number, some in grouped]
        answers = await _few_at_once([partial(ask, self._views[number], ids) for number, ids in named])
        return [(number, answer) for (number, _), answer in zip(named, answers, strict=True)]


def _key(number: int, id: str) -> str:
    return f"{number}:{id}"


async def _few_at_once(asks: Sequence[Callable[[], Awaitable[Answer]]]) -> list[Answer]:
    """All answers in order; when one fails, the others end before its error is told."""
    room = asyncio.Semaphore(AT_ONCE)

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


def _pooled(parts: Sequence[TextMatches], limit: int) -> TextMatches:
    """The matches of several scopes as those of one that holds all their memories, cut at `limit` as a store cuts."""
    frequencies: Counter[str] = Counter()
    for part in parts:
        frequencies.update(part.frequencies)
    documents = sum(part.documents for part in parts)
    terms = list(frequencies)
    keys: list[str] = []
    lengths = [np.zeros(0, np.int64)]
    counts = [np.zeros((0, len(terms)), np.int64)]
    for number, part in enumerate(parts):
        held = part.matches
        keys += [_key(number, id) for id in held]
        if isinstance(held, TermMatrix):
            columns = {term: column for column, term in enumerate(held.terms)}
            packed = np.zeros((len(held), len(terms)), np.int64)
            known = [(column, columns[term]) for column, term in enumerate(terms) if term in columns]
            packed[:, [column for column, _ in known]] = held.counts[:, [theirs for _, theirs in known]]
            lengths.append(held.lengths)
            counts.append(packed)
        elif held:
            lengths.append(np.array([length for length, _ in held.values()], np.int64))
            counts.append(np.array([[of.get(term, 0) for term in terms] for _, of in held.values()], np.int64))
    length, count = np.concatenate(lengths), np.vstack(counts)
    rarity = np.array([1 / frequencies[term] for term in terms])
    worth = ((count > 0).astype(np.float64) @ rarity).round(12)
    ids = np.array([key.partition(":")[2] for key in keys], np.str_)
    best = np.lexsort((ids, worth))[::-1][:limit]
    whole = sum(part.documents * part.average_length for part in parts)
    rows: list[int] = best.tolist()
    return TextMatches(
        documents=documents,
        average_length=whole / documents if documents else 0.0,
        frequencies=frequencies,
        matches=TermMatrix([keys[row] for row in rows], terms, length[best], count[best]),
    )


def _nearest_of_all(
    found: Sequence[list[list[tuple[str, float]]]], count: int, limit: int
) -> list[list[tuple[str, float]]]:
    merged: list[list[tuple[str, float]]] = []
    for spot in range(count):
        rows = [(cosine, id, number) for number, lists in enumerate(found) for id, cosine in lists[spot]]
        rows.sort(reverse=True)
        merged.append([(_key(number, id), cosine) for cosine, id, number in rows[:limit]])
    return merged
