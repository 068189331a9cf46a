"""A category: a free label beside the type, set and changed like it, and a filter."""

from __future__ import annotations

from kagent_memory import Fact, Filter
from memories.opening import ADA, listed, opened


async def test_a_category_is_stored_changed_and_undone(store_uri: str):
    """A category is an exact label: filtered by, edited, taken off and undone."""
    async with await opened(store_uri) as memories:
        names = ("billing", "Billing", "bill", "%", "Rechnungen 💶", None)
        facts = [Fact(f"Invoice {n} is due", category=name) for n, name in enumerate(names)]
        first, *_ = await memories.add(ADA, facts)
        for fact in facts[:-1]:
            assert await listed(memories, category=fact.category) == {fact.text}
            [hit] = await memories.recall(ADA, "due", filter=Filter(category=fact.category))
            assert (hit.memory.content, hit.memory.category) == (fact.text, fact.category)
        assert not await listed(memories, category="")
        assert not await listed(memories, category="billing", types=("episodic",))
        assert (await memories.edit(ADA, first, category="archive")).category == "archive"
        assert (await memories.edit(ADA, first, category="")).category is None
        assert (await memories.undo(ADA, first))[0].category == "archive"


async def test_a_category_is_kept_unless_another_is_named(store_uri: str):
    """Adding again and replacing keep the category unless another is named."""
    async with await opened(store_uri) as memories:

        async def after(item: Fact | str, replaces: str | None = None) -> tuple[str, str | None]:
            [id] = await memories.add(ADA, [item], replaces=replaces)
            return id, (await memories.get(ADA, id)).category

        id, category = await after(Fact("The rent is 900", category="money"))
        assert category == "money"
        assert await after("The rent is 900") == (id, "money")
        assert await after(Fact("The rent is 900", category="home")) == (id, "home")
        newer, category = await after("The rent is 950", id)
        assert category == "home"
        assert (await after(Fact("The rent is 990", category="money"), newer))[1] == "money"
