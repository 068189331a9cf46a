"""Whatever is done in one scope, no other scope sees it, moves it or loses by it."""

from __future__ import annotations

import pytest

from ..errors import NotFound
from ..records import Scope
from ..stores.base import Batch, Store
from .fixtures import HOSTILE, NOW, ContractPart, a_job, a_memory, add, adding, changing, contents, the, vector

HOME = Scope(tenant="acme", user="ann", app="notes")
NEIGHBOURS = {
    "tenant": Scope(tenant="other", user="ann", app="notes"),
    "user": Scope(tenant="acme", user="bob", app="notes"),
    "app": Scope(tenant="acme", user="ann", app="other"),
    "longer tenant": Scope(tenant="acme-corp", user="ann", app="notes"),
    "shorter user": Scope(tenant="acme", user="an", app="notes"),
    "case": Scope(tenant="Acme", user="ann", app="notes"),
    "trailing space": Scope(tenant="acme", user="ann ", app="notes"),
    "swapped": Scope(tenant="ann", user="acme", app="notes"),
    "any tenant": Scope(tenant="%", user="%", app="%"),
    "one letter": Scope(tenant="acm_", user="an_", app="note_"),
    "empty tenant": Scope(tenant="", user="ann", app="notes"),
    "all empty": Scope(tenant="", user="", app=""),
}
LOOKALIKES = {
    "separator": (Scope(tenant="a::b", user="c", app="d"), Scope(tenant="a", user="b::c", app="d")),
    "slash": (Scope(tenant="a", user="b/c", app="d"), Scope(tenant="a", user="b", app="c/d")),
    "joined": (Scope(tenant="ab", user="c", app=""), Scope(tenant="a", user="bc", app="")),
    "moved": (Scope(tenant="", user="x", app=""), Scope(tenant="x", user="", app="")),
    "composed": (Scope(tenant="t", user="\u00e9", app="d"), Scope(tenant="t", user="e\u0301", app="d")),
    "very long": (Scope(tenant="t" * 1023 + "a", user="u", app="d"), Scope("t" * 1023 + "b", "u", "d")),
}
PAIRS = [
    *(pytest.param(HOME, other, id=name) for name, other in NEIGHBOURS.items()),
    *(pytest.param(one, other, id=name) for name, (one, other) in LOOKALIKES.items()),
]


class IsolationContract(ContractPart):
    """Invariant 1, for every verb that takes a scope."""

    @pytest.mark.parametrize(("home", "other"), PAIRS)
    async def test_no_read_shows_what_another_scope_holds(self, store: Store, home: Scope, other: Scope) -> None:
        space_number = (await store.add_embedding_space("hash", 2, None)).number
        unused = (await store.add_embedding_space("another", 2, None)).number
        memory = a_memory("the tea is green", session_id="s", event_ids=("e",))
        batch = Batch(
            changes=[*adding(memory)], vectors={memory.id: vector(1, 0)}, space_number=space_number, taken=[("s", "e")]
        )
        await store.apply(home, batch, now=NOW)
        await store.apply(home, Batch(changes=[changing(memory, importance=0.9)]), now=NOW)
        await store.enqueue([a_job(home)])
        ids = [memory.id]

        assert await store.get(other, ids, now=NOW, superseded=True) == {}
        assert await contents(store, other) == []
        assert await store.view(other, now=NOW).nearest(space_number, [vector(1, 0)], limit=9) == [[]]
        found = await store.view(other, now=NOW).text(["tea", "green"], limit=9)
        assert (found.documents, found.average_length, found.frequencies, found.matches) == (0, 0.0, {}, {})
        assert list(await store.view(other, now=NOW).features(ids, reach=3)) == []
        assert await store.taken(other, "s", ["e"]) == frozenset()
        assert list(await store.history(other, memory.id)) == []
        assert list(await store.unembedded(other, unused, limit=9, now=NOW)) == []
        assert list(await store.jobs(scope=other)) == []
        assert await store.version(other) == 0
        stats = await store.stats(other, now=NOW)
        assert (stats.visible, stats.version, dict(stats.jobs)) == (0, 0, {})
        assert list(await store.scopes()) == [home]
        assert await contents(store, home) == ["the tea is green"]

    @pytest.mark.parametrize(("home", "other"), [(HOME, NEIGHBOURS["user"]), *LOOKALIKES.values()])
    async def test_no_write_reaches_into_another_scope(self, store: Store, home: Scope, other: Scope) -> None:
        space_number = (await store.add_embedding_space("hash", 2, None)).number
        memory = a_memory("the tea is green", session_id="s", event_ids=("e",))
        await add(store, home, memory)
        version = await store.version(home)
        stored = await the(store, home, memory.id)

        with pytest.raises(NotFound):
            await store.apply(other, Batch(changes=[changing(memory, content="stolen")]), now=NOW)
        with pytest.raises(NotFound):
            await store.feedback(other, memory.id, success=True)
        await store.deliver(other, retrieved=[memory.id], delivered=[memory.id], now=NOW)
        await store.apply(other, Batch(vectors={memory.id: vector(1, 0)}, space_number=space_number), now=NOW)
        assert await store.forget(other, ids=[memory.id], now=NOW) == ()
        assert await store.forget(other, session_id="s", now=NOW) == ()
        assert await store.forget(other, everything=True, now=NOW) == ()

        assert await the(store, home, memory.id) == stored
        assert await store.version(home) == version
        assert [m.id for m in await store.unembedded(home, space_number, limit=9, now=NOW)] == [memory.id]
        assert await store.taken(home, "s", ["e"]) == frozenset()

    async def test_any_text_may_be_a_part_of_a_scope(self, store: Store) -> None:
        for part in HOSTILE:
            scope = Scope(tenant=part, user=part, app=part)
            await add(store, scope, a_memory("kept"))
            assert await contents(store, scope) == ["kept"]
            assert list(await store.scopes(tenant=part)) == [scope]

    async def test_an_id_a_text_and_an_event_of_two_scopes_are_two(self, store: Store) -> None:
        for home, other in ((HOME, NEIGHBOURS["user"]), *LOOKALIKES.values()):
            memory = a_memory("the tea is green")
            batch = Batch(changes=adding(memory), taken=[("s", "e")])
            for scope in (home, other):
                assert (await store.apply(scope, batch, now=NOW)).ids == (memory.id,)
            assert await store.forget(home, everything=True, now=NOW) == (memory.id,)
            assert await contents(store, home) == []
            assert await contents(store, other) == ["the tea is green"]
