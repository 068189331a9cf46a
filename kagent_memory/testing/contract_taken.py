"""Taken events, and the tombstones that hold forgotten things back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ..stores.values import SESSION_END
from .fixtures import ContractPart, ScopedStore, a_memory, adding, changing, superseding, vector


class TakenContract(ContractPart):
    """An event is taken in once; what was forgotten stays forgotten until somebody asks for it."""

    async def test_taken_names_the_events_of_a_session(self, home: ScopedStore) -> None:
        """Each event counts for its session alone, among any number that is asked for."""
        await home.apply(taken=[("s", "e1"), ("s", "e2")])
        await home.apply(taken=[("t", "e1")])
        assert await home.taken("s", "e2", "e3", "e1", "e1") == {"e1", "e2"}
        assert await home.taken("t", "e1", "e2") == {"e1"}
        assert await home.taken("s") == await home.taken("other", "e1") == frozenset()
        assert await home.taken("s", *(f"x{n}" for n in range(5_000))) == frozenset()

    async def test_a_session_end_holds_until_its_next_event(self, home: ScopedStore) -> None:
        """Another session's event leaves it; taking it twice is no conflict."""
        steps = (
            ([("s", "e1"), ("s", SESSION_END)], {SESSION_END, "e1"}),
            ([("s", SESSION_END)], {SESSION_END, "e1"}),
            ([("other", "e2")], {SESSION_END, "e1"}),
            ([("s", "e2")], {"e1", "e2"}),
            ([("s", SESSION_END), ("s", "e3")], {SESSION_END, "e1", "e2"}),
        )
        for taken, expected in steps:
            await home.apply(taken=taken)
            assert await home.taken("s", SESSION_END, "e1", "e2") == expected
        assert await home.taken("other", SESSION_END) == frozenset()

    async def test_a_forgotten_memory_holds_its_events_and_text(self, home: ScopedStore) -> None:
        """Its events are held back whatever session brings them, its text in its own session; the
        rest is added.
        """
        space = await home.space()
        [gone] = await home.write("The secret.", session_id="s", event_ids=("e1", "e2"))
        await home.forget(gone.id)
        assert await home.taken("elsewhere", "e1", "e2", "e3") == {"e1", "e2"}
        memories = [
            a_memory("secretly told", session_id="t", event_ids=("e2",)),
            a_memory("the SECRET", session_id="s", event_ids=("e7",)),
            a_memory("the secret", session_id="t", event_ids=("e8",)),
            a_memory("nothing of it", session_id="t", event_ids=("e3",)),
        ]
        rows = {memory.id: vector(0, 1) for memory in memories}
        free = memories[2:]
        applied = await home.apply(
            *adding(*memories), vectors=rows, space_number=space, taken=[("s", "e1")]
        )
        assert applied.ids == (None, None, *(memory.id for memory in free))
        assert sorted(await home.contents()) == ["nothing of it", "the secret"]
        assert {id for id, _ in await home.nearest(space, 0, 1)} == {memory.id for memory in free}

    @pytest.mark.parametrize("kind", ["supersede", "merge", "update"])
    @pytest.mark.parametrize("session_id", [None, "s"])
    async def test_an_explicit_save_of_what_was_forgotten_wins(
        self, home: ScopedStore, kind: Any, session_id: str | None
    ) -> None:
        """It is stored, and changes from then on like any other."""
        [first] = await home.write("Rent is 500", session_id=session_id, event_ids=("e1",))
        await home.forget(everything=True)
        again = replace(a_memory("Rent is 500", event_ids=("e1", "e2")), session_id=session_id)
        assert await home.add(again) == (None,)
        assert await home.add(again, explicit=True) == (again.id,)
        new = a_memory("Rent is 600", session_id=session_id, event_ids=("e3",))
        update = [changing(again, kind, importance=0.9)]
        replaced = [replace(adding(new)[0], group="g"), superseding(again, new, kind, group="g")]
        applied = await home.apply(*(update if kind == "update" else replaced))
        assert None not in applied.ids
        assert await home.contents() == [first.content if kind == "update" else "Rent is 600"]
        assert (await home.get(again.id)).revision == 2

    async def test_a_held_back_event_changes_no_memory(self, home: ScopedStore) -> None:
        """Its updates and supersessions are held back too; a merge of what was kept of it is
        not.
        """
        gone, kept, old = (
            a_memory(text, event_ids=("e",) if text != "Rome" else ())
            for text in ("a", "tea", "Rome")
        )
        await home.add(gone, kept, old)
        await home.forget(gone.id)
        new, whole = a_memory("Oslo"), a_memory("tea in Rome", event_ids=("e",))
        changes = [
            changing(kept, "update", content="tea, and the secret"),
            *adding(new),
            superseding(old, new),
        ]
        applied = await home.apply(
            *(replace(change, event_ids=("e",), group="g") for change in changes)
        )
        assert applied.ids == (None, None, None)
        assert sorted(await home.contents()) == ["Rome", "tea"]
        parts = [superseding(memory, whole, "merge", group="h") for memory in (kept, old)]
        await home.apply(replace(adding(whole)[0], event_ids=("e",), group="h"), *parts)
        assert await home.contents() == ["tea in Rome"]
