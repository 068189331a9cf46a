"""The views that a search reads: its scopes as if all their memories lay in one, as they are or as
they were at a time, beside the short-term memories of its session.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from heapq import nlargest
from typing import TypeVar

import numpy as np

from ..concurrency import cancel_and_wait, run_in_thread
from ..errors import InvalidInput, ModelError
from ..records import EVERYTHING, Exclusion, Filter, LeftOut, Memory, Scope, Vector
from ..stores.base import MemoryStore
from ..stores.columns import Places
from ..stores.values import EARLIEST, Numbers, TermMatrix, TextMatches, Whole
from ..stores.vectors import Nearest
from ..stores.view import MemoriesView, View
from .embedding_spaces import StoreEmbedder
from .search import Search

logger = logging.getLogger(__name__)

SCOPES_AT_ONCE = 4
MAX_EXCLUSIONS = 50
MAX_PAST = 50_000  # memories that a search of the past reads
READ_AT_ONCE = 500
MAX_REWORDED = 1000  # are embedded anew for one search; the others are found by words
MAX_SHORT_TERM = 50  # of one session; the oldest go first

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
        self._views = [(numbers[view.scope], view) for view in (*views, *short_term)]

    def scope_of(self, key: str) -> Scope:
        """Return the scope of a memory."""
        return self._whole[self._parts(key)[0]].scope

    def key_of(self, beside: str, id: str) -> str:
        """Return the key of an id in the scope of another memory's key."""
        return self._key(self._parts(beside)[0], id)

    def by_id(self, left_out: Mapping[str, Exclusion]) -> tuple[LeftOut, ...]:
        """Return what was left out by scope and id instead of by key."""
        return tuple(
            LeftOut(memory_id=self._parts(key)[1], reason=reason, scope=self.scope_of(key))
            for key, reason in left_out.items()
        )

    def size(self, terms: int) -> int:
        """Return how long a search by so many terms takes, as `run_in_thread` counts."""
        return sum(view.size(terms) for _, view in self._views)

    def text(self, terms: Sequence[str], *, limit: int) -> TextMatches:
        """Return what the text search finds, counted over all scopes together: no word is rare for
        lying in a small scope, and the same text matches as well in each of them.
        """
        parts = [(number, view.text(terms, limit=limit)) for number, view in self._views]
        return parts[0][1] if len(parts) == 1 else self._pooled(terms, parts, limit)

    def newest(
        self, limit: int, after: datetime | None = None, before: datetime | None = None
    ) -> list[str]:
        """Return the newest memories of all scopes; see `View.newest`."""
        rows = [
            (created, id, number)
            for number, view in self._views
            for created, id in view.newest(limit, after, before)
        ]
        return [self._key(number, id) for _, id, number in nlargest(limit, rows)]

    def features(self, keys: Sequence[str], *, reach: int) -> Places:
        """Return where these memories stand in their sessions, and those beside them."""
        parts = [
            (number, view.features(ids, reach=reach)) for number, view, ids in self._asked(keys)
        ]
        if len(self._views) == 1:
            return parts[0][1]
        return Places.joined(
            [part for _, part in parts],
            [[self._key(number, id) for id in part.ids] for number, part in parts],
        )

    async def nearest(
        self, space: int, vectors: Sequence[Vector], *, limit: int
    ) -> Sequence[Nearest]:
        """Return for each vector the nearest memories of all scopes, each with its cosine."""
        answers = await few_at_once(
            [partial(view.nearest, space, vectors, limit=limit) for _, view in self._views]
        )
        if len(answers) == 1:
            return answers[0]

        def best(place: int) -> Nearest:
            rows = [
                (cosine, id, number)
                for (number, _), lists in zip(self._views, answers, strict=True)
                for id, cosine in lists[place]
            ]
            return [(self._key(number, id), cosine) for cosine, id, number in nlargest(limit, rows)]

        size = sum(len(near) for lists in answers for near in lists)
        return await run_in_thread(size, lambda: [*map(best, range(len(vectors)))])

    async def memories(
        self, keys: Sequence[str], *, superseded: bool = False
    ) -> Mapping[str, Memory]:
        """Return the visible ones of these memories, by key; with `superseded` also those no longer
        active.

        Raises:
            Stale: the search went by what was out of date.
        """
        requests = self._asked(keys)
        answers = await few_at_once(
            [partial(view.memories, ids, superseded=superseded) for _, view, ids in requests]
        )
        return {
            self._key(number, id): memory
            for (number, _, _), memories in zip(requests, answers, strict=True)
            for id, memory in memories.items()
        }

    async def exclusions(self, terms: Sequence[str], filter: Filter) -> Mapping[str, Exclusion]:
        """Return those of the memories with the rarest terms that have expired, were superseded or
        are quarantined, by key. Searched by words only, as of a time before any expired.
        """
        every = replace(filter, superseded=True)
        views = await few_at_once([partial(view.under, every, EARLIEST) for view in self._whole])
        ever = ManyViews(views)
        size = ever.size(len(terms))
        matches = (await run_in_thread(size, ever.text, terms, limit=MAX_EXCLUSIONS)).matches
        memories = await ever.memories(matches.ids, superseded=True)
        visible = await self.memories([*memories])
        return {
            key: memory.state if memory.state not in ("active", "source") else "expired"
            for key, memory in memories.items()
            if key not in visible
        }

    def _key(self, number: int, id: str) -> str:
        return id if len(self._whole) == 1 else f"{number}:{id}"

    def _parts(self, key: str) -> tuple[int, str]:
        """Return the number of a key's scope, and the id."""
        if len(self._whole) == 1:
            return 0, key
        number, _, id = key.partition(":")
        return int(number), id

    def _asked(self, keys: Sequence[str]) -> list[tuple[int, View, Sequence[str]]]:
        """Return the views in whose scopes the keys lie, each with the number of its scope and the
        ids.

        A single scope is asked without any, too: nothing found is true only of it as it is now.
        """
        if len(self._views) == 1:
            return [(0, self._views[0][1], keys)]
        ids: dict[int, list[str]] = defaultdict(list)
        for number, id in map(self._parts, keys):
            ids[number].append(id)
        return [(number, view, ids[number]) for number, view in self._views if number in ids]

    def _pooled(
        self, terms: Sequence[str], parts: Sequence[tuple[int, TextMatches]], limit: int
    ) -> TextMatches:
        """Return the matches as those of one scope that holds all memories, cut at `limit` as a
        store cuts.
        """
        frequencies: Counter[str] = Counter()
        for _, part in parts:
            frequencies.update(part.frequencies)
        known = [term for term in dict.fromkeys(terms) if term in frequencies]
        matches = [part.matches for _, part in parts]

        def aligned(some: TermMatrix) -> Numbers:
            counts = np.zeros((len(some), len(known)), np.int64)
            counts[:, [known.index(term) for term in some.terms]] = some.counts
            return counts

        term_counts = np.concatenate([*map(aligned, matches)])
        lengths = np.concatenate([part_matches.lengths for part_matches in matches])
        ids = np.array([id for part_matches in matches for id in part_matches.ids], np.str_)
        keys = [self._key(number, id) for number, part in parts for id in part.matches.ids]
        worth = ((term_counts > 0) @ np.array([1 / frequencies[term] for term in known])).round(12)
        best: list[int] = np.lexsort((ids, worth))[::-1][:limit].tolist()
        documents = sum(part.documents for _, part in parts)
        length = sum(part.documents * part.average_length for _, part in parts)
        return TextMatches(
            documents=documents,
            average_length=length / documents if documents else 0.0,
            frequencies=frequencies,
            matches=TermMatrix(
                [keys[row] for row in best], known, lengths[best], term_counts[best]
            ),
        )


async def few_at_once(calls: Sequence[Callable[[], Awaitable[Answer]]]) -> list[Answer]:
    """Return the answer of each call; when one fails, the others end before its error is told."""
    if len(calls) == 1:  # without a task of its own
        return [await calls[0]()]
    answers: list[Answer] = []
    for start in range(0, len(calls), SCOPES_AT_ONCE):
        batch = [asyncio.ensure_future(call()) for call in calls[start : start + SCOPES_AT_ONCE]]
        try:
            answers += await asyncio.gather(*batch)
        finally:
            await cancel_and_wait(*batch)
    return answers


async def open_views(
    store: MemoryStore,
    embedder: StoreEmbedder | None,
    search: Search,
    *,
    again: bool = False,
    has_short_term: bool = False,
) -> ManyViews:
    """Return the scopes of a search as they are or were, and what the session that asks keeps for
    itself.

    Args:
        store: which keeps them.
        embedder: its own, if any.
        search: whose scopes, filter, time and session.
        again: a former view turned out to be stale.
        has_short_term: whether sessions keep memories for themselves.
    """
    source, scopes, session_id = store.reader, search.scopes, search.session_id
    view_of = partial(source.view, filter=search.filter, now=search.now)
    if search.as_of is not None:
        return ManyViews(
            await past_views(source, embedder, scopes, search.now, search.filter, session_id)
        )
    own: list[View] = []
    for scope in scopes if session_id and has_short_term else ():
        brief = await source.short_term(
            scope, session_id=session_id, limit=MAX_SHORT_TERM, now=search.now
        )
        if brief:
            view = MemoriesView.of(
                source, scope, brief, short_term=True, filter=search.filter, now=search.now
            )
            own.append(await view)
    # of a view that is trusted, memories would have to be asked for
    cached = len(scopes) == 1 and not again and not own
    views = await few_at_once([partial(view_of, scope, cached=cached) for scope in scopes])
    return ManyViews(views, own)


async def past_views(
    source: MemoryStore,
    embedder: StoreEmbedder | None,
    scopes: Sequence[Scope],
    at: datetime,
    filter: Filter = EVERYTHING,
    session_id: str | None = None,
) -> list[View]:
    """Return views of the scopes as they were at a time, in which short-term memories of the
    session count as active. What was reworded since is embedded anew, as it was.

    Forgotten and pruned memories are gone for good, for the past too.

    Raises:
        InvalidInput: the scopes hold too many memories for that.
    """
    views: list[View] = []
    count = 0
    for scope in scopes:
        ids = await source.kept(scope, Filter())
        if (count := count + len(ids)) > MAX_PAST:
            raise InvalidInput(
                f"A search of the past reads at most {MAX_PAST:,} memories, and these scopes keep "
                "more; name fewer."
            )
        memories: list[Memory] = []
        reworded: dict[str, Memory] = {}
        for start in range(0, len(ids), READ_AT_ONCE):
            for whole in await source.whole(scope, ids[start : start + READ_AT_ONCE]):
                if (memory := state_at(whole, at)) is not None:
                    memories.append(memory)
                    today = whole.memory
                    if (memory.content, memory.author) != (today.content, today.author):
                        reworded[memory.id] = memory
        view = MemoriesView.of(
            source,
            scope,
            [
                memory
                for memory in memories
                if memory.state != "short_term" or (session_id and memory.session_id == session_id)
            ],
            short_term=True,
            vectors=partial(_past_vectors, source, embedder, scope, reworded),
            filter=filter,
            now=at,
        )
        views.append(await view)
    return views


async def _past_vectors(
    source: MemoryStore,
    embedder: StoreEmbedder | None,
    scope: Scope,
    reworded: Mapping[str, Memory],
    space_number: int,
    ids: Sequence[str],
) -> Mapping[str, Vector]:
    """Return the vectors of these memories as they were."""
    kept = await source.vectors(scope, space_number, [id for id in ids if id not in reworded])
    anew = [reworded[id] for id in ids if id in reworded][-MAX_REWORDED:]
    if not anew or embedder is None:
        return kept
    try:
        space, made_vectors = await embedder.embed_memories(scope, anew)
    except ModelError as error:
        logger.warning("What was reworded since is searched by words only: %s", error)
        return kept
    return {**kept, **made_vectors} if space.number == space_number else kept


def state_at(whole: Whole, at: datetime) -> Memory | None:
    """Return a memory as it held at a time, with today's usage; None before it was first said.

    What was taken in later than it was said held from then on, and what replaced another value did
    so when it was said.
    """
    today = whole.memory
    states = [revision.before for revision in whole.revisions if revision.before is not None] or [
        today
    ]
    if at < min(
        state.valid_from or state.said_at or state.created_at for state in (*states, today)
    ):
        return None
    former = next((revision for revision in whole.revisions if revision.at > at), None)
    memory = (today if former is None else former.before) or states[0]
    if (
        today.state == "superseded"
        and today.valid_to is not None
        and memory.state in ("active", "superseded")
    ):
        memory = replace(memory, state="active" if at < today.valid_to else "superseded")
    return replace(memory, usage=today.usage)
