"""A recall answers first from what its process holds of a scope, and is never behind what the database says."""

from __future__ import annotations

import random

import pytest

from kagent_memory.memories import Memories
from kagent_memory.records import Filter, Scope
from kagent_memory.stores.base import MemoryStore
from kagent_memory.stores.sql.store import SqlStore
from kagent_memory.testing import HashEmbedder

SCOPE = Scope("acme", "ada", "notes")
WORDS = ["tea", "oslo", "green", "parcel", "rome", "black", "shelf", "zebra"]


@pytest.fixture
async def pair(store_uri):
    """Two processes' memories in one database."""
    options = {"embedding": HashEmbedder(), "worker": False}
    async with await Memories.open(store_uri, **options) as one, await Memories.open(store_uri, **options) as other:
        yield one, other


@pytest.fixture
def asked(monkeypatch):
    """How each text search of a store was answered, and each reading of memories that went with one."""
    answers: list[str] = []

    def spy(cls, name):
        verb = getattr(cls, name)

        async def spied(self, *arguments, **options):
            found = await verb(self, *arguments, **options)
            answers.append(name if found is not None else f"{name}: no")
            return found

        monkeypatch.setattr(cls, name, spied)

    for name in ("search_texts", "search_known", "get", "get_unchanged"):
        spy(SqlStore, name)
    return answers


async def texts(memories: Memories, query: str, **options) -> list[str]:
    recall = await memories.recall(SCOPE, query, deliver=False, **options)
    assert not recall.degraded
    return [hit.memory.content for hit in recall.hits]


async def steady(memories: Memories) -> None:
    """Two looks: one that loads, one that finds that nothing was written since."""
    for _ in range(2):
        await memories.recall(SCOPE, "tea", deliver=False)


async def test_a_scope_that_nobody_writes_to_is_not_asked_about_again(pair, asked):
    here, _ = pair
    await here.add(SCOPE, ["green tea", "black coffee"])
    await steady(here)
    asked.clear()
    assert (await texts(here, "tea"))[0] == "green tea"
    assert asked == ["search_known", "get_unchanged"]


async def test_a_question_with_other_forms_asks_the_database_once(pair, asked):
    here, _ = pair
    await here.add(SCOPE, ["Meine Mutter wohnte in Oslo", "they bought parcels"])
    asked.clear()
    assert await texts(here, "wo wohnt Mutter?")
    assert [answer for answer in asked if answer == "search_texts"] == ["search_texts"]
    assert asked.count("search_known") == 2


async def test_what_another_process_wrote_is_in_the_very_next_answer(pair, asked):
    here, there = pair
    [first] = await here.add(SCOPE, ["green tea"])
    await steady(here)
    await there.add(SCOPE, ["tea from oslo"])
    asked.clear()
    assert set(await texts(here, "tea")) == {"green tea", "tea from oslo"}
    assert asked == ["search_known", "get_unchanged: no", "search_texts", "get"]
    await steady(here)
    await there.edit(SCOPE, first, content="mocha")
    assert "mocha" in await texts(here, "mocha")
    await steady(here)
    await there.forget(SCOPE, [first])
    assert await texts(here, "mocha tea") == ["tea from oslo"]


async def test_nothing_found_is_told_only_of_a_scope_as_it_is_now(pair):
    here, there = pair
    [gone] = await here.add(SCOPE, ["green tea"])
    await steady(here)
    await there.forget(SCOPE, [gone])
    assert await texts(here, "tea") == []
    for _ in range(3):
        assert await texts(here, "tea") == []
    await there.add(SCOPE, ["white tea"])
    assert await texts(here, "tea") == ["white tea"]


async def test_a_scope_that_was_erased_and_made_anew_is_not_taken_for_the_former(pair):
    here, there = pair
    await here.add(SCOPE, ["green tea"])
    await steady(here)
    await there.forget_tenant("acme")
    await there.add(SCOPE, ["oolong tea"])  # the same number of writes: the scope's version is as it was
    assert await texts(here, "tea") == ["oolong tea"]


async def test_what_is_written_in_the_middle_of_a_recall_is_in_its_answer(pair, monkeypatch):
    here, there = pair
    await here.add(SCOPE, ["green tea"])
    await steady(here)
    places, told = type(here.store).places, []

    async def late(self, *arguments, **options):
        found = await places(self, *arguments, **options)
        if self is here.store and not told:
            told.append(await there.add(SCOPE, ["tea from oslo"]))
        return found

    monkeypatch.setattr(type(here.store), "places", late)
    assert set(await texts(here, "tea")) == {"green tea", "tea from oslo"}


async def test_the_model_of_a_made_up_answer_is_asked_once_however_often_is_searched(store_uri):
    class Imagining:
        name = "imagining"
        calls = 0

        async def complete(self, prompt, *, schema):
            self.calls += 1
            return schema.model_validate(dict.fromkeys(schema.model_fields, "tea from oslo"))

    llm = Imagining()
    async with (
        await Memories.open(store_uri, embedding=HashEmbedder(), llm=llm, hyde=True, worker=False) as here,
        await Memories.open(store_uri, embedding=HashEmbedder(), worker=False) as there,
    ):
        await here.add(SCOPE, ["green tea"])
        await steady(here)
        await there.add(SCOPE, ["tea from oslo"])
        calls = llm.calls
        assert set(await texts(here, "tea")) == {"green tea", "tea from oslo"}
    assert llm.calls == calls + 1


async def test_a_filter_is_answered_by_the_database(pair, asked):
    here, _ = pair
    await here.add(SCOPE, ["green tea", "black tea"])
    await steady(here)
    asked.clear()
    for filter in (Filter(tags=("x",)), Filter(author="ada")):
        await texts(here, "tea", filter=filter)
    assert "get_unchanged" not in asked
    assert asked.count("search_texts") == 2


async def test_a_store_that_knows_no_shorter_way_is_asked_as_ever(pair, asked, monkeypatch):
    here, _ = pair
    await here.add(SCOPE, ["green tea"])
    await steady(here)
    monkeypatch.setattr(type(here.store), "search_known", MemoryStore.search_known)
    asked.clear()
    assert await texts(here, "tea") == ["green tea"]
    assert asked == ["search_texts", "get"]


@pytest.mark.parametrize("seed", range(4))
async def test_random_writers_are_never_behind(pair, seed):
    here, there = pair
    chance, ids = random.Random(seed), dict[str, str]()
    for step in range(40):
        writer = chance.choice((here, there))
        match chance.choice(["add", "edit", "forget", "recall", "recall", "recall"]):
            case "add":
                content = " ".join(chance.sample(WORDS, 3)) + f" {step}"
                [new] = await writer.add(SCOPE, [content])
                ids[new] = content
            case "edit" if ids:
                changed = chance.choice(sorted(ids))
                ids[changed] = " ".join(chance.sample(WORDS, 3)) + f" {step}"
                await writer.edit(SCOPE, changed, content=ids[changed])
            case "forget" if ids:
                gone = chance.choice(sorted(ids))
                await writer.forget(SCOPE, [gone])
                del ids[gone]
            case _:
                word = chance.choice(WORDS)
                found = await texts(chance.choice((here, there)), word, limit=100)
                assert {content for content in ids.values() if word in content} <= set(found) <= set(ids.values())
