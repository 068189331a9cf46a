"""Invariant 6: what expired, was superseded, quarantined or forgotten is seen through no verb,
pruned or not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from server.ground import client_of, served

from kagent_memory import Change, Fact, Filter, Memories, Scope
from kagent_memory.errors import Conflict, NotFound
from kagent_memory.remote import RemoteMemories
from kagent_memory.stores.values import Batch
from kagent_memory.testing import FrozenClock, HashEmbedder
from memories.opening import DAY, START, later, listed, opened

SCOPE = Scope("", "ada", "desk")
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
    added = await memories.add(SCOPE, [fact_of(state) for state in STATES])
    ids = dict(zip(STATES, added, strict=True))
    for id in added:
        await memories.edit(SCOPE, id, importance=0.75, why="a history")
    store, now = memories.store, memories.parts.clock()
    stored = await store.memories.get(SCOPE, added, now=now, superseded=True)
    for name in STATES:
        state: Any = name.split(",")[0].split(" ")[0]
        if state in ("superseded", "quarantined"):
            by = ids["active"] if state == "superseded" else None
            changed = replace(stored[ids[name]], state=state, superseded_by=by, revision=3)
            batch = Batch(changes=[Change(kind="supersede", memory=changed)])
            await store.apply(SCOPE, batch, now=now)
    await memories.forget(SCOPE, ids["forgotten"])
    later(memories, days=5)
    return ids


class Filled:
    """The verbs under test, and the memories of each state behind them."""

    def __init__(self, verbs: Memories, inside: Memories, ids: dict[str, str]) -> None:
        self.verbs, self.inside, self.ids = verbs, inside, ids

    def states(self, ids: Any) -> set[str]:
        known = {id: state for state, id in self.ids.items()}
        return {known[id] for id in ids}


@pytest.fixture(params=["in process", "over HTTP"])
async def filled(request: pytest.FixtureRequest, store_uri: str) -> AsyncIterator[Filled]:
    opening = partial(opened, store_uri, clock=FrozenClock(START), embedding=HashEmbedder())
    async with await opening() as inside:
        ids = await fill(inside)
        if request.param == "in process":
            yield Filled(inside, inside, ids)
            return
        with served(opening) as address:
            async with await RemoteMemories.open(address) as remote:
                yield Filled(remote, inside, ids)


async def refused(verb: Any) -> bool:
    try:
        await verb
    except NotFound:
        return True
    return False


async def test_verbs_by_id_know_no_memory_out_of_sight(filled: Filled) -> None:
    """No verb that takes an id finds a memory out of sight; history and undo know the retired."""
    verbs = filled.verbs
    for state, id in filled.ids.items():
        is_hidden = state not in SEEN
        for attempt in (
            verbs.get(SCOPE, id),
            verbs.feedback(SCOPE, id, success=True),
            verbs.edit(SCOPE, id, importance=0.5),
            verbs.pin(SCOPE, id),
            verbs.add(SCOPE, [f"Instead of {state}"], replaces=id),
        ):
            assert await refused(attempt) is is_hidden, state
        for attempt in (verbs.history(SCOPE, id), verbs.undo(SCOPE, id)):
            assert await refused(attempt) is (state not in HISTORIES), state
    usage = await filled.inside.store.memories.get(
        SCOPE, [*filled.ids.values()], now=START, superseded=True
    )
    counted = {id for id, memory in usage.items() if memory.usage.successes}
    assert filled.states(counted) == SEEN


async def test_lists_and_searches_give_what_is_visible(filled: Filled) -> None:
    """Lists, counts and searches of every mode give what is visible and nothing else."""
    verbs = filled.verbs
    for order in ("newest", "oldest"):
        found = await verbs.list(SCOPE, order=order, limit=99)
        assert filled.states(one.id for one in found.memories) == SEEN
    everything = await verbs.list(SCOPE, filter=Filter(superseded=True), limit=99)
    assert filled.states(one.id for one in everything.memories) == HISTORIES
    for filter in (Filter(), Filter(session_id="s", tags=("z",)), Filter(superseded=True)):
        for query in ("Which zebra is there?", "zebra expired superseded forgotten quarantined"):
            hits = await verbs.recall(SCOPE, query, limit=50, filter=filter)
            assert filled.states(hit.memory.id for hit in hits) == SEEN, (filter, query)
    vector = (await HashEmbedder().embed(["zebra"], kind="query"))[0]
    assert not await verbs.recall(SCOPE, "", embedding=vector)  # no vectors of callers here
    stats = await verbs.stats(SCOPE)
    assert (stats.visible, stats.pinned, stats.expired, stats.superseded) == (4, 2, 2, 3)
    assert sum(stats.by_type.values()) == 4


async def test_an_explanation_holds_no_words_of_what_was_left_out(filled: Filled) -> None:
    """What explains a search names what was left out and none of its words."""
    found = await filled.verbs.recall(SCOPE, "Which zebra is there?", limit=50, explain=True)
    assert filled.states(hit.memory.id for hit in found) == SEEN
    reasons = {
        state: out.reason for out in found.left_out for state in filled.states([out.memory_id])
    }
    assert reasons.keys() == HIDDEN - {"forgotten"}
    assert all(state.startswith(reason) for state, reason in reasons.items())
    assert "expired" not in repr(found.hits)


async def test_a_prune_changes_nothing_of_what_verbs_answer(filled: Filled) -> None:
    """What expired is as gone before a prune as after it."""

    async def answers() -> list[Any]:
        told: list[Any] = [await filled.verbs.recall(SCOPE, "zebra", limit=50, deliver=False)]
        told.append(await filled.verbs.list(SCOPE, filter=Filter(superseded=True), limit=99))
        for id in filled.ids.values():
            told.append(await refused(filled.verbs.get(SCOPE, id)))
            told.append(await refused(filled.verbs.history(SCOPE, id)))
        return told

    before = await answers()
    assert (await filled.inside.prune()).deleted == 4
    assert await answers() == before


@pytest.mark.parametrize("is_pruned", [False, True], ids=["expired", "erased"])
async def test_an_undo_brings_nothing_back_whose_time_is_over(
    store_uri: str, is_pruned: bool
) -> None:
    """An undo is refused where the memory that it would bring back has expired."""
    async with await opened(store_uri, clock=FrozenClock(START)) as memories:
        [old] = await memories.add(SCOPE, [Fact("Ada lives in Rome.", ttl_days=1)])
        [new] = await memories.add(SCOPE, [Fact("Ada lives in Oslo.", ttl_days=9)], replaces=old)
        later(memories, days=2)
        if is_pruned:
            await memories.prune()
        with pytest.raises(NotFound):
            await memories.undo(SCOPE, old)
        with pytest.raises(Conflict, match="expired"):
            await memories.undo(SCOPE, new)
        assert await listed(memories, SCOPE) == {"Ada lives in Oslo."}


async def test_what_is_let_go_after_its_time_lives_its_ttl_anew(store_uri: str) -> None:
    """Unpinning a memory whose time is over restarts its time to live."""
    async with await opened(store_uri, clock=FrozenClock(START)) as memories:
        overdue, due = await memories.add(
            SCOPE, [Fact(f"Ada {n}.", ttl_days=n, pinned=True) for n in (3, 9)]
        )
        now = later(memories, days=5)
        assert (await memories.pin(SCOPE, overdue, False)).expires_at == now + 3 * DAY
        assert (await memories.pin(SCOPE, due, False)).expires_at == START + 9 * DAY
        assert (await memories.prune()).deleted == 0
        [undone] = await memories.undo(SCOPE, overdue)
        assert undone.pinned
        later(memories, days=400)
        assert await listed(memories, SCOPE) == {"Ada 3."}


async def test_pages_and_kagents_routes_show_what_is_visible() -> None:
    """Pages and kagent's routes show nothing that is out of sight."""
    clock = FrozenClock(START)
    async with await opened(clock=clock) as memories, client_of(memories, clock) as client:
        ids = await fill(memories)
        whose = {"app": SCOPE.app, "user": SCOPE.user}
        for address in ("/memories", "/dashboard", "/memories?q=zebra"):
            told = (await client.get(address, params=whose)).text
            assert not any(fact_of(state).text in told for state in HIDDEN), address
        for state, id in ids.items():
            answer = await client.get(f"/memories/{id}", params=whose)
            assert (answer.status_code == 200) is (state in HISTORIES), state
        agent = {"agent_name": SCOPE.app, "user_id": SCOPE.user}
        rows = (await client.get("/api/memories", params=agent)).json()
        assert {one["id"] for one in rows} == {ids[state] for state in SEEN}
        assert {one["id"] for one in rows if "expires_at" in one} == {ids["active"]}
