"""The memories of one scope, or of several as if all lay in one, as a search reads them.

What a session keeps for itself is read as a scope beside its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import TypeVar

import numpy as np

from ..concurrency import run_in_thread
from ..records import Filter, LeftOut, Memory, Scope, Vector
from ..stores.base import RankFeatures, TermMatrix, TextMatches
from .exclusions import exclusions_of
from .past import Searchable

AT_ONCE = 4  # scopes that one search reads side by side
ROW_WEIGHT = 20  # of one match, against a character of what else is worked on in a thread

Answer = TypeVar("Answer")


class SearchedScopes:
    """What one search reads of its scopes, as of one moment.

    Memories go by keys here: by their ids in a single scope. Of several scopes the key says which one as well, since
    an id (and a session's) may be used in each of them.

    Args:
        store: where the scopes are read.
        scopes: each once.
        filter: which memories count.
        now: the moment.
        short_term: scope → the short-term memories of it that are searched as well.
        anew: the database is asked before anything is taken for what it holds.
    """

    def __init__(
        self,
        store: Searchable,
        scopes: Sequence[Scope],
        *,
        filter: Filter,
        now: datetime,
        short_term: Mapping[Scope, Searchable] = {},
        anew: bool = False,
    ) -> None:
        self._stores: Sequence[Searchable] = [*[store] * len(scopes), *short_term.values()]
        self._scopes: Sequence[Scope] = [*scopes, *short_term]
        self._whole, self._filter, self._now = len(scopes), filter, now
        self._single = len(self._scopes) == 1
        self._matches: Sequence[TextMatches] = ()
        self._may_trust = self._single and not anew
        self._trusted: int | None = None
        self._marks: dict[int, int] = {}

    @property
    def is_single(self) -> bool:
        """Whether all that is searched lies in one place, so that ids are keys."""
        return self._single

    @property
    def tenant(self) -> str:
        """Who asks: that of the first."""
        return self._scopes[0].tenant

    def scope_of(self, key: str) -> Scope:
        """Whose memory it is."""
        return self._scopes[self._number(key)]

    def id_of(self, key: str) -> str:
        """The memory's id."""
        return key if self._single else key.partition(":")[2]

    def told(self, left_out: Sequence[LeftOut]) -> tuple[LeftOut, ...]:
        """What was left out, by scope and id instead of by key."""
        return tuple(
            replace(out, memory_id=self.id_of(out.memory_id), scope=self.scope_of(out.memory_id)) for out in left_out
        )

    async def text(self, terms: Sequence[str], *, limit: int) -> TextMatches:
        """What the text search finds: counted over all scopes together, so that no word is rare for lying in a small
        scope, and the same text matches as well in each of them.
        """
        if self._single:
            [scope], [store], seen = self._scopes, self._stores, self._matches[0] if self._matches else None
            found = None
            if seen is not None or self._may_trust:
                found = await store.search_known(
                    scope, terms, limit=limit, filter=self._filter, seen=seen, now=self._now
                )
                if seen is None and found is not None:
                    self._trusted = found.version
            if found is None:
                [found] = await store.search_texts(scope, [terms], limit=limit, filter=self._filter, now=self._now)
            self._matches = [found]
            return found

        async def of(number: int) -> TextMatches:
            store, scope = self._stores[number], self._scopes[number]
            return await store.search_text(scope, terms, limit=limit, filter=self._filter, now=self._now)

        self._matches = await self._each(of)
        size = ROW_WEIGHT * sum(len(matches.matches) for matches in self._matches)
        return await run_in_thread(size, _pooled, self._matches, limit)

    async def nearest(self, space: int, vectors: Sequence[Vector], *, limit: int) -> list[list[tuple[str, float]]]:
        """For each vector the nearest memories of all scopes, each with its cosine; after `text`."""
        if self._trusted is not None:
            [scope], [store], version = self._scopes, self._stores, self._trusted
            known = await store.nearest_known(scope, space, vectors, limit=limit, version=version, now=self._now)
            if known is not None:
                near, self._marks[space] = known
                return near

        async def of(number: int) -> list[list[tuple[str, float]]]:
            return await self._stores[number].search_vector(
                self._scopes[number],
                space,
                vectors,
                limit=limit,
                filter=self._filter,
                version=self._matches[number].version,
                passing=self._matches[number].passing,
                now=self._now,
            )

        found = await self._each(of)
        if self._single:
            return found[0]
        size = ROW_WEIGHT * sum(len(near) for lists in found for near in lists)
        return await run_in_thread(size, _nearest_of_all, found, len(vectors), limit)

    async def places(self, keys: Sequence[str], *, reach: int) -> Sequence[RankFeatures]:
        """Where these memories stand in their sessions, and those beside them; after `text`."""
        if self._single:
            [scope], [store], version = self._scopes, self._stores, self._matches[0].version
            return await store.places(scope, keys, reach=reach, version=version, now=self._now)

        async def of(number: int, ids: Sequence[str]) -> Sequence[RankFeatures]:
            store, scope, version = self._stores[number], self._scopes[number], self._matches[number].version
            return await store.places(scope, ids, reach=reach, version=version, now=self._now)

        rows = [(one, number) for number, found in await self._each_named(keys, of) for one in found]
        rows.sort(key=lambda row: (row[0].id, row[1]))
        return [
            replace(one, id=_key(number, one.id), session_id=one.session_id and _key(number, one.session_id))
            for one, number in rows
        ]

    async def during(self, filter: Filter, *, limit: int) -> list[str]:
        """The newest memories that pass this filter."""

        async def of(number: int) -> tuple[Memory, ...]:
            store, scope = self._stores[number], self._scopes[number]
            return (await store.list(scope, filter=filter, limit=limit, now=self._now)).memories

        found = await self._each(of)
        if self._single:
            return [memory.id for memory in found[0]]
        rows = [(memory.created_at, memory.id, number) for number, some in enumerate(found) for memory in some]
        return [_key(number, id) for _, id, number in sorted(rows, reverse=True)[:limit]]

    async def get(self, keys: Sequence[str]) -> Mapping[str, Memory] | None:
        """The visible ones of these memories, by key; None when the text search answered from what was out of date."""
        if self._trusted is not None:
            [scope], [store], version, self._trusted = self._scopes, self._stores, self._trusted, None
            marks = {"marks": self._marks} if self._marks else {}  # a store that holds no vectors need not know them
            return await store.get_unchanged(scope, keys, version=version, now=self._now, **marks)
        if self._single:
            return await self._stores[0].get(self._scopes[0], keys, now=self._now)

        async def of(number: int, ids: Sequence[str]) -> Mapping[str, Memory]:
            return await self._stores[number].get(self._scopes[number], ids, now=self._now)

        found = await self._each_named(keys, of)
        return {_key(number, id): memory for number, some in found for id, memory in some.items()}

    async def exclusions(self, terms: Sequence[str]) -> tuple[LeftOut, ...]:
        """Which memories match and are kept from every reader, by key."""

        async def of(number: int) -> tuple[LeftOut, ...]:
            store, scope = self._stores[number], self._scopes[number]
            if number >= self._whole:  # all that is searched of short-term memories is found
                return ()
            out = await exclusions_of(store, scope, terms, self._filter, now=self._now)
            if scope not in (held := self._scopes[self._whole :]):
                return out
            own = self._stores[self._whole + held.index(scope)]
            searched = await own.get(scope, [one.memory_id for one in out], now=self._now)
            return tuple(one for one in out if one.memory_id not in searched)

        found = await self._each(of)
        if self._single:
            return found[0]
        return tuple(
            replace(out, memory_id=_key(number, out.memory_id)) for number, some in enumerate(found) for out in some
        )

    def _number(self, key: str) -> int:
        return 0 if self._single else int(key.partition(":")[0])

    async def _each(self, ask: Callable[[int], Awaitable[Answer]]) -> list[Answer]:
        if self._single:
            return [await ask(0)]
        return await _few_at_once([lambda number=number: ask(number) for number in range(len(self._scopes))])

    async def _each_named(
        self, keys: Sequence[str], ask: Callable[[int, Sequence[str]], Awaitable[Answer]]
    ) -> list[tuple[int, Answer]]:
        """What each scope that the keys name answers for its own of them."""
        grouped = groupby(sorted(keys, key=self._number), self._number)
        named = [(number, [self.id_of(key) for key in some]) for number, some in grouped]
        answers = await _few_at_once([lambda number=number, ids=ids: ask(number, ids) for number, ids in named])
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
