"""Whatever is done in one scope, no other scope sees it, moves it or loses by it."""

from __future__ import annotations

import pytest

from ..errors import NotFound
from ..records import Scope
from .fixtures import ContractPart, ScopedStore, a_memory, adding, changing, vector

HOME = Scope(tenant="acme", user="ann", app="notes")
PAIRS = {
    "tenant": (HOME, Scope("other", "ann", "notes")),
    "user": (HOME, Scope("acme", "bob", "notes")),
    "app": (HOME, Scope("acme", "ann", "other")),
    "longer": (HOME, Scope("acme-corp", "ann", "notes")),
    "shorter": (HOME, Scope("acme", "an", "notes")),
    "case": (HOME, Scope("Acme", "ann", "notes")),
    "trailing space": (HOME, Scope("acme", "ann ", "notes")),
    "swapped": (HOME, Scope("ann", "acme", "notes")),
    "any": (HOME, Scope("%", "%", "%")),
    "one letter": (HOME, Scope("acm_", "an_", "note_")),
    "empty": (HOME, Scope("", "", "")),
    "separator": (Scope("a::b", "c", "d"), Scope("a", "b::c", "d")),
    "slash": (Scope("a", "b/c", "d"), Scope("a", "b", "c/d")),
    "joined": (Scope("ab", "c", ""), Scope("a", "bc", "")),
    "moved": (Scope("", "x", ""), Scope("x", "", "")),
    "composed": (Scope("t", "\u00e9", "d"), Scope("t", "e\u0301", "d")),
    "very long": (Scope("t" * 1023 + "a", "u", "d"), Scope("t" * 1023 + "b", "u", "d")),
}


class IsolationContract(ContractPart):
    """Invariant 1, for every verb that takes a scope."""

    @pytest.mark.parametrize("pair", PAIRS)
    async def test_no_verb_reaches_into_another_scope(self, home: ScopedStore, pair: str) -> None:
        """No read shows what another scope holds, and no write changes it."""
        home, other = map(home.elsewhere, PAIRS[pair])
        space, unused = await home.space(), await home.space(name="unused")
        memory = a_memory("the tea is green", session_id="s", event_ids=("e",))
        rows = {memory.id: vector(1, 0)}
        await home.apply(*adding(memory), vectors=rows, space_number=space, taken=[("s", "e")])
        await home.change(memory, importance=0.9)
        job, stored, version = await home.enqueue(), await home.get(memory.id), await home.version()

        assert await other.visible(memory.id, superseded=True) == set()
        assert await other.contents() == await other.unembedded(unused) == await other.jobs() == []
        assert await other.nearest(space, 1, 0) == []
        found = await other.text("tea", "green")
        assert (found.documents, found.average_length, found.frequencies, found.matches) == (
            0,
            0.0,
            {},
            {},
        )
        assert await other.features(memory.id, reach=3) == []
        assert await other.taken("s", "e") == frozenset()
        assert list(await home.store.memories.history(other.scope, memory.id)) == []
        stats = await other.stats()
        assert (stats.visible, stats.version, dict(stats.jobs)) == (0, 0, {})
        assert list(await home.store.scopes()) == [home.scope]

        with pytest.raises(NotFound):
            await other.apply(changing(stored, content="stolen"))
        with pytest.raises(NotFound):
            await home.store.memories.feedback(other.scope, memory.id, success=True)
        await other.deliver(memory.id)
        await other.embed(unused, {memory.id: (1, 0)})
        assert await other.forget(memory.id) == await other.forget(session_id="s") == ()
        assert await other.forget(everything=True) == ()
        assert await home.get(memory.id) == stored
        assert (await home.version(), await home.jobs()) == (version, [job])
        assert await home.unembedded(unused) == [memory.id]

    @pytest.mark.parametrize("pair", ["user", "separator", "joined", "composed", "very long"])
    async def test_the_same_id_in_two_scopes_is_two_memories(
        self, home: ScopedStore, pair: str
    ) -> None:
        """Two scopes may hold the same id, text and event; forgetting one leaves the other."""
        memory = a_memory("the tea is green", event_ids=("e",))
        home, other = map(home.elsewhere, PAIRS[pair])
        for scope in (home, other):
            assert (await scope.apply(*adding(memory), taken=[("s", "e")])).ids == (memory.id,)
        assert await home.forget(everything=True) == (memory.id,)
        assert await home.contents() == []
        assert await other.contents() == ["the tea is green"]
