"""The read river through `Memories.recall`: legs, gate, floor, filters, budget, rerank, and what it says of itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from kagent_memory.errors import ConfigurationError, InvalidInput
from kagent_memory.memories import Memories
from kagent_memory.records import Change, Fact, Filter, Recall, Scope
from kagent_memory.retrieval.ranking import RankSettings
from kagent_memory.stores.base import Batch
from kagent_memory.testing import HashEmbedder, ScriptedLlm

SCOPE = Scope("acme", "ada", "desk")
NOTES = (
    "Ada's favourite tea is oolong from the shop on Mill Lane.",
    "The billing service goes live every Thursday at 14:00.",
    "Ticket ERR-00123 was a full disk on host db-7.",
    "Grace keeps two parrots and a very old cat.",
    "The spare key hangs behind the blue door.",
)


def texts(found: Recall) -> list[str]:
    return [hit.memory.content for hit in found]


@pytest.fixture
async def memories(store_uri: str) -> AsyncIterator[Memories]:
    async with await Memories.open(store_uri, embedding=HashEmbedder(256), worker=False) as opened:
        await opened.add(SCOPE, NOTES)
        yield opened


@pytest.fixture
def store_uri(tmp_path) -> str:
    """One database: what is tested here is decided above the stores."""
    return f"libsql:///{tmp_path}/memory.db"


async def test_both_legs_answer_and_the_hits_say_why(memories: Memories):
    found = await memories.recall(SCOPE, "What happened with ERR-00123?", explain=True)
    assert texts(found)[0] == NOTES[2]
    assert found.mode == "hybrid"
    assert found[0].why["legs"] == ["text", "vector"]
    assert found[0].why["scores"]["match"] > 0
    assert len(found) == 5


async def test_limits_are_kept_and_k_rows_come_back_whenever_the_scope_holds_k(memories: Memories):
    assert len(await memories.recall(SCOPE, "tea", limit=0)) == 0
    assert len(await memories.recall(SCOPE, "tea", limit=1)) == 1
    assert len(await memories.recall(SCOPE, "tea", limit=1000)) == len(NOTES)
    await memories.add(SCOPE, [f"Shelf {number} holds box {number}." for number in range(300)])
    assert len(await memories.recall(SCOPE, "Where is box 7?", limit=250)) == 250
    assert texts(await memories.recall(SCOPE, "Where is box 7?", limit=1)) == ["Shelf 7 holds box 7."]


async def test_nothing_is_answered_where_nothing_is_relevant_if_the_setting_asks_for_it():
    asked, never_said = "What does the user like, green tea?", "Which submarine with a periscope did the twins hire?"

    async def answers(**options: Any) -> list[bool]:
        async with await Memories.open("libsql:///:memory:", worker=False, **options) as memories:
            await memories.add(SCOPE, ["User likes green tea", "The car is red", "The twins moved to Porto"])
            return [bool(await memories.recall(SCOPE, query)) for query in (asked, never_said)]

    assert await answers() == [True, True]
    assert await answers(nothing_below=0.07) == [True, False]
    assert await answers(nothing_below=0.07, rank=RankSettings(nothing_below=1e-9)) == [True, True]


@pytest.mark.parametrize("unfit", [{"limit": -1}, {"limit": 2.5}, {"min_score": float("nan")}, {"min_score": 2}])
async def test_a_limit_or_floor_that_cannot_be_is_refused(memories: Memories, unfit: dict[str, Any]):
    with pytest.raises(InvalidInput):
        await memories.recall(SCOPE, "tea", **unfit)


async def test_near_duplicates_take_one_place_and_leave_room_for_others(memories: Memories):
    same = [
        "The gate code is changed monthly.",
        "The gate code is changed monthly!",
        "the gate code is changed  monthly",
    ]
    await memories.add(SCOPE, [Fact(text, verbatim=True, event_ids=(text,)) for text in same])
    found = await memories.recall(SCOPE, "How often is the gate code changed?", limit=4, explain=True)
    assert sum("gate code" in text for text in texts(found)) == 1
    assert len(found) == 4
    assert {out.reason for out in found.left_out} >= {"duplicate"}


async def test_an_embedder_that_is_down_leaves_the_words_and_is_told(store_uri: str):
    class Down(HashEmbedder):
        async def embed(self, texts: Sequence[str], *, kind: Any) -> Any:
            raise ConnectionError("away")

    async with await Memories.open(store_uri, embedding=Down(), worker=False) as memories:
        await memories.add(SCOPE, NOTES)
        found = await memories.recall(SCOPE, "Which tea does Ada like?")
        assert texts(found)[0] == NOTES[0]
        assert found.mode == "keyword"
        assert found.degraded[0].startswith("embedder:")


async def test_the_gate_is_off_when_the_argument_says_so():
    async with await Memories.open("libsql:///:memory:", llm=False, worker=False, gate=False) as memories:
        await memories.add(SCOPE, ["Thanks a lot!"])
        assert len(await memories.recall(SCOPE, "Thanks a lot!", gate=True)) == 1


async def test_only_gated_callers_meet_the_gate(memories: Memories):
    assert (await memories.recall(SCOPE, "Thanks a lot!", gate=True)).degraded == ("gated",)
    assert (await memories.recall(SCOPE, "Thanks a lot!")).degraded == ()
    asked = "Where is my spare key?"
    assert (await memories.recall(SCOPE, asked, gate=True, tool=True)).degraded == ("gated",)
    assert texts(await memories.recall(SCOPE, asked, tool=True))[0] == NOTES[4]
    assert texts(await memories.recall(SCOPE, "Hi, where is my spare key?", gate=True))[0] == NOTES[4]


async def test_a_caller_s_own_classifier_tells_the_gate_what_asks_for_general_knowledge(memories: Memories):
    for asked in ("Who was Albert Einstein?", "Who painted the ceiling?", "When did the war end? " * 20):
        held = await memories.recall(SCOPE, asked, gate=True, is_fact=True)
        assert (held.degraded, len(held)) == (("gated",), 0)
        for is_fact in (None, False):
            assert (await memories.recall(SCOPE, asked, gate=True, is_fact=is_fact)).degraded == ()
        assert (await memories.recall(SCOPE, asked, is_fact=True)).degraded == ()
    assert texts(await memories.recall(SCOPE, "Where is my spare key?", gate=True, is_fact=True))[0] == NOTES[4]
    assert (await memories.recall(SCOPE, "What is the capital of France?", gate=True)).degraded == ("gated",)
    assert (await memories.recall(SCOPE, "What is the capital of France?", gate=True, is_fact=False)).degraded == ()
    assert (await memories.recall(SCOPE, "Thanks a lot!", gate=True, is_fact=False)).degraded == ("gated",)


async def test_gates_of_others_are_told_only_if_they_can_take_it():
    class Old:
        def searches(self, text: str, *, tool: bool = False) -> bool:
            return "tea" in text

    class New:
        def searches(self, text: str, *, tool: bool = False, is_fact: bool | None = None) -> bool:
            return is_fact is not True

    class Wide:
        def searches(self, text: str, **told: Any) -> bool:
            return not told["is_fact"]

    for gate, asked, passes in (
        (Old(), "tea", True),
        (Old(), "cocoa", False),
        (New(), "tea", False),
        (Wide(), "tea", False),
    ):
        async with await Memories.open("libsql:///:memory:", llm=False, worker=False, gate=gate) as memories:
            found = await memories.recall(SCOPE, asked, gate=True, is_fact=True)
            assert (found.degraded == ()) is passes


async def test_a_search_ends_within_its_caller_s_time_whatever_hangs(store_uri: str):
    class Hanging(HashEmbedder):
        async def embed(self, texts: Sequence[str], *, kind: str) -> Any:
            await asyncio.sleep(600 if kind == "query" else 0)
            return await super().embed(texts, kind="document")

    class Asleep:
        name = "asleep"

        async def rerank(self, query: str, documents: Sequence[str]) -> Sequence[float]:
            await asyncio.sleep(600)
            return []

    async with await Memories.open(store_uri, embedding=Hanging(256), rerank=Asleep(), worker=False) as memories:
        await memories.add(SCOPE, NOTES)
        started = asyncio.get_running_loop().time()
        found = await memories.recall(SCOPE, "Which tea for Ada and Grace?", timeout_seconds=2.0)
        assert asyncio.get_running_loop().time() - started < 20
        assert (found.mode, texts(found)[0]) == ("keyword", NOTES[0])
        assert [trouble.split(" ")[0] for trouble in found.degraded] == ["embedder:", "rerank:"]
        for wrong in (0, -1.0, float("nan")):
            with pytest.raises(InvalidInput, match="timeout_seconds"):
                await memories.recall(SCOPE, "tea", timeout_seconds=wrong)


async def test_a_vague_follow_up_is_completed_from_the_last_turns(memories: Memories):
    history = ["Tell me about the parrots of Grace."]
    assert texts(await memories.recall(SCOPE, "How many?", history=history, limit=1)) == [NOTES[3]]


async def test_the_floor_holds_for_rows_that_only_the_vectors_found(memories: Memories):
    found = await memories.recall(SCOPE, "oolong", min_score=0.99, explain=True)
    assert texts(found) == [NOTES[0]]
    assert {out.reason for out in found.left_out} == {"below_min_score"}


async def test_filters_narrow_both_legs(memories: Memories):
    at = datetime(2026, 5, 1, tzinfo=UTC)
    fact = Fact(
        "Oolong was sold out.", type="episodic", tags=("shop",), topics=("tea",), happened_at=at, importance=0.9
    )
    await memories.add(SCOPE, [fact])
    for filter in (
        Filter(types=("episodic",)),
        Filter(tags=("shop",)),
        Filter(topics=("tea",)),
        Filter(min_importance=0.8),
        Filter(happened_after=at),
    ):
        assert texts(await memories.recall(SCOPE, "oolong", filter=filter)) == ["Oolong was sold out."]


async def test_neighbours_of_a_match_are_answers_only_when_the_filter_admits_them(memories: Memories):
    at = datetime(2026, 5, 1, tzinfo=UTC)
    asked = Fact(
        "Heron is the code word of the boat house.",
        type="semantic",
        tags=("code",),
        topics=("boat",),
        metadata={"n": 1},
        happened_at=at,
        importance=0.9,
        session_id="s",
    )
    beside = Fact("Nobody else may know.", type="episodic", origin="tool", metadata={"n": True}, session_id="s")
    await memories.add(SCOPE, [asked, beside])
    question = "Which code word has the boat house?"
    assert beside.text in texts(await memories.recall(SCOPE, question, limit=10))
    for filter in (
        Filter(types=("semantic",)),
        Filter(origins=("user", "agent")),
        Filter(tags=("code",)),
        Filter(topics=("boat",)),
        Filter(metadata={"n": 1}),
        Filter(min_importance=0.8),
        Filter(happened_after=at),
        Filter(happened_before=at + timedelta(days=1)),
    ):
        found = texts(await memories.recall(SCOPE, question, limit=10, filter=filter))
        assert asked.text in found
        assert beside.text not in found


async def test_a_budget_keeps_the_best_and_says_what_it_left_out(memories: Memories):
    found = await memories.recall(SCOPE, "tea for Ada", budget_tokens=3, explain=True)
    assert texts(found) == [NOTES[0]]
    assert "budget" in {out.reason for out in found.left_out}


async def test_explaining_tells_what_matched_and_may_not_be_seen(store_uri: str):
    now = datetime(2026, 3, 1, tzinfo=UTC)
    async with await Memories.open(store_uri, worker=False, clock=lambda: now) as memories:
        expired, old, held = await memories.add(
            SCOPE, [Fact("Ada's tea is green", ttl_days=1), "Ada's tea is black", "Ada's tea is poison"]
        )
        [new] = await memories.add(SCOPE, ["Ada's tea is white"], replaces=old)
        stored = await memories.get(SCOPE, held)
        suspect = replace(stored, state="quarantined", revision=stored.revision + 1)
        await memories.store.apply(SCOPE, Batch(changes=[Change(kind="edit", memory=suspect, explicit=True)]), now=now)
        now += timedelta(days=2)
        found = await memories.recall(SCOPE, "Which tea?", explain=True)
        assert [hit.memory.id for hit in found] == [new]
        reasons = {out.memory_id: out.reason for out in found.left_out}
        assert reasons == {expired: "expired", old: "superseded", held: "quarantined"}
        assert (await memories.recall(SCOPE, "Which tea?")).left_out == ()


async def test_explaining_counts_no_delivery_and_handing_over_does(memories: Memories):
    await memories.recall(SCOPE, "oolong", explain=True)
    await memories.drain(60)
    assert (await memories.stats(SCOPE)).delivered_total == 0
    await memories.recall(SCOPE, "oolong", limit=2)
    await memories.drain(60)
    assert (await memories.stats(SCOPE)).delivered_total == 2


class Backwards:
    name = "backwards"

    async def rerank(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        return [float(number) for number, _ in enumerate(documents)]


class Broken:
    name = "broken"

    async def rerank(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        raise ConnectionError("no reranker")


async def test_a_reranker_orders_anew_and_its_failure_leaves_the_order(store_uri: str):
    async with await Memories.open(store_uri, worker=False) as plain:
        await plain.add(SCOPE, ["Tea is hot.", "Tea is green and hot.", "Iced tea is not hot tea."])
        order = texts(await plain.recall(SCOPE, "hot tea"))
    async with await Memories.open(store_uri, rerank=Backwards(), worker=False) as turned:
        assert texts(await turned.recall(SCOPE, "hot tea")) == order[::-1]
    async with await Memories.open(store_uri, rerank=Broken(), worker=False) as broken:
        found = await broken.recall(SCOPE, "hot tea")
        assert texts(found) == order
        assert found.degraded[0].startswith("rerank:")


async def test_usage_is_mixed_into_the_reranker_s_order_and_scores_fall_with_it(store_uri: str):
    async with await Memories.open(store_uri, worker=False) as plain:
        await plain.add(SCOPE, ["Tea is hot.", "Tea is green and hot.", "Iced tea is not hot tea."])
        order = texts(await plain.recall(SCOPE, "hot tea"))
    settings = RankSettings(feedback=0.01)
    async with await Memories.open(store_uri, rerank=Backwards(), rank=settings, worker=False) as turned:
        found = await turned.recall(SCOPE, "hot tea")
        assert texts(found) == order[::-1]
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


@pytest.mark.parametrize("rerank", [None, Backwards()])
async def test_what_an_explanation_names_adds_up_to_the_score(store_uri: str, rerank: Any):
    rank = RankSettings(deliveries=0.4, feedback=0.3, standing=0.2)
    async with await Memories.open(
        store_uri, embedding=HashEmbedder(256), rank=rank, rerank=rerank, worker=False
    ) as memories:
        liked, disliked, plain = await memories.add(
            SCOPE, ["Ada's tea is green", "Grace's tea is black and hot", "Tea is sold on Mill Lane"]
        )
        for _ in range(5):
            await memories.feedback(SCOPE, liked, success=True)
            await memories.feedback(SCOPE, disliked, success=False)
        for _ in range(4):
            await memories.recall(SCOPE, "Which tea?")
        await memories.drain(60)
        found = await memories.recall(SCOPE, "Which tea?", explain=True)
        why = {hit.memory.id: hit.why["scores"] for hit in found}
        assert set(why) == {liked, disliked, plain}
        assert {"deliveries", "feedback", "standing"} <= set(why[liked])
        assert why[liked]["feedback"] > 0 > why[disliked]["feedback"]
        assert "feedback" not in why[plain]
        for hit in found:
            assert sum(hit.why["scores"].values()) == pytest.approx(hit.score, abs=0.001)
        unseen = await memories.recall(SCOPE, "Which tea?", explain=True)
        assert {hit.memory.id: hit.why["scores"] for hit in unseen} == why


async def test_usage_that_does_not_count_is_not_named(memories: Memories):
    (liked,) = await memories.add(SCOPE, ["Ada drinks tea"])
    await memories.feedback(SCOPE, liked, success=True)
    found = await memories.recall(SCOPE, "Which tea does Ada drink?", explain=True)
    for hit in found:
        assert not {"deliveries", "feedback", "standing", "rerank"} & set(hit.why["scores"])
        assert sum(hit.why["scores"].values()) == pytest.approx(hit.score, abs=0.001)


async def test_rewrite_asks_the_model_and_falls_back(store_uri: str):
    def helpful(prompt: str) -> Any:
        return {"query": "Grace's parrots"}

    options: dict[str, Any] = {"embedding": HashEmbedder(256), "rewrite": True, "worker": False}
    async with await Memories.open(store_uri, llm=ScriptedLlm(helpful), **options) as memories:
        await memories.add(SCOPE, NOTES)
        assert texts(await memories.recall(SCOPE, "the birds of my friend", limit=1)) == [NOTES[3]]
    async with await Memories.open(store_uri, llm=ScriptedLlm([]), **options) as memories:
        found = await memories.recall(SCOPE, "oolong tea", limit=1)
        assert texts(found) == [NOTES[0]]
        assert {reason.partition(":")[0] for reason in found.degraded} == {"rewrite"}
    with pytest.raises(ConfigurationError, match="llm="):
        await Memories.open(store_uri, rewrite=True)


async def test_vectors_that_callers_bring_have_an_embedding_space_of_their_own(store_uri: str):
    async with await Memories.open(store_uri, worker=False) as memories:
        vectors = np.eye(3, 768, dtype=np.float32)
        ids = await memories.add(SCOPE, ["one", "two", "three"], embedding=list(vectors))
        found = await memories.recall(SCOPE, "", embedding=vectors[1], limit=1)
        assert [hit.memory.id for hit in found] == [ids[1]]
        assert found[0].cosine == pytest.approx(1.0)
        assert [held.name for held in await memories.store.embedding_spaces()] == ["external-768"]
        with pytest.raises(InvalidInput):
            await memories.recall(SCOPE, "x", embedding=vectors[0], embedding_space="nobody's")


async def test_secrets_in_queries_are_masked_before_the_embedder(store_uri: str):
    embedder = HashEmbedder()
    async with await Memories.open(store_uri, embedding=embedder, worker=False) as memories:
        await memories.recall(SCOPE, "what is AKIA" + "IOSFODNN7EXAMPLE for?")
        assert not any("IOSFODNN7" in str(call) for call in embedder.calls)
