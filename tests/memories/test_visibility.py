"""Invariant 6: what expired, was superseded, quarantined or forgotten is seen through no verb,
pruned or not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any

import pytest

from kagent_memory import Change, Fact, Filter, Memories
from kagent_memory.errors import Conflict, NotFound
from kagent_memory.stores.values import Batch
from kagent_memory.testing import HashEmbedder
from memories.opening import ADA, DAY, START, later, listed, opened

SEEN = {"active", "endless", "pinned", "pinned past its ttl"}
HISTORIES = {*SEEN, "superseded", "superseded, pinned past its ttl", "quarantined"}
HIDDEN = {
    "expired",
    "expired at this moment",
    "superseded",
    "superseded and expired",
    "superseded, pinned past its ttl",
    "quarantined",
    "quarantined and expired",
    "forgotten",
}
STATES = sorted({*SEEN, *HIDDEN})


def fact_of(state: str) -> Fact:
    ttls = {"endless": 0, "at this moment": 5, "expired": 2, "past": 2}
    ttl = next((days for words, days in ttls.items() if words in state), 90)
    text = f"The zebra is {state}."
    return Fact(text, ttl_days=ttl, pinned="pinned" in state, tags=("z",), session_id="s")


async def fill(memories: Memories) -> dict[str, str]:
    """Keep one memory of each state, edited once so that it has a history; the clock then stands
    five days on.
    """
    added = await memories.add(ADA, [fact_of(state) for state in STATES])
    ids = dict(zip(STATES, added, strict=True))
    for id in added:
        await memories.edit(ADA, id, importance=0.75, why="a history")
    store, now = memories.store, memories.clock()
    stored = await store.memories.get(ADA, added, now=now, superseded=True)
    for name in STATES:
        state: Any = name.split(",")[0].split(" ")[0]
        if state in ("superseded", "quarantined"):
            by = ids["active"] if state == "superseded" else None
            changed = replace(stored[ids[name]], state=state, superseded_by=by, revision=3)
            batch = Batch(changes=[Change(kind="supersede", memory=changed)])
            await store.apply(ADA, batch, now=now)
    await memories.forget(ADA, ids["forgotten"])
    later(memories, days=5)
    return ids


@pytest.fixture
async def memories(store_uri: str) -> AsyncIterator[Memories]:
    async with await opened(store_uri, embedding=HashEmbedder()) as memories:
        yield memories


@pytest.fixture
async def ids(memories: Memories) -> dict[str, str]:
    """The id of a memory of each state."""
    return await fill(memories)


def states(ids: dict[str, str], ids_found: Iterable[str]) -> set[str]:
    names = {id: state for state, id in ids.items()}
    return {names[id] for id in ids_found}


async def refused(verb: Any) -> bool:
    try:
        await verb
    except NotFound:
        return True
    return False


async def test_verbs_by_id_know_no_memory_out_of_sight(memories: Memories, ids: dict[str, str]):
    """No verb that takes an id finds a memory out of sight; history and undo know the retired."""
    for state, id in ids.items():
        is_hidden = state not in SEEN
        for attempt in (
            memories.get(ADA, id),
            memories.feedback(ADA, id, success=True),
            memories.edit(ADA, id, importance=0.5),
            memories.pin(ADA, id),
            memories.add(ADA, [f"Instead of {state}"], replaces=id),
        ):
            assert await refused(attempt) is is_hidden, state
        for attempt in (memories.history(ADA, id), memories.undo(ADA, id)):
            assert await refused(attempt) is (state not in HISTORIES), state
    usage = await memories.store.memories.get(ADA, [*ids.values()], now=START, superseded=True)
    counted = {id for id, memory in usage.items() if memory.usage.successes}
    assert states(ids, counted) == SEEN


async def test_lists_and_searches_give_what_is_visible(memories: Memories, ids: dict[str, str]):
    """Lists, counts and searches of every mode give what is visible and nothing else."""
    for order in ("newest", "oldest"):
        page = await memories.list(ADA, order=order, limit=99)
        assert states(ids, (memory.id for memory in page.memories)) == SEEN
    everything = await memories.list(ADA, filter=Filter(superseded=True), limit=99)
    assert states(ids, (memory.id for memory in everything.memories)) == HISTORIES
    for filter in (Filter(), Filter(session_id="s", tags=("z",)), Filter(superseded=True)):
        for query in ("Which zebra is there?", "zebra expired superseded forgotten quarantined"):
            hits = await memories.recall(ADA, query, limit=50, filter=filter)
            assert states(ids, (hit.memory.id for hit in hits)) == SEEN, (filter, query)
    stats = await memories.stats(ADA)
    assert (stats.visible, stats.pinned, stats.expired, stats.superseded) == (4, 2, 2, 3)
    assert sum(stats.by_type.values()) == 4


async def test_an_explanation_holds_no_words_of_what_was_left_out(
    memories: Memories, ids: dict[str, str]
):
    """The explanation of a search names memories left out and the reasons, but none of
    their words.
    """
    recall = await memories.recall(ADA, "Which zebra is there?", limit=50, explain=True)
    assert states(ids, (hit.memory.id for hit in recall)) == SEEN
    reasons = {
        state: out.reason for out in recall.left_out for state in states(ids, [out.memory_id])
    }
    assert reasons.keys() == HIDDEN - {"forgotten"}
    assert all(state.startswith(reason) for state, reason in reasons.items())
    assert "expired" not in repr(recall.hits)


async def test_a_prune_changes_nothing_of_what_verbs_answer(
    memories: Memories, ids: dict[str, str]
):
    """Expired memories are as invisible before a prune as after it."""

    async def answers() -> list[Any]:
        told: list[Any] = [await memories.recall(ADA, "zebra", limit=50, deliver=False)]
        told.append(await memories.list(ADA, filter=Filter(superseded=True), limit=99))
        for id in ids.values():
            told.append(await refused(memories.get(ADA, id)))
            told.append(await refused(memories.history(ADA, id)))
        return told

    before = await answers()
    assert (await memories.prune()).deleted == 4
    assert await answers() == before


@pytest.mark.parametrize("is_pruned", [False, True], ids=["expired", "erased"])
async def test_an_undo_brings_nothing_back_whose_time_is_over(store_uri: str, is_pruned: bool):
    """An undo is refused where the memory that it would bring back has expired."""
    async with await opened(store_uri) as memories:
        [old] = await memories.add(ADA, [Fact("Ada lives in Rome.", ttl_days=1)])
        [new] = await memories.add(ADA, [Fact("Ada lives in Oslo.", ttl_days=9)], replaces=old)
        later(memories, days=2)
        if is_pruned:
            await memories.prune()
        with pytest.raises(NotFound):
            await memories.undo(ADA, old)
        with pytest.raises(Conflict, match="expired"):
            await memories.undo(ADA, new)
        assert await listed(memories) == {"Ada lives in Oslo."}


async def test_what_is_let_go_after_its_time_lives_its_ttl_anew(store_uri: str):
    """Unpinning a memory whose time is over restarts its time to live."""
    async with await opened(store_uri) as memories:
        overdue, due = await memories.add(
            ADA, [Fact(f"Ada {n}.", ttl_days=n, pinned=True) for n in (3, 9)]
        )
        now = later(memories, days=5)
        assert (await memories.pin(ADA, overdue, False)).expires_at == now + 3 * DAY
        assert (await memories.pin(ADA, due, False)).expires_at == START + 9 * DAY
        assert (await memories.prune()).deleted == 0
        [undone] = await memories.undo(ADA, overdue)
        assert undone.pinned
        later(memories, days=400)
        assert await listed(memories) == {"Ada 3."}
