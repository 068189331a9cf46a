"""What would have been answered then: `recall(…, as_of=…)`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kagent_memory import Fact, Filter, Memories, Scope
from kagent_memory.errors import InvalidInput
from kagent_memory.records import Recall, Scopes
from kagent_memory.retrieval import past
from kagent_memory.testing import HashEmbedder
from memories.opening import opened

START = datetime(2026, 5, 8, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ADA, BOB = Scope("", "ada", "app"), Scope("", "bob", "app")
QUERY = "where does Ada sail with the boat"


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def tick(self, by: timedelta = HOUR) -> datetime:
        """Lets time pass, and gives the moment before it did."""
        before = self.now
        self.now += by
        return before


def said(found: Sequence[Any] | Recall) -> list[str]:
    return [hit.memory.content for hit in found]


async def asked(memories: Any, at: datetime | None = None, **options: Any) -> list[str]:
    return said(await memories.recall(ADA, QUERY, as_of=at, limit=20, **options))


@pytest.mark.parametrize("embedder", [None, HashEmbedder(64)], ids=["words", "vectors"])
async def test_each_change_is_seen_from_when_it_was_made(
    store_uri: str, embedder: HashEmbedder | None
) -> None:
    clock = Clock()
    async with await opened(store_uri, clock=clock, embedding=embedder, ttl_days=0) as memories:
        nothing = clock.tick()
        [id] = await memories.add(ADA, ["Ada sails the boat near Bergen"])
        added = clock.tick()
        await memories.edit(ADA, id, content="Ada sails the boat near Oslo")
        edited = clock.tick()
        await memories.add(ADA, ["Ada sails the boat near Lima"], replaces=id)
        replaced = clock.tick()
        await memories.undo(ADA, id)
        undone = clock.tick()
        assert await asked(memories, nothing) == []
        assert await asked(memories, added) == ["Ada sails the boat near Bergen"]
        assert await asked(memories, edited - timedelta(microseconds=1)) == [
            "Ada sails the boat near Bergen"
        ]
        assert await asked(memories, edited) == ["Ada sails the boat near Oslo"]
        assert await asked(memories, replaced) == ["Ada sails the boat near Lima"]
        assert await asked(memories, undone) == await asked(memories)
        found = await memories.recall(ADA, QUERY, as_of=added)
        assert found.mode == ("keyword" if embedder is None else "hybrid")


async def test_the_past_shows_the_expired_not_the_forgotten(store_uri: str) -> None:
    """What expired since is seen and what was forgotten since is not."""
    clock = Clock()
    async with await opened(store_uri, clock=clock) as memories:
        _, gone = await memories.add(
            ADA,
            [
                Fact("Ada sails the boat today", ttl_days=1),
                Fact("Ada sails the boat secretly", ttl_days=9),
            ],
        )
        then = clock.tick(2 * DAY)
        both = {"Ada sails the boat today", "Ada sails the boat secretly"}
        assert set(await asked(memories)) == {"Ada sails the boat secretly"}
        assert set(await asked(memories, then)) == both
        assert await asked(memories, then + DAY) == ["Ada sails the boat secretly"]
        await memories.forget(ADA, gone)
        assert await asked(memories, then) == ["Ada sails the boat today"]
        await memories.prune()
        assert await asked(memories, then) == []


async def changed_somehow(memories: Memories, chance: random.Random, number: int) -> None:
    places = ("Bergen", "Oslo", "Lima", "Rome", "Davos", "Quito", "Cairo", "Perth")
    text = (
        f"{chance.choice(('Ada', 'Bob', 'Grace'))} sails boat {number} near {chance.choice(places)}"
    )
    living = [memory.id for memory in (await memories.list(ADA)).memories]
    match (
        chance.choice(("add", "add", "edit", "replace", "pin", "tags", "undo")) if living else "add"
    ):
        case "add":
            await memories.add(ADA, [text, f"{text} and drinks tea"])
        case "edit":
            await memories.edit(ADA, chance.choice(living), content=text)
        case "replace":
            await memories.add(ADA, [text], replaces=chance.choice(living))
        case "pin":
            await memories.pin(ADA, chance.choice(living), chance.random() < 0.5)
        case "tags":
            await memories.edit(
                ADA, chance.choice(living), tags=[f"t{number}"], importance=chance.random()
            )
        case _:
            for id in [id for id in living if len(await memories.history(ADA, id)) == 1][:1]:
                await memories.undo(ADA, id)


async def test_the_past_agrees_with_what_was_answered_then(store_uri: str) -> None:
    """It agrees with what was answered however memories changed."""
    clock, chance = Clock(), random.Random(7)
    queries = ("who sails near Bergen", "Rome", "tea in Oslo", "boat")
    async with await opened(
        store_uri, clock=clock, embedding=HashEmbedder(64), ttl_days=0
    ) as memories:
        answers: list[tuple[datetime, str, list[tuple[str, str]]]] = []
        for number in range(24):
            await changed_somehow(memories, chance, number)
            for query in queries:
                found = await memories.recall(ADA, query, deliver=False)
                answers.append(
                    (clock.now, query, [(hit.memory.id, hit.memory.content) for hit in found])
                )
            clock.tick()
        for at, query, before in answers:
            found = await memories.recall(ADA, query, as_of=at)
            assert sorted((hit.memory.id, hit.memory.content) for hit in found) == sorted(before), (
                at,
                query,
            )


async def test_filters_and_dates_hold_for_the_past_too() -> None:
    clock = Clock()
    async with await opened(clock=clock, ttl_days=0) as memories:
        [id] = await memories.add(ADA, [Fact("Ada sails the boat near Bergen", tags=("sea",))])
        await memories.add(ADA, [Fact("Ada sails the boat near Oslo", happened_at=START - DAY)])
        then = clock.tick(60 * DAY)
        await memories.edit(ADA, id, tags=["lake"])
        clock.tick()
        assert await asked(memories, then, filter=Filter(tags=("sea",))) == [
            "Ada sails the boat near Bergen"
        ]
        assert await asked(memories, then, filter=Filter(tags=("lake",))) == []
        assert await asked(memories, filter=Filter(tags=("sea",))) == []
        yesterday = await memories.recall(ADA, "what happened yesterday?", as_of=then, limit=1)
        assert said(yesterday) == ["Ada sails the boat near Oslo"]


async def test_looking_at_the_past_delivers_nothing() -> None:
    """Looking at the past delivers nothing and leaves others out."""
    clock = Clock()
    async with await opened(clock=clock, ttl_days=0) as memories:
        [id] = await memories.add(ADA, ["Ada sails the boat near Bergen"])
        await memories.add(BOB, ["Bob sails the boat near Bergen"])
        then = clock.tick()
        assert await asked(memories, then) == ["Ada sails the boat near Bergen"]
        every = await memories.recall(Scopes(tenant=""), QUERY, as_of=then, explain=True)
        assert {(hit.scope, hit.memory.content.split()[0]) for hit in every} == {
            (ADA, "Ada"),
            (BOB, "Bob"),
        }
        await memories.drain()
        usage = (await memories.get(ADA, id)).usage
        assert (usage.delivered, usage.retrieved) == (0, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        START.replace(tzinfo=None),
        "2026-05-08T12:00:00Z",
        0,
        START + DAY,
        datetime.max.replace(tzinfo=UTC),
    ],
    ids=["naive", "text", "number", "future", "end"],
)
async def test_a_time_that_does_not_fit_is_refused(wrong: Any) -> None:
    async with await opened(clock=Clock()) as memories:
        with pytest.raises(InvalidInput, match="as_of"):
            await memories.recall(ADA, QUERY, as_of=wrong)


async def test_a_past_of_too_many_memories_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """More memories than a search of the past reads are refused."""
    monkeypatch.setattr(past, "MAX_MEMORIES", 2)
    monkeypatch.setattr(past, "READ_AT_ONCE", 1)
    clock = Clock()
    async with await opened(clock=clock, ttl_days=0) as memories:
        await memories.add(ADA, ["Ada sails the boat", "Ada paints the boat"])
        then = clock.tick()
        assert len(await asked(memories, then)) == 2
        await memories.add(BOB, ["Bob sails the boat"])
        with pytest.raises(InvalidInput, match="fewer"):
            await memories.recall(Scopes(tenant=""), QUERY, as_of=then)
