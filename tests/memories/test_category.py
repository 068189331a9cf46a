"""A category: a free label beside the type, set and changed like it, and a filter."""

from __future__ import annotations

from kagent_memory import Fact, Filter, Scope
from memories.opening import opened

SCOPE = Scope("acme", "ada", "desk")


async def test_a_category_is_stored_changed_and_undone(store_uri: str):
    """A category is stored filtered changed taken off and undone."""
    async with await opened(store_uri) as memories:
        names = ("billing", "Billing", "bill", "%", "Rechnungen 💶", None)
        ids = await memories.add(
            SCOPE, [Fact(f"Invoice {n} is due", category=name) for n, name in enumerate(names)]
        )
        for id, name in zip(ids, names, strict=True):
            assert (await memories.get(SCOPE, id)).category == name
            if name is not None:
                only = Filter(category=name)
                [listed] = (await memories.list(SCOPE, filter=only)).memories
                [hit] = await memories.recall(SCOPE, "invoice due", filter=only)
                assert listed.id == hit.memory.id == id
        assert not await memories.recall(SCOPE, "invoice due", filter=Filter(category=""))
        both = Filter(category="billing", types=("episodic",))
        assert not (await memories.list(SCOPE, filter=both)).memories

        changed = await memories.edit(SCOPE, ids[0], category="archive")
        assert (changed.category, changed.content, changed.revision) == (
            "archive",
            "Invoice 0 is due",
            2,
        )
        assert (await memories.edit(SCOPE, ids[0], importance=0.9)).category == "archive"
        assert (await memories.edit(SCOPE, ids[0], category="")).category is None
        assert (await memories.undo(SCOPE, ids[0]))[0].category == "archive"
        assert [
            one.before and one.before.category for one in await memories.history(SCOPE, ids[0])
        ] == [
            "billing",
            "archive",
            "archive",
            None,
        ]


async def test_a_category_is_kept_unless_another_is_named(store_uri: str):
    """Adding again and replacing keep the category unless another is named."""
    async with await opened(store_uri) as memories:
        [id] = await memories.add(SCOPE, [Fact("The rent is 900", category="money")])
        assert await memories.add(SCOPE, ["The rent is 900"]) == [id]
        assert (await memories.get(SCOPE, id)).category == "money"
        assert await memories.add(SCOPE, [Fact("The rent is 900", category="home")]) == [id]
        assert (await memories.get(SCOPE, id)).category == "home"
        [next_] = await memories.add(SCOPE, ["The rent is 950"], replaces=id)
        assert (await memories.get(SCOPE, next_)).category == "home"
        [last] = await memories.add(
            SCOPE, [Fact("The rent is 990", category="money")], replaces=next_
        )
        assert (await memories.get(SCOPE, last)).category == "money"
