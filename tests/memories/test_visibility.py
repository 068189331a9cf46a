"""Invariant 6: what expired, was superseded, quarantined or forgotten is seen through no verb,
pruned or not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from server.ground import START, Clock, client_of, served

from kagent_memory.errors import Conflict, NotFound
from kagent_memory.memories import Memories
from kagent_memory.records import Change, Fact, Filter, Memory, Scope
from kagent_memory.remote import RemoteMemories
from kagent_memory.stores.base import Batch
from kagent_memory.testing import HashEmbedder
from memories.opening import opened

SCOPE = Scope("", "ada", "desk")
DAY = timedelta(days=1)
SEEN = {"active", "endless", "pinned", "pinned past its ttl"}
HISTORIES = {*SEEN, "superseded", "superseded, pinned past its ttl", "quarantined"}
STATES = """
active
endless
pinned
pinned past its ttl
expired
expired at this moment
superseded
superseded and expired
superseded, pinned past its ttl
quarantined
quarantined and expired
forgotten
""".strip().splitlines()


def content_of(state: str) -> str:
    return f"The zebra is {state}."


def fact_of(state: str) -> Fact:
    ttls = {"endless": 0, "at this moment": 5, "expired": 2, "past": 2}
    ttl = next((days for words, days in ttls.items() if words in state), 90)
    return Fact(
        content_of(state), ttl_days=ttl, pinned="pinned" in state, tags=("z",), session_id="s"
    )


async def populate(memories: Memories, clock: Clock) -> dict[str, str]:
    """One memory of each state, edited once so that it has a history; the clock then stands five
    days on.
    """
    ids = dict(
        zip(STATES, await memories.add(SCOPE, [fact_of(state) for state in STATES]), strict=True)
    )
    for id in ids.values():
        await memories.edit(SCOPE, id, importance=0.75, why="a history")
    stored = await memories.store.memories.get(
        SCOPE, list(ids.values()), now=clock(), superseded=True
    )
    for state in ("superseded", "quarantined"):
        changes = [
            retired(stored[ids[name]], state, ids["active"])
            for name in STATES
            if name.startswith(state)
        ]
        await memories.store.apply(SCOPE, Batch(changes=changes), now=clock())
    await memories.forget(SCOPE, ids["forgotten"])
    clock.forward(days=5)
    return ids


def retired(memory: Memory, state: Any, by: str) -> Change:
    changed = replace(
        memory, state=state, superseded_by=by if state == "superseded" else None, revision=3
    )
    return Change(kind="supersede", memory=changed)


@dataclass
class Ground:
    """The verbs under test, and the memories of each state behind them."""

    verbs: Memories | RemoteMemories
    inside: Memories
    ids: dict[str, str]
    clock: Clock

    def names(self, ids: Any) -> set[str]:
        known = {id: state for state, id in self.ids.items()}
        return {known[id] for id in ids}


@pytest.fixture(params=["in process", "over HTTP"])
async def ground(request: pytest.FixtureRequest, store_uri: str) -> AsyncIterator[Ground]:
    clock = Clock()
    opening = partial(opened, store_uri, clock=clock, embedding=HashEmbedder())
    async with await opening() as inside:
        ids = await populate(inside, clock)
        if request.param == "in process":
            yield Ground(inside, inside, ids, clock)
            return
        with served(opening) as address:
            async with await RemoteMemories.open(address) as remote:
                yield Ground(remote, inside, ids, clock)


async def refused(verb: Any, error: type[Exception] = NotFound) -> bool:
    try:
        await verb
    except error:
        return True
    return False


async def test_verbs_by_id_know_no_memory_out_of_sight(ground: Ground) -> None:
    """Get history feedback edit and pin know no memory that is out of sight."""
    verbs = ground.verbs
    for state, id in ground.ids.items():
        seen = state in SEEN
        assert await refused(verbs.get(SCOPE, id)) is not seen, state
        assert await refused(verbs.feedback(SCOPE, id, success=True)) is not seen, state
        assert await refused(verbs.history(SCOPE, id)) is (state not in HISTORIES), state
        assert await refused(verbs.edit(SCOPE, id, importance=0.5)) is not seen, state
        assert await refused(verbs.pin(SCOPE, id)) is not seen, state
        assert await refused(verbs.add(SCOPE, [f"Instead of {state}"], replaces=id)) is not seen, (
            state
        )
    usage = await ground.inside.store.memories.get(
        SCOPE, list(ground.ids.values()), now=START, superseded=True
    )
    assert {
        state for state, id in ground.ids.items() if id in usage and usage[id].usage.successes
    } == SEEN


async def test_undo_takes_nothing_back_of_what_is_out_of_sight(ground: Ground) -> None:
    for state, id in ground.ids.items():
        assert await refused(ground.verbs.undo(SCOPE, id)) is (state not in HISTORIES), state


async def test_lists_and_searches_give_what_is_visible(ground: Ground) -> None:
    """Lists and searches of every mode give what is visible and nothing else."""
    verbs = ground.verbs
    narrow = (
        Filter(),
        Filter(tags=("z",)),
        Filter(session_id="s", min_importance=0.1),
        Filter(superseded=True),
    )
    for order in ("newest", "oldest"):
        found = await verbs.list(SCOPE, order=order, limit=99)
        assert ground.names(one.id for one in found.memories) == SEEN
    everything = await verbs.list(SCOPE, filter=Filter(superseded=True), limit=99)
    assert ground.names(one.id for one in everything.memories) == HISTORIES
    vector = (await HashEmbedder().embed(["zebra"], kind="query"))[0]
    for filter in narrow:
        for query in (
            "Which zebra is there?",
            "zebra",
            "zebra expired superseded forgotten quarantined",
        ):
            hits = await verbs.recall(SCOPE, query, limit=50, filter=filter)
            assert ground.names(hit.memory.id for hit in hits) == SEEN, (filter, query)
    assert not await verbs.recall(SCOPE, "", embedding=vector)  # no vectors of callers here
    listed = await verbs.list(SCOPE, order="oldest", limit=99)
    assert {one.pinned for one in listed.memories[-2:]} | {listed.memories[0].pinned} == {
        True,
        False,
    }


async def test_an_explanation_holds_no_words_of_what_was_left_out(ground: Ground) -> None:
    """What explains a search names what was left out and none of its words."""
    found = await ground.verbs.recall(SCOPE, "Which zebra is there?", limit=50, explain=True)
    assert ground.names(hit.memory.id for hit in found) == SEEN
    reasons = {
        state: out.reason for out in found.left_out for state in ground.names([out.memory_id])
    }
    assert set(reasons) == set(STATES) - SEEN - {"forgotten"}
    assert {state for state, reason in reasons.items() if reason == "expired"} == {
        "expired",
        "expired at this moment",
    }
    assert "expired" not in repr(found.hits)


async def test_the_counts_are_of_what_is_visible(ground: Ground) -> None:
    stats = await ground.verbs.stats(SCOPE)
    assert (stats.visible, stats.pinned, stats.expired, stats.superseded) == (4, 2, 2, 3)
    assert sum(stats.by_type.values()) == 4


async def test_a_prune_changes_nothing_of_what_verbs_answer(ground: Ground) -> None:
    async def answers() -> list[Any]:
        told: list[Any] = [await ground.verbs.recall(SCOPE, "zebra", limit=50, deliver=False)]
        told.append(await ground.verbs.list(SCOPE, filter=Filter(superseded=True), limit=99))
        for id in ground.ids.values():
            told += [
                await refused(ground.verbs.get(SCOPE, id)),
                await refused(ground.verbs.history(SCOPE, id)),
            ]
        return told

    before = await answers()
    assert (await ground.inside.prune()).deleted == 4
    assert await answers() == before


@pytest.mark.parametrize("pruned", [False, True])
async def test_an_undo_brings_nothing_back_whose_time_is_over(store_uri: str, pruned: bool) -> None:
    clock = Clock()
    async with await opened(store_uri, clock=clock) as memories:
        [old] = await memories.add(SCOPE, [Fact("Ada lives in Rome.", ttl_days=1)])
        [new] = await memories.add(SCOPE, [Fact("Ada lives in Oslo.", ttl_days=9)], replaces=old)
        clock.forward(days=2)
        if pruned:
            await memories.prune()
        with pytest.raises(NotFound):
            await memories.undo(SCOPE, old)
        with pytest.raises(Conflict, match="expired"):
            await memories.undo(SCOPE, new)
        assert [one.content for one in (await memories.list(SCOPE)).memories] == [
            "Ada lives in Oslo."
        ]


async def test_what_is_let_go_after_its_time_lives_its_ttl_anew(store_uri: str) -> None:
    clock = Clock()
    async with await opened(store_uri, clock=clock) as memories:
        ids = await memories.add(
            SCOPE,
            [
                Fact("Ada rows.", ttl_days=3, pinned=True),
                Fact("Ada runs.", ttl_days=9, pinned=True),
            ],
        )
        clock.forward(days=5)
        assert (await memories.pin(SCOPE, ids[0], False)).expires_at == clock() + 3 * DAY
        assert (await memories.pin(SCOPE, ids[1], False)).expires_at == START + 9 * DAY
        assert (await memories.prune()).deleted == 0
        assert len((await memories.list(SCOPE)).memories) == 2
        [undone] = await memories.undo(SCOPE, ids[0])
        assert undone.pinned
        clock.forward(days=400)
        assert [one.id for one in (await memories.list(SCOPE)).memories] == [ids[0]]


async def test_pages_and_kagents_routes_show_what_is_visible() -> None:
    """Pages and kagent's routes show nothing that is out of sight."""
    clock = Clock()
    async with await opened(clock=clock) as memories:
        ids = await populate(memories, clock)
        async with client_of(memories, clock) as client:
            whose = {"app": SCOPE.app, "user": SCOPE.user}
            hidden = [state for state in STATES if state not in SEEN]
            for address in ("/memories", "/dashboard", "/memories?q=zebra"):
                told = (await client.get(address, params=whose)).text
                assert not any(content_of(state) in told for state in hidden), address
            for state, id in ids.items():
                answer = await client.get(f"/memories/{id}", params=whose)
                assert (answer.status_code == 200) is (state in HISTORIES), state
            listed = await client.get(
                "/api/memories", params={"agent_name": SCOPE.app, "user_id": SCOPE.user}
            )
            assert listed.status_code == 200
            assert {one["id"] for one in listed.json()} == {ids[state] for state in SEEN}
            assert {one["id"] for one in listed.json() if "expires_at" in one} == {ids["active"]}
