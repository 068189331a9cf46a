"""Merge memories of a scope that say the same, and put summaries in the place of old ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..concurrency import run_in_thread
from ..errors import Conflict, ModelError, ModelUnavailable, NotFound
from ..models.llm import Llm
from ..records import Change, Filter, Memory, Scope
from ..retrieval.embedding_spaces import EXTERNAL, StoreEmbedder, with_vectors
from ..retrieval.similar import Near, neighbours
from ..settings import MemorySettings
from ..stores import Store
from ..stores.base import Batch, each
from ..stores.planning import slot_of
from .comparing import joined, may_merge, said, unites
from .group_summaries import parts, plan_summary, topic_groups
from .planner import UNITED, decide

logger = logging.getLogger(__name__)

MAX_MERGED = 200
"""The newest memories of a scope, which are merged with what says the same."""
MAX_SHORT_TERM_READ = 1000
MIN_SIMILARITY = 0.8
"""Cosine of two memories that may be one."""
# metadata of where it was said: the newest's will do for both
_WHENCE = frozenset(("session_id", "source"))


@dataclass(frozen=True)
class Consolidation:
    """Unite stored memories by a model's words; what has a vector of its caller's stays alone:
    nobody here can make one for other words.
    """

    store: Store
    vectors: StoreEmbedder | None
    settings: MemorySettings
    clock: Callable[[], datetime]

    async def merge(
        self, scope: Scope, llm: Llm, *, saved: bool = False, dry_run: bool = False
    ) -> tuple[Change, ...]:
        """Merge the newest memories of a scope with what says the same, and sum up old ones where
        the settings ask for that; what is merged stands, whatever becomes of the summaries.

        Args:
            scope: whose.
            llm: writes what several memories become.
            saved: also what callers saved as it is; only where a caller asks for that.
            dry_run: only returns the changes.

        Raises:
            ModelError: the model is unavailable or its answer cannot be used.
            Conflict: the scope changed meanwhile.
        """
        now, memories = self.clock(), self.store.memories
        version = await memories.version(scope)
        page = await memories.list(scope, order="newest", limit=MAX_MERGED, now=now)
        recent = [one for one in page.memories if may_merge(one, saved=saved)]
        near, _ = await neighbours(memories.view(scope, now=now), self.vectors, recent)
        found = [memory for some in near.values() for memory, _ in some]
        bound = await self._bound(scope, [*recent, *found])
        pairs = [pair for pair in alike(recent, near, saved=saved) if bound.isdisjoint(_ids(pair))]
        merges = await plan_merges(pairs, llm, now=now)
        await self._apply(scope, merges, version=version, dry_run=dry_run)
        merged = _ids(change.memory for change in merges)
        groups = await self._old_groups(scope, saved=saved, without=merged)
        return (*merges, *await self._sum_up(scope, groups, llm, dry_run=dry_run))

    async def sum_up_session(self, scope: Scope, session_id: str, llm: Llm, *, keep: int) -> None:
        """Put long-term summaries in the place of a session's short-term memories but for the
        newest; what tools said is never summed up with what others said.

        Raises:
            ModelError: the model is unavailable or its answer cannot be used.
        """
        held = await self.store.memories.short_term(
            scope, session_id=session_id, limit=MAX_SHORT_TERM_READ, now=self.clock()
        )
        old = [memory for memory in reversed(held[keep:]) if not memory.verbatim]
        for of_tools in (False, True):
            some = [memory for memory in old if (memory.origin == "tool") is of_tools]
            await self._sum_up(scope, list(parts(some)), llm)

    async def _old_groups(
        self, scope: Scope, *, saved: bool, without: Set[str]
    ) -> Sequence[Sequence[Memory]]:
        """Return groups of old episodic memories that summaries may stand for."""
        if not (days := self.settings.summarize_after_days):
            return ()
        now = self.clock()
        old = Filter(types=("episodic",), created_before=now - timedelta(days=days))
        every = [memory async for memory in each(self.store.memories, scope, old, now=now)]
        without |= await self._bound(scope, every)
        free = [one for one in every if (saved or not one.explicit) and one.id not in without]
        size = sum(len(memory.content) for memory in free)
        return await run_in_thread(size, lambda: topic_groups(free, now=now))

    async def _sum_up(
        self,
        scope: Scope,
        groups: Sequence[Sequence[Memory]],
        llm: Llm,
        *,
        dry_run: bool = False,
    ) -> list[Change]:
        """Put a summary in the place of each group, unless somebody changed that meanwhile or the
        model's text cannot stand for it; return the changes.

        Raises:
            ModelError: the model is unavailable, or failed at a group; the others are summed up.
        """
        done: list[Change] = []
        failure: ModelError | None = None
        for group in groups:
            try:
                changes = await plan_summary(group, llm, settings=self.settings, now=self.clock())
                await self._apply(scope, changes, dry_run=dry_run)
                done += changes
            except ModelUnavailable:
                raise
            except ModelError as error:
                failure = failure or error
            except (Conflict, NotFound) as error:
                logger.info(
                    "Old memories were not summarised, because one of them changed meanwhile: %s",
                    error,
                )
        if failure is not None:
            raise failure
        return done

    async def _apply(
        self, scope: Scope, changes: Sequence[Change], *, version: int | None = None, dry_run: bool
    ) -> None:
        if changes and not dry_run:
            now = self.clock()
            batch = Batch(changes=changes, expected_version=version)
            batch = await with_vectors(self.vectors, scope, batch, now)
            await self.store.apply(scope, batch, now=now)

    async def _bound(self, scope: Scope, memories: Sequence[Memory]) -> Set[str]:
        """Return the ids of those memories whose vectors their callers brought."""
        store, asked = self.store.memories, list(_ids(memories))
        return {
            id
            for space in await store.spaces.all()
            if asked and space.name.startswith(EXTERNAL)
            for id in await store.vectors(scope, space.number, asked)
        }


async def plan_merges(
    pairs: Sequence[tuple[Memory, Memory]], llm: Llm, *, now: datetime
) -> list[Change]:
    """Return the changes that unite memories in pairs, as the model decides about new facts; each
    memory is in one pair at most.

    Args:
        pairs: newer and older memories that may be one, the most similar first.
        llm: decides, and writes the sentence that says both.
        now: when the plan is made.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used; nothing is planned.
    """
    chosen: list[tuple[Memory, Memory]] = []
    paired: Set[str] = set()
    for pair in pairs:
        if paired.isdisjoint(_ids(pair)):
            chosen.append(pair)
            paired |= _ids(pair)
    shown = {number: [(older, 1.0)] for number, (_, older) in enumerate(chosen)}
    decided = await decide([newer for newer, _ in chosen], shown, llm)
    return [
        change
        for number, decision in decided.items()
        if decision.action == "UPDATE"
        and unites(text := decision.text or "", [memory.content for memory in chosen[number]])
        for change in joined(chosen[number], text, now=now, why=UNITED)
    ]


def alike(
    memories: Sequence[Memory], near: Near, *, saved: bool = False
) -> list[tuple[Memory, Memory]]:
    """Return pairs of a newer and an older memory that are alike and may be one, the most similar
    first.

    Args:
        memories: visible memories of one scope.
        near: index into `memories` → memories that are like it, with their cosine.
        saved: also what callers saved as it is.
    """
    found = [
        (value, *sorted((memories[place], other), key=said, reverse=True))
        for place, some in near.items()
        for other, value in some
        if value >= MIN_SIMILARITY
    ]
    return [
        (newer, older)
        for _, newer, older in sorted(found, key=lambda one: -one[0])
        if all(may_merge(one, saved=saved) for one in (newer, older))
        and _are_of_a_kind(newer, older)
    ]


def _are_of_a_kind(a: Memory, b: Memory) -> bool:
    """Return True for two memories of one type and origin, that fill no slot and have no different
    labels, of which a merge would lose one.
    """
    kinds = [(one.type, one.category, one.origin, one.is_error, slot_of(one)) for one in (a, b)]
    common = a.metadata.keys() & b.metadata.keys() - _WHENCE
    is_labelled_alike = all(a.metadata[key] == b.metadata[key] for key in common)
    return kinds[0] == kinds[1] and slot_of(a) is None and is_labelled_alike


def _ids(memories: Iterable[Memory]) -> Set[str]:
    return {memory.id for memory in memories}
