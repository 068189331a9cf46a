"""Views of several scopes as if all their memories lay in one."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from heapq import nlargest
from typing import TypeVar

import numpy as np

from ..concurrency import cancel_and_wait, run_in_thread
from ..records import Filter, LeftOut, Memory, Scope, Vector
from ..stores.base import EARLIEST, TermMatrix, TextMatches
from ..stores.columns import Places
from ..stores.vectors import Nearest
from ..stores.view import View

SCOPES_AT_ONCE = 4
ROW_WEIGHT = 20  # of one match, against a character of what else is worked on in a thread
MAX_EXCLUSIONS = 50

Answer = TypeVar("Answer")


class ManyViews:
    """Views that one search reads: its scopes, and the short-term memories of its session.

    Memories go by keys here: by their ids in a single scope. Of several scopes the key says which
    one as well, since an id (and a session's) may be used in each of them.

    Args:
        views: of the scopes, each once.
        short_term: views of the short-term memories that are searched as well.
    """

    def __init__(self, views: Sequence[View], short_term: Sequence[View] = ()) -> None:
        self._whole = views
        numbers = {view.scope: number for number, view in enumerate(views)}
        self._views = [*views, *short_term]
        self._numbers = [numbers[view.scope] for view in self._views]

    def scope_of(self, key: str) -> Scope:
        """Return the scope of a memory."""
        return self._whole[self._parts(key)[0]].scope

    def key_of(self, beside: str, id: str) -> str:
        """Return the key of an id in the scope of another memory's key."""
        return self._key(self._parts(beside)[0], id)

    def by_id(self, left_out: Sequence[LeftOut]) -> tuple[LeftOut, ...]:
        """Return what was left out by scope and id instead of by key."""
        return tuple(
            replace(out, memory_id=self._parts(key)[1], scope=self.scope_of(key))
            for out in left_out
            for key in (out.memory_id,)
        )

    async def text(self, terms: Sequence[str], *, limit: int) -> TextMatches:
        """Return what the text search finds, counted over all scopes together: no word is rare for
        lying in a small scope, and the same text matches as well in each of them.
        """
        found = await self._each(lambda view: view.text(terms, limit=limit))
        if len(found) == 1:
            return found[0]
        size = ROW_WEIGHT * sum(len(part.matches) for part in found)
        return await run_in_thread(size, self._pooled, terms, found, limit)

    async def nearest(
        self, space: int, vectors: Sequence[Vector], *, limit: int
    ) -> Sequence[Nearest]:
        """Return for each vector the nearest memories of all scopes, each with its cosine."""
        found = await self._each(lambda view: view.nearest(space, vectors, limit=limit))
        if len(found) == 1:
            return found[0]

        def best(lists: Sequence[Nearest]) -> Nearest:
            rows = [
                (cosine, id, number)
                for number, near in zip(self._numbers, lists, strict=True)
                for id, cosine in near
            ]
            return [(self._key(number, id), cosine) for cosine, id, number in nlargest(limit, rows)]

        size = ROW_WEIGHT * sum(len(near) for lists in found for near in lists)
        return await run_in_thread(size, lambda: [*map(best, zip(*found, strict=True))])

    async def features(self, keys: Sequence[str], *, reach: int) -> Places:
        """Return where these memories stand in their sessions, and those beside them."""
        found = await self._each_named(keys, lambda view, ids: view.features(ids, reach=reach))
        if len(self._views) == 1:
            return found[0][1]
        return Places.joined(
            [part for _, part in found],
            [[self._key(number, id) for id in part.ids] for number, part in found],
        )

    async def memories(self, keys: Sequence[str]) -> Mapping[str, Memory]:
        """Return the visible ones of these memories, by key.

        Raises:
            Stale: the search went by what was out of date.
        """
        found = await self._each_named(keys, lambda view, ids: view.memories(ids))
        return {self._key(number, id): one for number, some in found for id, one in some.items()}

    async def newest(self, filter: Filter, now: datetime, *, limit: int) -> list[str]:
        """Return the keys of the newest memories that pass this filter."""
        found = await self._each(lambda view: view.newest(filter, now, limit=limit))
        rows = [
            (memory.created_at, memory.id, number)
            for number, some in zip(self._numbers, found, strict=True)
            for memory in some
        ]
        return [self._key(number, id) for _, id, number in nlargest(limit, rows)]

    def under(self, filter: Filter, now: datetime) -> ManyViews:
        """Return the same scopes with another filter and time, without short-term memories."""
        return ManyViews([view.under(filter, now) for view in self._whole])

    async def exclusions(self, terms: Sequence[str], filter: Filter) -> Sequence[LeftOut]:
        """Return those of the memories with the rarest terms that have expired, were superseded or
        are quarantined, by key. Searched by words only, as of a time before any expired.
        """
        ever = self.under(replace(filter, superseded=True), EARLIEST)
        found = await ever.memories([*(await ever.text(terms, limit=MAX_EXCLUSIONS)).matches])
        visible = await self.memories([*found])
        return [
            LeftOut(
                memory_id=key,
                reason=one.state if one.state not in ("active", "source") else "expired",
            )
            for key, one in found.items()
            if key not in visible
        ]

    def _key(self, number: int, id: str) -> str:
        return id if len(self._whole) == 1 else f"{number}:{id}"

    def _parts(self, key: str) -> tuple[int, str]:
        """Return the number of a key's scope, and the id."""
        if len(self._whole) == 1:
            return 0, key
        number, _, id = key.partition(":")
        return int(number), id

    async def _each(self, ask: Callable[[View], Awaitable[Answer]]) -> list[Answer]:
        return await _few_at_once([partial(ask, view) for view in self._views])

    async def _each_named(
        self, keys: Sequence[str], ask: Callable[[View, Sequence[str]], Awaitable[Answer]]
    ) -> list[tuple[int, Answer]]:
        """Return what each view answers for those of the keys that lie in its scope.

        A single scope is asked without any, too: nothing found is true only of it as it is now.
        """
        ids: dict[int, list[str]] = defaultdict(list)
        for number, id in map(self._parts, keys):
            ids[number].append(id)
        asked = [
            (number, partial(ask, view, ids[number]))
            for number, view in zip(self._numbers, self._views, strict=True)
            if number in ids or len(self._whole) == 1
        ]
        answers = await _few_at_once([call for _, call in asked])
        return [(number, answer) for (number, _), answer in zip(asked, answers, strict=True)]

    def _pooled(
        self, terms: Sequence[str], parts: Sequence[TextMatches], limit: int
    ) -> TextMatches:
        """Return the matches as those of one scope that holds all memories, cut at `limit` as a
        store cuts.
        """
        frequencies: Counter[str] = Counter()
        for part in parts:
            frequencies.update(part.frequencies)
        known = [term for term in dict.fromkeys(terms) if term in frequencies]
        counts, lengths = [np.zeros((0, len(known)), np.int64)], [np.zeros(0, np.int64)]
        ids = list[tuple[str, str]]()
        for number, part in zip(self._numbers, parts, strict=True):
            matches = part.matches
            aligned = np.zeros((len(matches), len(known)), np.int64)
            aligned[:, [known.index(term) for term in matches.terms]] = matches.counts
            counts.append(aligned)
            lengths.append(matches.lengths)
            ids += ((id, self._key(number, id)) for id in matches.ids)
        held = np.concatenate(counts)
        worth = ((held > 0) @ np.array([1 / frequencies[term] for term in known])).round(12)
        best = np.lexsort((np.array([id for id, _ in ids], np.str_), worth))[::-1][:limit]
        documents = sum(part.documents for part in parts)
        length = sum(part.documents * part.average_length for part in parts)
        return TextMatches(
            documents=documents,
            average_length=length / documents if documents else 0.0,
            frequencies=frequencies,
            matches=TermMatrix(
                [ids[int(row)][1] for row in best],
                known,
                np.concatenate(lengths)[best],
                held[best],
            ),
        )


async def _few_at_once(asks: Sequence[Callable[[], Awaitable[Answer]]]) -> list[Answer]:
    """Return all answers in order; when one fails, the others end before its error is told."""
    if len(asks) == 1:
        return [await asks[0]()]
    answers: list[Answer] = []
    for start in range(0, len(asks), SCOPES_AT_ONCE):
        some = [asyncio.ensure_future(ask()) for ask in asks[start : start + SCOPES_AT_ONCE]]
        try:
            answers += await asyncio.gather(*some)
        finally:
            await cancel_and_wait(*some)
    return answers
