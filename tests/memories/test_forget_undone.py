"""A forgotten memory takes along everything with its words, even if the decision was undone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from kagent_memory import Change, Fact, Memories, Memory
from kagent_memory.records import new_id
from kagent_memory.stores.values import Batch
from kagent_memory.testing import HashEmbedder
from memories.opening import ADA, CANARY, HOUR, TickingClock, kept_ids, merged, opened, past_of

TOLD = f"Ada has a cat called {CANARY}"


class Ground:
    """One scope of a store, and decisions as consolidation makes them."""

    def __init__(self, memories: Memories) -> None:
        self.memories = memories

    async def add(self, *facts: Fact | str) -> list[str]:
        return [id for fact in facts for id in await self.memories.add(ADA, [fact])]

    async def of(self, id: str) -> Memory:
        return await self.memories.get(ADA, id, superseded=True)

    async def make(self, text: str, *ids: str) -> str:
        """A memory that all of these are merged into."""
        return await merged(self.memories, ids, text)

    async def unite(self, text: str, into: str, *ids: str) -> None:
        """Merges these into a memory that is there, and which says something else from then on."""
        sources, target = [await self.of(id) for id in ids], await self.of(into)
        events = (*target.event_ids, *(event for source in sources for event in source.event_ids))
        wider = replace(
            target, content=text, event_ids=events, tags=("pets",), revision=target.revision + 1
        )
        now, group = self.memories.clock(), new_id()
        merges = [
            Change(kind="merge", memory=past, group=group) for past in past_of(sources, into, now)
        ]
        first = Change(kind="update", memory=wider, event_ids=events, group=group)
        await self.memories.store.apply(ADA, Batch(changes=[first, *merges]), now=now)

    async def undo(self, *ids: str) -> None:
        for id in ids:
            await self.memories.undo(ADA, id)

    async def forget(self, id: str) -> set[str]:
        would = await self.memories.forget(ADA, id, dry_run=True)
        assert (await self.memories.forget(ADA, id)).ids == would.ids
        return set(would)

    async def current(self) -> set[str]:
        return {memory.id for memory in (await self.memories.list(ADA)).memories}

    async def said(self) -> str:
        """Everything that the store keeps of the scope, history too."""
        every = await kept_ids(self.memories)
        return str(await self.memories.store.memories.whole(ADA, every))


@pytest.fixture
async def memories(store_uri: str, tmp_path: Path) -> AsyncIterator[Memories]:
    """A store; at its end none of its files holds the canary."""
    options = {"embedding": HashEmbedder(16), "policy": "archive"}
    async with await opened(store_uri, clock=TickingClock(HOUR), **options) as memories:
        yield memories
    assert not [path for path in tmp_path.iterdir() if CANARY.encode() in path.read_bytes()]


@pytest.fixture
def ground(memories: Memories) -> Ground:
    return Ground(memories)


async def test_an_undone_merge_holds_back_what_it_came_from(memories, ground):
    """Forgotten by its own id it holds back the events of all that it was made of, which stays."""
    cat, dog = await ground.add(Fact("a cat", event_ids=("e1",)), Fact("a dog", event_ids=("e2",)))
    pets = await ground.make("a cat and a dog", cat, dog)
    await ground.undo(pets)
    row = await ground.of(pets)
    assert await ground.forget(pets) == {pets}
    assert await ground.current() == {cat, dog}
    changes = [
        Change(
            kind="add",
            memory=replace(row, id=new_id(), content=text, event_ids=(event,), superseded_by=None),
        )
        for event, text in {"e1": "a hound", "e2": "a puppy", "e3": "a carp"}.items()
    ]
    applied = await memories.store.apply(ADA, Batch(changes=changes), now=memories.clock())
    assert [id is not None for id in applied] == [False, False, True]


async def test_what_they_were_merged_into_stays_without_its_history(memories, ground):
    """A memory that took in a forgotten one and gave it back stays as it is, and tells no more of
    what it was; what was made of it meanwhile goes.
    """
    cat, secret, bird = await ground.add(
        "Ada has a cat", Fact(TOLD, event_ids=("heard-of-it",), session_id="s1"), "Ada has a bird"
    )
    await memories.edit(ADA, cat, importance=0.9)
    await ground.unite(TOLD + " indeed", cat, secret)
    await memories.edit(ADA, cat, content=f"{CANARY} is Ada's cat")
    zoo = await ground.make(f"Ada has a cat, {CANARY}, and a bird", cat, bird)
    await ground.undo(zoo, cat, cat)
    assert await ground.current() == {cat, secret, bird}
    before = await ground.of(cat)
    assert await ground.forget(secret) == {secret, zoo}
    assert await ground.of(cat) == before
    assert not await memories.history(ADA, cat)
    assert CANARY not in await ground.said()
    assert "heard-of-it" not in await ground.said()
    assert await ground.forget(cat) == {cat}


async def test_what_took_their_place_and_was_undone(memories, ground):
    """A withdrawn successor goes with the forgotten memory that it had replaced."""
    [secret] = await ground.add(TOLD)
    (worse,) = await memories.add(
        ADA, [f"Ada had a cat, {CANARY}, and gave it away"], replaces=secret
    )
    assert set(await memories.forget(ADA, secret, dry_run=True)) == {secret}
    await ground.undo(worse)
    (better,) = await memories.add(ADA, ["Ada has no cat"], replaces=secret)
    assert await ground.forget(secret) == {secret, worse}
    assert await ground.current() == {better}
    assert CANARY not in await ground.said()


async def test_an_import_leaves_out_what_forgetting_takes_along(memories, ground, tmp_path):
    """An import leaves out what was forgotten there, with all that forgetting it here takes."""
    secret, dog, oslo, cat, rows = await ground.add(
        TOLD, "Ada has a dog", "Ada was in Oslo", "Ada has a cat", "Ada rows at dawn"
    )
    pets = await ground.make(f"Ada has {CANARY} and a dog", secret, dog)
    life = await ground.make(f"Ada has {CANARY} and a dog, and travels", pets, oslo)
    await ground.undo(life)
    await ground.undo(pets)
    await ground.unite(f"Ada has a cat called {CANARY}", cat, secret)
    [withdrawn] = await memories.add(ADA, [f"Ada had {CANARY} once"], replaces=cat)
    await ground.undo(withdrawn)
    await memories.add(ADA, ["Ada rows at dusk"], replaces=rows)
    doomed, every = {*await memories.forget(ADA, secret, dry_run=True)}, {*await kept_ids(memories)}
    assert {secret, pets, life, cat, withdrawn} <= doomed < every
    file = tmp_path / "export.jsonl"
    file.write_text("\n".join([line async for line in memories.export()]) + "\n")
    async with await opened(policy="archive") as second:
        await second.forget(ADA, await second.add(ADA, [TOLD]))
        assert (await second.import_(file)).forgotten == len(doomed)
        assert {*await kept_ids(second)} == every - doomed
    file.unlink()
    assert await ground.forget(secret) == doomed


async def test_chains_of_what_was_made_and_undone(memories, ground):
    """Memories made from memories go too, as far as the forgotten words reach."""
    secret, dog, oslo, lima = await ground.add(
        TOLD, "Ada has a dog", "Ada was in Oslo", "Ada was in Lima"
    )
    pets, trips = (
        await ground.make(f"Ada has {CANARY} and a dog", secret, dog),
        await ground.make("Trips", oslo, lima),
    )
    life = await ground.make(f"Ada has {CANARY} and a dog, and travels", pets, trips)
    assert set(await memories.forget(ADA, secret, dry_run=True)) == {
        secret,
        dog,
        oslo,
        lima,
        pets,
        trips,
        life,
    }
    await ground.undo(life)
    assert set(await memories.forget(ADA, secret, dry_run=True)) == {secret, dog, pets, life}
    await ground.undo(pets)
    assert await ground.forget(secret) == {secret, pets, life}
    assert await ground.current() == {dog, trips}
    assert CANARY not in await ground.said()
    await ground.undo(trips)
    assert await ground.current() == {dog, oslo, lima}


async def test_an_outer_merge_stays_where_an_inner_one_was_undone(memories, ground):
    """Forgetting what was merged and given back leaves what the merge before it made."""
    cat, tame, secret = await ground.add("Ada has a cat", "Ada has a tame cat", TOLD)
    await ground.unite("Ada has a very tame cat", cat, tame)
    await ground.unite(f"Ada has a very tame cat called {CANARY}", cat, secret)
    await ground.undo(cat)
    assert await ground.forget(secret) == {secret}
    assert CANARY not in await ground.said()
    assert (await ground.of(cat)).content == "Ada has a very tame cat"
    assert await ground.forget(tame) == {tame, cat}
    assert "very tame" not in await ground.said()


async def test_what_later_took_the_place_of_something_merged_stays(memories, ground):
    """A later value of what was merged holds none of the forgotten words and stays."""
    cat, secret, dog = await ground.add("Ada has a cat", TOLD, "Ada has a dog")
    pets = await ground.make(f"Ada has a cat, {CANARY}", cat, secret)
    (none,) = await memories.add(ADA, ["Ada gave all pets away"], replaces=pets)
    await ground.unite("Ada has a big dog", dog, *await ground.add("Ada's dog is big"))
    await ground.undo(dog)
    (wolf,) = await memories.add(ADA, ["Ada has a wolf"], replaces=dog)
    bird, nest = await ground.add("Ada has a bird", "Ada has a nest")
    brood = await ground.make("Ada has a bird in a nest", bird, nest)
    await ground.undo(brood)
    (eagle,) = await memories.add(ADA, ["Ada has an eagle"], replaces=bird)
    assert set(await memories.forget(ADA, dog, dry_run=True)) == {dog}
    assert await ground.forget(secret) == {secret, cat, pets}
    assert await ground.forget(dog) == {dog}
    assert await ground.forget(bird) == {bird, brood}
    assert {none, wolf, eagle, nest} < await ground.current()
    assert CANARY not in await ground.said()
