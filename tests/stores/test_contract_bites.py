"""The contract bites: every deliberate defect of a store fails the test that states the broken promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kagent_memory.errors import KagentMemoryError
from kagent_memory.records import Filter, Scope
from kagent_memory.stores.base import Applied, Batch
from kagent_memory.stores.codec import to_cursor
from kagent_memory.stores.libsql import LibSQLStore
from kagent_memory.testing import StoreContract
from kagent_memory.testing.contract_isolation import HOME, NEIGHBOURS
from kagent_memory.testing.fixtures import DAY

BROKEN = (AssertionError, KagentMemoryError, KeyError, pytest.fail.Exception)
PLACE = Scope("every", "body", "here")


class ReadsIgnoreTheScope(LibSQLStore):
    async def apply(self, scope, batch, *, now):
        return await super().apply(PLACE, batch, now=now)

    async def get(self, scope, ids, **options):
        return await super().get(PLACE, ids, **options)


class UserIsComparedByPrefix(LibSQLStore):
    async def list(self, scope, **options):
        return await super().list(replace(scope, user=scope.user[:2]), **options)

    async def apply(self, scope, batch, *, now):
        return await super().apply(replace(scope, user=scope.user[:2]), batch, now=now)


class ExpiredStaysVisible(LibSQLStore):
    async def get(self, scope, ids, *, now, superseded=False):
        return await super().get(scope, ids, now=now - 30 * DAY, superseded=superseded)


class SupersededIsFound(LibSQLStore):
    async def search_texts(self, scope, queries, *, filter=Filter(), **options):
        return await super().search_texts(scope, queries, filter=replace(filter, superseded=True), **options)


class WritesChangeByChange(LibSQLStore):
    async def apply(self, scope, batch, *, now):
        ids: list[str | None] = []
        for change in batch.changes:
            ids += (await super().apply(scope, Batch(changes=[change]), now=now)).ids
        last = await super().apply(scope, replace(batch, changes=()), now=now)
        return Applied(ids=tuple(ids), version=last.version)


class DropsAFilter(LibSQLStore):
    async def list(self, scope, *, filter=Filter(), **options):
        return await super().list(scope, filter=replace(filter, tags=filter.tags[:1]), **options)


class TakesTrueForOne(LibSQLStore):
    async def list(self, scope, *, filter=Filter(), **options):
        metadata = {key: int(value) if isinstance(value, bool) else value for key, value in filter.metadata.items()}
        return await super().list(scope, filter=replace(filter, metadata=metadata), **options)


class PagesByNumber(LibSQLStore):
    async def list(self, scope, *, limit=50, cursor=None, **options):
        start = int(cursor or 0)
        page = await super().list(scope, limit=start + limit, **options)
        more = str(start + limit) if len(page.memories) == start + limit else None
        return replace(page, memories=page.memories[start:], cursor=more)


class TakesAnyCursor(LibSQLStore):
    async def list(self, scope, *, cursor=None, order="newest", **options):
        known = cursor if cursor is None or cursor == to_cursor(order) else None
        return await super().list(scope, cursor=known, order=order, **options)


class CutsBeforeItFilters(LibSQLStore):
    async def search_vector(self, scope, space_number, vectors, *, limit, filter=Filter(), now):
        near = await super().search_vector(scope, space_number, vectors, limit=limit, now=now)
        kept = {memory.id for memory in (await self.list(scope, filter=filter, limit=999, now=now)).memories}
        return [[hit for hit in hits if hit[0] in kept] for hits in near]


class KeepsTheWordiestMatches(LibSQLStore):
    async def search_text(self, scope, terms, *, limit, **options):
        found = await super().search_text(scope, terms, limit=999, **options)
        best = sorted(found.matches, key=lambda id: len(found.matches[id][1]), reverse=True)[:limit]
        return replace(found, matches={id: found.matches[id] for id in best})


class ForgetsTheRowAlone(LibSQLStore):
    async def taken(self, scope, session_id, event_ids):
        return frozenset()


class CountsOneMomentOnce(LibSQLStore):
    async def deliver(self, scope, *, retrieved, delivered, now):
        seen = self.__dict__.setdefault("seen", set())
        fresh = [id for id in delivered if (id, now) not in seen]
        seen.update((id, now) for id in delivered)
        await super().deliver(scope, retrieved=retrieved, delivered=fresh, now=now)


class ForgetsTheFence(LibSQLStore):
    async def apply(self, scope, batch, *, now):
        return await super().apply(scope, replace(batch, job=None), now=now)


class PrunesThePinned(LibSQLStore):
    async def apply(self, scope, batch, *, now):
        loose = [replace(change, memory=replace(change.memory, pinned=False)) for change in batch.changes]
        return await super().apply(scope, replace(batch, changes=loose), now=now)


class DryRunIsNotDry(LibSQLStore):
    async def prune(self, *, now, popular_after, dry_run=False):
        return await super().prune(now=now, popular_after=popular_after)


class EvictsByForgetting(LibSQLStore):
    async def evict(self, scope, ids, *, keep, now):
        return await self.forget(scope, ids=ids, now=now)


class EvictsWhatItIsTold(LibSQLStore):
    async def evict(self, scope, ids, *, keep, now):
        return await super().evict(scope, ids, keep=0, now=now)


class WorksAfterClose(LibSQLStore):
    async def close(self):
        return None


HOME_AND_USER = {"home": HOME, "other": NEIGHBOURS["user"]}
DEFECTS: list[tuple[type[LibSQLStore], str, dict[str, Any]]] = [
    (ReadsIgnoreTheScope, "no_read_shows_what_another_scope_holds", HOME_AND_USER),
    (
        UserIsComparedByPrefix,
        "the_same_text_and_event_live_once_in_each_scope",
        {"home": HOME, "other": NEIGHBOURS["shorter user"]},
    ),
    (ExpiredStaysVisible, "expired_superseded_and_quarantined_memories_are_invisible_at_once", {}),
    (SupersededIsFound, "expired_superseded_and_quarantined_memories_are_invisible_at_once", {}),
    (WritesChangeByChange, "a_batch_with_one_fault_writes_nothing", {"fault": "stale revision"}),
    (WritesChangeByChange, "a_batch_with_one_fault_writes_nothing", {"fault": "taken event"}),
    (DropsAFilter, "list_and_both_searches_give_exactly_what_passes", {"name": "all of the tags"}),
    (TakesTrueForOne, "list_and_both_searches_give_exactly_what_passes", {"name": "metadata true"}),
    (PagesByNumber, "pages_stay_right_while_rows_come_and_go", {"order": "newest"}),
    (TakesAnyCursor, "a_cursor_that_is_none_of_ours_is_invalid_input", {"cursor": "nonsense"}),
    (CutsBeforeItFilters, "the_limit_counts_after_filter_expiry_and_supersession", {}),
    (KeepsTheWordiestMatches, "rare_terms_win_the_cut_over_many_common_ones", {}),
    (ForgetsTheRowAlone, "the_event_of_a_forgotten_memory_is_held_back_whatever_session_brings_it", {}),
    (CountsOneMomentOnce, "overlapping_deliveries_count_every_one", {}),
    (ForgetsTheFence, "after_its_lease_a_job_goes_to_the_next_and_the_first_can_do_nothing_more", {}),
    (PrunesThePinned, "the_prune_deletes_the_unpopular_extends_the_popular_and_leaves_the_rest", {}),
    (DryRunIsNotDry, "the_prune_deletes_the_unpopular_extends_the_popular_and_leaves_the_rest", {}),
    (EvictsWhatItIsTold, "an_eviction_leaves_as_many_as_it_should_and_takes_neither_pinned_nor_unseen_ones", {}),
    (EvictsByForgetting, "what_was_evicted_leaves_no_trace_and_may_come_again", {}),
    (EvictsWhatItIsTold, "evictions_at_once_leave_as_many_as_one_would", {}),
    (WorksAfterClose, "use_after_close_is_a_store_error", {"verb": "version"}),
]


class Case(StoreContract):
    """The contract as its tests are called here: with a store that the caller opened."""

    async def open_store(self) -> LibSQLStore:
        raise NotImplementedError


async def run(kind: type[LibSQLStore], test: str, arguments: dict[str, Any]) -> None:
    store = await kind.open("libsql:///:memory:")
    try:
        await getattr(Case(), f"test_{test}")(store, **arguments)
    finally:
        await LibSQLStore.close(store)


@pytest.mark.parametrize(("defect", "test", "arguments"), DEFECTS)
async def test_a_store_with_a_defect_fails_the_contract_and_a_sound_one_passes(defect, test, arguments) -> None:
    await run(LibSQLStore, test, arguments)
    with pytest.raises(BROKEN):
        await run(defect, test, arguments)
