"""Taken events, and the tombstones that hold forgotten things back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ..errors import Conflict
from ..stores.base import SESSION_END, Batch, Store
from .fixtures import NOW, ContractPart, a_memory, a_scope, add, adding, changing, contents, the, vector


class TakenContract(ContractPart):
    """An event is taken in once; what was forgotten stays forgotten until somebody asks for it."""

    async def test_taken_says_which_events_were_taken_in_this_session(self, store: Store) -> None:
        scope = a_scope()
        await store.apply(scope, Batch(taken=[("s", "e1"), ("s", "e2")]), now=NOW)
        assert await store.taken(scope, "s", ["e2", "e3", "e1", "e1"]) == {"e1", "e2"}
        assert await store.taken(scope, "other", ["e1"]) == frozenset()
        assert await store.taken(scope, "s", []) == frozenset()
        assert await store.taken(scope, "s", [f"x{n}" for n in range(5_000)]) == frozenset()

    async def test_the_second_taking_of_an_event_is_a_conflict_and_writes_nothing(self, store: Store) -> None:
        scope = a_scope()
        await store.apply(scope, Batch(changes=adding(a_memory("first")), taken=[("s", "e")]), now=NOW)
        batch = Batch(changes=adding(a_memory("second")), taken=[("s", "f"), ("s", "e")])
        with pytest.raises(Conflict):
            await store.apply(scope, batch, now=NOW)
        assert await contents(store, scope) == ["first"]
        assert await store.taken(scope, "s", ["e", "f"]) == {"e"}
        await store.apply(scope, Batch(taken=[("another session", "e")]), now=NOW)

    async def test_a_sessions_end_holds_until_an_event_of_it_is_taken_in(self, store: Store) -> None:
        scope = a_scope()
        await store.apply(scope, Batch(taken=[("s", "e1"), ("s", SESSION_END)]), now=NOW)
        assert await store.taken(scope, "s", [SESSION_END, "e1"]) == {SESSION_END, "e1"}
        assert await store.taken(scope, "other", [SESSION_END]) == frozenset()
        await store.apply(scope, Batch(taken=[("s", SESSION_END)]), now=NOW)
        await store.apply(scope, Batch(taken=[("other", "e2")]), now=NOW)
        assert await store.taken(scope, "s", [SESSION_END]) == {SESSION_END}
        await store.apply(scope, Batch(taken=[("s", "e2")]), now=NOW)
        assert await store.taken(scope, "s", [SESSION_END, "e1", "e2"]) == {"e1", "e2"}
        await store.apply(scope, Batch(taken=[("s", SESSION_END), ("s", "e3")]), now=NOW)
        assert await store.taken(scope, "s", [SESSION_END]) == {SESSION_END}

    async def test_the_event_of_a_forgotten_memory_is_held_back_whatever_session_brings_it(self, store: Store) -> None:
        scope = a_scope()
        memory = a_memory("the secret", session_id="s", event_ids=("e1", "e2"))
        await add(store, scope, memory)
        await store.forget(scope, ids=[memory.id], now=NOW)
        assert await store.taken(scope, "elsewhere", ["e1", "e2", "e3"]) == {"e1", "e2"}
        reworded = a_memory("secretly told", session_id="elsewhere", event_ids=("e2",))
        innocent = a_memory("nothing of it", session_id="elsewhere", event_ids=("e3",))
        assert await add(store, scope, reworded, innocent) == (None, innocent.id)
        assert await contents(store, scope) == ["nothing of it"]

    async def test_a_forgotten_text_is_held_back_in_its_session_only(self, store: Store) -> None:
        scope = a_scope()
        memory = a_memory("The secret.", session_id="s", event_ids=("e1",))
        await add(store, scope, memory)
        await store.forget(scope, ids=[memory.id], now=NOW)
        same = a_memory("the SECRET", session_id="s", event_ids=("e7",))
        apart = a_memory("the secret", session_id="t", event_ids=("e8",))
        assert await add(store, scope, same, apart) == (None, apart.id)

    async def test_an_explicit_save_of_what_was_forgotten_wins(self, store: Store) -> None:
        scope = a_scope()
        memory = a_memory("the secret", session_id="s", event_ids=("e1",))
        await add(store, scope, memory)
        await store.forget(scope, everything=True, now=NOW)
        again = a_memory("the secret", session_id="s", event_ids=("e1",))
        assert await add(store, scope, again) == (None,)
        assert await add(store, scope, again, explicit=True) == (again.id,)
        assert await contents(store, scope) == ["the secret"]

    async def test_what_a_tombstone_holds_back_leaves_the_rest_of_its_batch(self, store: Store) -> None:
        scope = a_scope()
        space_number = (await store.add_embedding_space("hash", 2, None)).number
        gone = a_memory("gone", session_id="s", event_ids=("e",))
        await add(store, scope, gone)
        await store.forget(scope, ids=[gone.id], now=NOW)
        held, free = a_memory("gone", session_id="s", event_ids=("e",)), a_memory("free", session_id="s")
        rows = {held.id: vector(1, 0), free.id: vector(0, 1)}
        batch = Batch(changes=adding(held, free), vectors=rows, space_number=space_number, taken=[("s", "e")])
        assert (await store.apply(scope, batch, now=NOW)).ids == (None, free.id)
        assert await contents(store, scope) == ["free"]
        near = await store.view(scope, now=NOW).nearest(space_number, [vector(0, 1)], limit=9)
        assert near == [[(free.id, 1.0)]]

    @pytest.mark.parametrize("kind", ["supersede", "merge", "update"])
    @pytest.mark.parametrize("session_id", [None, "s"])
    async def test_a_forgotten_text_that_was_saved_again_changes_like_any_other(
        self, store: Store, kind: Any, session_id: str | None
    ) -> None:
        scope = a_scope()
        first, again, new = (
            a_memory(text, session_id=session_id, event_ids=events)
            for text, events in (("Rent is 500", ("e1",)), ("Rent is 500", ("e1", "e2")), ("Rent is 600", ("e3",)))
        )
        await add(store, scope, first)
        await store.forget(scope, ids=[first.id], now=NOW)
        assert await add(store, scope, again, explicit=True) == (again.id,)
        if kind == "update":
            changes = [changing(again, kind, importance=0.9)]
        else:
            retired = changing(again, kind, state="superseded", superseded_by=new.id)
            changes = [replace(change, group="g") for change in (*adding(new), retired)]
        applied = await store.apply(scope, Batch(changes=changes), now=NOW)
        assert None not in applied.ids
        assert await contents(store, scope) == (["Rent is 500"] if kind == "update" else ["Rent is 600"])
        assert (await the(store, scope, again.id)).revision == 2

    async def test_what_came_of_an_event_beside_something_forgotten_can_be_merged(self, store: Store) -> None:
        scope = a_scope()
        gone, kept, other = a_memory("secret", event_ids=("e",)), a_memory("tea", event_ids=("e",)), a_memory("Tea?")
        await add(store, scope, gone, kept, other)
        await store.forget(scope, ids=[gone.id], now=NOW)
        whole = a_memory("tea, always", event_ids=("e",))
        parts = [changing(one, "merge", state="superseded", superseded_by=whole.id) for one in (kept, other)]
        first = replace(adding(whole)[0], event_ids=("e",))
        merge = [replace(change, group="g") for change in (first, *parts)]
        assert (await store.apply(scope, Batch(changes=merge), now=NOW)).ids == (whole.id, kept.id, other.id)
        assert await contents(store, scope) == ["tea, always"]

    async def test_an_event_that_is_held_back_changes_no_memory_either(self, store: Store) -> None:
        scope = a_scope()
        gone, kept, old = a_memory("secret", event_ids=("e",)), a_memory("tea", event_ids=("e",)), a_memory("Rome")
        await add(store, scope, gone, kept, old)
        await store.forget(scope, ids=[gone.id], now=NOW)
        worded = replace(changing(kept, "update", content="tea, and the secret"), event_ids=("e",))
        new = replace(adding(a_memory("Oslo"))[0], event_ids=("e",), group="g")
        retired = changing(old, "supersede", state="superseded", superseded_by=new.memory.id)
        changes = [worded, new, replace(retired, event_ids=("e",), group="g")]
        assert (await store.apply(scope, Batch(changes=changes), now=NOW)).ids == (None, None, None)
        assert sorted(await contents(store, scope)) == ["Rome", "tea"]
