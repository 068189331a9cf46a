"""Open the views of a search and read them as one: its scopes, now or at a past time, and the
short-term memories of its session.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from itertools import accumulate
from typing import TypeVar

import numpy as np

from ..concurrency import batched, cancel_and_wait, run_in_thread, turn
from ..errors import InvalidInput
from ..records import Exclusion, Filter, LeftOut, Memory, Scope, Vector
from ..stores.base import MemoryStore
from ..stores.columns import Mask, Rows
from ..stores.decisions import matches_filter
from ..stores.index import JoinedIndex, ScopeIndex
from ..stores.planning import valid_since
from ..stores.values import WITH_SHORT_TERM, MemoryQuery, TextMatches, Whole, every_state
from ..stores.vectors import Nearest
from ..stores.view import MemoriesView, View
from .search import Search

SCOPES_AT_ONCE = 4
MAX_EXCLUSIONS = 50
MAX_PAST = 50_000  # changed memories of a scope that a search of the past reads
READ_AT_ONCE = 100
MAX_SHORT_TERM = 50  # of one session, its newest
VIEW_WEIGHT = 50  # what each view adds to the cost of a search, in units of `run_in_thread`

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class ManyViews:
    """Views that one search reads as one: its scopes, and the short-term memories of its session.

    A row numbers a memory through all views, one view after the other. Terms are counted over all
    views together, so that a word is not rare just because its scope is small, and the same text
    scores the same in each scope.

    Args:
        views: one of each scope, then those of short-term memories; of a past scope two.
        past: returns a memory as these views of the past show it; None: they show the present.
    """

    def __init__(
        self, views: Sequence[View], past: Callable[[Whole], Memory | None] | None = None
    ) -> None:
        self._views, self._past = views, past
        self._starts = [0, *accumulate(len(view.index.ids) for view in views[:-1])]
        self._of_scope: dict[Scope, list[tuple[int, View]]] = {}
        for start, view in zip(self._starts, views, strict=True):
            self._of_scope.setdefault(view.scope, []).append((start, view))

    # computed on first use, in the thread of the search

    @cached_property
    def index(self) -> ScopeIndex:
        """The index of all memories."""
        # sessions go through both views of a past scope
        return JoinedIndex.of([view.index for view in self._views], 2 if self._past else 1)

    @cached_property
    def visible(self) -> Mask:
        """The mask of the rows to search."""
        return np.concatenate([view.visible for view in self._views])

    @cached_property
    def current(self) -> Mask:
        """The mask of the rows that are active and have not expired, whether or not they pass the
        filter.
        """
        return np.concatenate([view.current for view in self._views])

    def _view_of(self, row: int) -> tuple[int, View]:
        """Return the view that holds a row, after the number of its first row."""
        number = bisect_right(self._starts, row) - 1
        return self._starts[number], self._views[number]

    def scope_of(self, row: int) -> Scope:
        """Return the scope of a memory."""
        return self._view_of(row)[1].scope

    def rows_of(self, linking: int, ids: Iterable[str]) -> list[int]:
        """Return the rows of the memories that another one refers to; missing ones are left out.

        Args:
            linking: the row of the other memory, in whose scope the ids are looked up.
            ids: the ids.
        """
        rows: list[int] = []
        for id in ids:
            # the view of the scope hides short-term memories
            for start, view in reversed(self._of_scope[self.scope_of(linking)]):
                if (row := view.index.row_of(id)) >= 0:
                    rows.append(start + row)
                    break
        return rows

    def records_of(self, left_out: Mapping[int, Exclusion]) -> tuple[LeftOut, ...]:
        """Convert exclusions by row to records with scope and id."""
        ids = self.index.ids
        return tuple(
            LeftOut(memory_id=ids[row], reason=reason, scope=self.scope_of(row))
            for row, reason in left_out.items()
        )

    @property
    def size(self) -> int:
        """Return the cost of a search in units of `run_in_thread`."""
        return sum(view.size + VIEW_WEIGHT for view in self._views)

    def text(self, terms: Sequence[str], *, limit: int) -> TextMatches:
        """Search all views by words; see `View.text`."""
        return self.index.text(terms, limit, self.visible)

    def newest(
        self, limit: int, after: datetime | None = None, before: datetime | None = None
    ) -> Rows:
        """Return the newest memories of all scopes; see `ScopeIndex.newest`."""
        return self.index.newest(limit, self.visible, after, before)

    async def nearest(
        self, space: int, vectors: Sequence[Vector], *, limit: int
    ) -> Sequence[Nearest]:
        """Return the nearest memories of all scopes to each vector."""
        answers = await few_at_once(
            lambda view: view.nearest_rows(space, vectors, limit=limit), self._views
        )
        if len(answers) == 1:
            return answers[0]

        def joined() -> list[Nearest]:
            return [
                Nearest.best(
                    np.concatenate(
                        [near.rows + start for near, start in zip(lists, self._starts, strict=True)]
                    ),
                    np.concatenate([near.cosines for near in lists]),
                    limit,
                )
                for lists in zip(*answers, strict=True)
            ]

        return await run_in_thread(sum(len(lists) for lists in answers) * limit, joined)

    async def memories(self, rows: Collection[int], *, hidden: bool = False) -> dict[int, Memory]:
        """Return the visible ones of these memories, by row; with `hidden` also those that have
        expired or are no longer active.

        A single view is read even without rows, since that read finds out if it is stale.

        Raises:
            Stale: the view that was searched is out of date.
        """
        rows_by_view: dict[View, dict[str, int]] = {}
        if len(self._views) == 1:
            rows_by_view[self._views[0]] = {}
        for row in rows:
            start, view = self._view_of(row)
            rows_by_view.setdefault(view, {})[view.index.ids[row - start]] = row

        async def read(view: View) -> Mapping[str, Memory]:
            ids = [*rows_by_view[view]]
            if self._past is None:
                return await view.memories(ids, hidden=hidden)
            # with their history, for they may have changed since the view was taken
            wholes = await view.source.whole(view.scope, ids)
            states = {whole.memory.id: self._past(whole) for whole in wholes}
            return {id: memory for id, memory in states.items() if memory}

        answers = await few_at_once(read, [*rows_by_view])
        return {
            ids[id]: memory
            for ids, memories in zip(rows_by_view.values(), answers, strict=True)
            for id, memory in memories.items()
        }

    async def exclusions(self, terms: Sequence[str], filter: Filter) -> Mapping[int, Exclusion]:
        """Return why hidden memories with these terms were not found, by row: they have expired,
        were superseded or are quarantined.

        Only the first `MAX_EXCLUSIONS` of the text search count, if they pass the filter.
        """
        rows = np.concatenate([view.hidden for view in self._views])
        search = partial(self.index.text, terms, MAX_EXCLUSIONS, rows)
        matches = (await run_in_thread(self.size, search)).matches
        memories = await self.memories(matches.rows.tolist(), hidden=True)
        return {
            row: memory.state if memory.state not in ("active", "source") else "expired"
            for row, memory in memories.items()
            if matches_filter(filter, memory)
            # a short-term memory of the session is searched in the session's own view
            and self.rows_of(row, [memory.id]) == [row]
        }


async def few_at_once(
    work: Callable[[Item], Awaitable[Answer]], items: Sequence[Item]
) -> list[Answer]:
    """Run `work` on a few items at once, and return all answers in order. If one fails, cancel the
    others and wait for them before raising its error.
    """
    if len(items) == 1:
        return [await work(items[0])]
    answers: list[Answer] = []
    for batch in batched(items, SCOPES_AT_ONCE):
        tasks = [asyncio.ensure_future(work(item)) for item in batch]
        try:
            answers += await asyncio.gather(*tasks)
        finally:
            await cancel_and_wait(*tasks)
    return answers


async def open_views(
    store: MemoryStore, search: Search, *, again: bool = False, has_short_term: bool = False
) -> ManyViews:
    """Open the views of a search: its scopes, now or at `as_of`, and the short-term memories of its
    session.

    Args:
        store: the store of the scopes.
        search: gives the scopes, the filter, the time and the session.
        again: True if the former views were stale.
        has_short_term: True if sessions have short-term memories.

    Raises:
        InvalidInput: too many memories of a scope have changed since the past time.
    """
    source, scopes, session_id = store.reader, search.scopes, search.session_id
    filter, now = search.filter, search.now
    if search.as_of is not None:
        views = [view for scope in scopes for view in await past_views(source, scope, search)]
        # without the search, which holds these views: indexes in a cycle would stay in memory
        return ManyViews(views, partial(state_at, at=now, session_id=session_id))
    short_term: list[View] = []
    for scope in scopes if session_id and has_short_term else ():
        of_session = Filter(session_id=session_id, superseded="short_term")
        query = MemoryQuery(filter=of_session, limit=MAX_SHORT_TERM, now=now)
        if memories := await source.select(scope, query):
            view = MemoriesView.of(
                source, scope, memories, states=WITH_SHORT_TERM, filter=filter, now=now
            )
            short_term.append(await view)
    # only reading its memories checks a cached view, and of several views one may not be read
    cached = len(scopes) == 1 and not again and not short_term
    view_of = partial(source.view, filter=filter, now=now, cached=cached)
    return ManyViews([*await few_at_once(view_of, scopes), *short_term])


async def past_views(source: MemoryStore, scope: Scope, search: Search) -> Sequence[View]:
    """Return two views of a scope as it was at the time of a search: today's view without the
    memories that have changed since, and a view of the changed memories as they were then.

    A memory whose text has changed since is found by words alone. Forgotten and pruned memories are
    not found.

    Raises:
        InvalidInput: too many memories have changed since.
    """
    now, filter = search.now, search.filter
    # read first: a write during the search is then among the changes, and not in this view
    today = await source.view(scope, filter=filter, now=now)
    async with turn.get():  # of a distant past this keeps the database busy
        held = turn.set(nullcontext())  # the store may take a turn, too
        try:
            changed = await source.changed_since(scope, now)
        finally:
            turn.reset(held)
    existing = [id for id, existed in changed.items() if existed]
    if len(existing) > MAX_PAST:
        raise InvalidInput(
            f"More than {MAX_PAST:,} memories of a scope have changed since; name a later time."
        )
    memories: list[Memory] = []
    reworded: set[str] = set()
    for batch in batched(existing, READ_AT_ONCE):
        for whole in await source.whole(scope, batch):
            if memory := state_at(whole, now, search.session_id):
                memories.append(memory)
                if memory.content != whole.memory.content:
                    reworded.add(memory.id)
    changed_view = await MemoriesView.of(
        source,
        scope,
        memories,
        states=WITH_SHORT_TERM,
        reworded=reworded,
        filter=filter,
        now=now,
    )
    unchanged_view = await run_in_thread(
        today.size, lambda: today.without(today.index.rows_of(changed))
    )
    return unchanged_view, changed_view


def state_at(whole: Whole, at: datetime, session_id: str | None) -> Memory | None:
    """Return a memory as it was at a past time, with today's usage. Return None if it was first
    said later, or was then a short-term memory of another session.

    A memory exists from when it was said, even if it was ingested later. A fact replaces another
    from when it was said, too.
    """
    today = whole.memory
    states = every_state(today, whole.revisions)
    if at < min(map(valid_since, states)):
        return None
    later = [revision.before for revision in whole.revisions if revision.at > at]
    # None before the first revision of a memory ingested later than it was said
    memory = (*later, today)[0] or (states[1:] or states)[0]
    if today.state == "superseded" and today.valid_to and memory.state in ("active", "superseded"):
        memory = replace(memory, state="active" if at < today.valid_to else "superseded")
    if memory.state == "short_term" and memory.session_id != (session_id or ""):
        return None
    # a copy of each of thousands of memories would hold up the event loop
    return memory if memory is today else replace(memory, usage=today.usage)
