"""The read river through `Memories.recall`: legs, gate, floor, filters, budget, rerank, and what it
says of itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import product
from typing import Any

import pytest
from models.given import Given

from kagent_memory.errors import ConfigurationError, InvalidInput
from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Filter, Scope
from kagent_memory.testing import HashEmbedder
from memories.opening import ADA, DAY, START, contents, listed, opened

NOTES = (
    "Ada's favourite tea is oolong from the shop on Mill Lane.",
    "The billing service goes live every Thursday at 14:00.",
    "Ticket ERR-00123 was a full disk on host db-7.",
    "Grace keeps two parrots and a very old cat.",
    "The spare key hangs behind the blue door.",
)


@pytest.fixture
async def memories(file_uri: str) -> AsyncIterator[Memories]:
    async with await opened(file_uri, embedding=HashEmbedder(256)) as memories:
        await memories.add(ADA, NOTES)
        yield memories


async def best(memories: Memories, query: str, **options: Any) -> str:
    """Return the text of the first hit."""
    return contents(await memories.recall(ADA, query, **options))[0]


async def is_gated(memories: Memories, query: str) -> bool:
    """Return True if the gate holds a query back."""
    recall = await memories.recall(ADA, query, gate=True)
    return recall.degraded == ("gated",)


async def test_both_legs_answer_and_the_hits_say_why(memories: Memories):
    """A hybrid search asks keywords and vectors, and each hit says which of them found it."""
    recall = await memories.recall(ADA, "What happened with ERR-00123?", explain=True)
    assert contents(recall)[0] == NOTES[2]
    assert recall.mode == "hybrid"
    assert recall[0].why["legs"] == ["text", "vector"]
    assert recall[0].why["scores"]["match"] > 0
    assert len(recall) == 5


async def test_k_rows_come_back_whenever_the_scope_holds_k(memories: Memories):
    """Limits are kept and k rows come back whenever the scope holds k."""
    assert len(await memories.recall(ADA, "tea", limit=0)) == 0
    assert len(await memories.recall(ADA, "tea", limit=1)) == 1
    assert len(await memories.recall(ADA, "tea", limit=1000)) == len(NOTES)
    await memories.add(ADA, [f"Shelf {number} holds box {number}." for number in range(300)])
    assert len(await memories.recall(ADA, "Where is box 7?", limit=250)) == 250
    assert contents(await memories.recall(ADA, "Where is box 7?", limit=1)) == [
        "Shelf 7 holds box 7."
    ]


async def test_nothing_irrelevant_is_handed_over_by_default():
    """A hand-over leaves out what does not fit the question, unless its floor is 0."""
    related, unrelated = (
        "What does the user like, green tea?",
        "Which submarine did 100 twins hire?",
    )
    notes = ["User likes green tea", "The twins moved", *(f"Car {n} is red" for n in range(100))]

    async def answers(handover: bool, **options: Any) -> list[bool]:
        async with await opened(**options) as memories:
            await memories.add(ADA, notes)
            return [
                bool(await memories.recall(ADA, query, handover=handover))
                for query in (related, unrelated)
            ]

    assert await answers(False) == [True, True]
    assert await answers(True) == [True, False]
    assert await answers(True, handover_floor=0) == [True, True]


@pytest.mark.parametrize(
    ("note", "question"),
    [
        ("Ada drinks oolong.", "Which tea do I drink?"),
        ("The kiln fires at 1,240 degrees.", "How hot is the kiln?"),
    ],
)
async def test_of_few_memories_one_shared_word_is_handed_over(note: str, question: str):
    """In a small scope one word of the question is enough; among many memories it is not."""
    async with await opened() as memories:
        await memories.add(ADA, [note])
        assert contents(await memories.recall(ADA, question, handover=True)) == [note]
        assert not await memories.recall(ADA, "Write a haiku about leaves", handover=True)


OF_THE_COMPANY = [
    "Acme was founded by Ruth Okafor in 2014.",
    "Zephyr is our deployment tool.",
    "A tenant has at most 500 users.",
    "Ticket ERR-10140 was a full disk.",
]


@pytest.mark.parametrize(
    ("question", "is_known"),
    [
        ("Who founded Acme?", True),
        ("How many users are there in a tenant?", True),
        ("Hello!", False),
        ("What's 15% of 80?", False),
        ("How does photosynthesis work?", False),
    ],
)
async def test_the_gate_lets_through_what_the_scope_knows(question: str, is_known: bool):
    """A question that looks like general knowledge is searched where the scope knows its words,
    which a greeting or a sum has none of.
    """
    async with await opened() as memories:
        assert await is_gated(memories, question)
        await memories.add(ADA, [*OF_THE_COMPANY, "Hello!", "Work starts at 15 past 8."])
        assert await is_gated(memories, question) is not is_known


@pytest.mark.parametrize("embedder", [None, HashEmbedder(64)], ids=["words", "vectors"])
async def test_words_that_the_index_leaves_out_are_found(embedder: Any):
    """Names made of stop words are found."""
    names = [
        "Ada sang Hello by Adele.",
        "The Who played at the pier.",
        "OK Go filmed on treadmills.",
    ]
    async with await opened(embedding=embedder) as memories:
        await memories.add(ADA, [*names, *NOTES])
        for query, text in zip(("Hello", "The Who", "OK Go"), names, strict=True):
            assert await best(memories, query) == text


async def test_of_a_pasted_text_64_words_count_its_names_first(memories: Memories):
    """Of a long query the identifiers count before the other words."""
    await memories.add(ADA, ["Ticket ERR-4711 was a full disk."])
    fillers = ("".join(letters) for letters in product("bdfgk", "aeiou", "lmnrt", "aeiou"))
    pasted = " ".join((*fillers, "ERR-4711"))
    assert await best(memories, pasted) == "Ticket ERR-4711 was a full disk."


@pytest.mark.parametrize(
    "unfit",
    [
        {"limit": 1_001},
        {"min_score": float("nan")},
        {"min_score": 2},
    ],
)
async def test_a_limit_or_floor_that_cannot_be_is_refused(memories: Memories, unfit: Any):
    """A limit lies between 0 and 1,000, and a floor between -1 and 1."""
    with pytest.raises(InvalidInput):
        await memories.recall(ADA, "tea", **unfit)


async def test_the_gate_is_off_when_the_argument_says_so():
    """`gate=False` of `open` lets every query through."""
    async with await opened(gate=False) as memories:
        await memories.add(ADA, ["Thanks a lot!"])
        assert not await is_gated(memories, "Thanks a lot!")


@pytest.mark.parametrize(
    ("query", "is_held_back"),
    [
        ("Thanks a lot!", True),
        ("Where is my spare key?", False),
        ("Who was Albert Einstein?", False),
        ("What is the capital of France?", True),
        ("When did the war end? " * 20, False),
    ],
)
async def test_the_gate_holds_back_for_those_who_ask_it(
    memories: Memories, query: str, is_held_back: bool
):
    """A recall meets the gate if its caller says so."""
    assert await is_gated(memories, query) is is_held_back
    assert (await memories.recall(ADA, query)).degraded == ()


async def test_a_vague_follow_up_is_completed_from_the_last_turns(memories: Memories):
    """A question that says too little alone is searched with what was said just before it, whatever
    characters stand there.
    """
    history = ["Tell me about the\0 parrots of\ud83e Grace."]
    assert contents(await memories.recall(ADA, "How many?", history=history, limit=1)) == [NOTES[3]]


async def test_neighbours_answer_only_when_the_filter_admits_them(memories: Memories):
    """Neighbours of a match are answers only when the filter admits them."""
    fact = Fact(
        "Heron is the code word of the boat house.",
        tags=("code",),
        metadata={"n": 1},
        happened_at=START,
        importance=0.9,
        session_id="s",
    )
    beside = Fact(
        "Nobody else may know.", "episodic", origin="tool", metadata={"n": True}, session_id="s"
    )
    await memories.add(ADA, [fact, beside])
    question = "Which code word has the boat house?"
    assert beside.text in contents(await memories.recall(ADA, question, limit=10))
    for filter in (
        Filter(origins=("user", "agent")),
        Filter(tags=("code",)),
        Filter(metadata={"n": 1}),
        Filter(min_importance=0.8),
        Filter(happened_before=START + DAY),
    ):
        found = contents(await memories.recall(ADA, question, limit=10, filter=filter))
        assert fact.text in found
        assert beside.text not in found


async def test_of_a_long_memory_the_passage_that_fits_is_handed_over(memories: Memories):
    """A hit of a search with a budget has the passage of a long memory that fits the question."""
    filler = " ".join(f"The {number}th day was quiet and the sea was calm." for number in range(60))
    await memories.add(ADA, [f"{filler} The anchor lies under the pier. {filler}"])
    for budget in (None, 1_000):
        recall = await memories.recall(ADA, "Where does the anchor lie?", budget_tokens=budget)
        excerpt = recall.hits[0].excerpt
        assert ("The anchor lies under the pier." in excerpt) is (budget is not None)
        assert len(excerpt) <= 1_600


class Backwards:
    name = "backwards"

    async def rerank(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        return [float(number) for number, _ in enumerate(documents)]


async def test_a_reranker_orders_anew_and_its_failure_leaves_the_order(file_uri: str):
    """A reranker decides the order of hits; if it fails, theirs stays and the answer tells."""
    async with await opened(file_uri) as plain:
        await plain.add(ADA, ["Tea is hot.", "Tea is green and hot.", "Iced tea is not hot tea."])
        order = contents(await plain.recall(ADA, "hot tea"))
    async with await opened(file_uri, rerank=Backwards()) as turned:
        assert contents(await turned.recall(ADA, "hot tea")) == order[::-1]
    async with await opened(file_uri, rerank=Given(ConnectionError("no reranker"))) as broken:
        recall = await broken.recall(ADA, "hot tea")
        assert contents(recall) == order
        assert recall.degraded[0].startswith("rerank:")


@pytest.mark.parametrize("rerank", [None, Backwards()])
async def test_what_an_explanation_names_adds_up_to_the_score(file_uri: str, rerank: Any):
    """The parts that an explanation names add up to the score; explaining changes and counts
    nothing.
    """
    async with await opened(file_uri, embedding=HashEmbedder(256), rerank=rerank) as memories:
        await memories.add(
            ADA,
            ["Ada's tea is green", "Grace's tea is black and hot", "Tea is sold on Mill Lane"],
        )
        recall = await memories.recall(ADA, "Which tea?", explain=True)
        why = {hit.memory.id: hit.why["scores"] for hit in recall}
        for hit in recall:
            assert sum(hit.why["scores"].values()) == pytest.approx(hit.score, abs=0.001)
        unseen = await memories.recall(ADA, "Which tea?", explain=True)
        assert {hit.memory.id: hit.why["scores"] for hit in unseen} == why
        assert await memories.drain(60)
        assert (await memories.stats(ADA)).delivered_total == 0


async def test_a_rewrite_needs_a_model():
    """The setting `rewrite` is refused without a language model."""
    with pytest.raises(ConfigurationError, match="llm="):
        await opened(rewrite=True)


async def test_a_preference_comes_before_an_equal_match(memories: Memories):
    """A stated preference is a topic, and ranks before a memory that matches as well."""
    about = ["The report on units was late again.", "Always give units in a report on distances."]
    for texts_in_order in (about, about[::-1]):
        scope = Scope("acme", texts_in_order[0][:3], "notes")
        await memories.add(scope, texts_in_order)
        recall = await memories.recall(scope, "a report with units")
        assert contents(recall)[0] == about[1]
        assert await listed(memories, scope, topics=("preference",)) == {about[1]}
