"""A model's rewrite is searched beside the query: a good one helps, and a useless one does little
harm.
"""

from collections.abc import Callable
from typing import Any

import pytest
from memories.opening import ADA, contents, opened

from kagent_memory.testing import HashEmbedder, ScriptedLlm

NOTES = [
    "The landlord wants the rent by the third working day",
    "I am allergic to hazelnuts but almonds are fine",
    "The bike shop on Mill Road replaced my rear brake pads",
    "Our book club picked a novel about lighthouse keepers",
    "The neighbours' cat is called Biscuit and visits daily",
    "Tom owes me forty euros for the concert",
    "The new passport took nine weeks to arrive",
    "The piano tuner comes twice a year",
]
QUESTIONS = [
    "When is the rent due for the landlord?",
    "Which nuts am I allergic to, hazelnuts?",
    "Who replaced the brake pads?",
    "Which novel did the book club pick?",
    "How is the neighbours' cat called?",
    "What does Tom owe me?",
    "How long did the new passport take?",
    "How often does the piano tuner come?",
]


async def search(questions: list[str], limit: int = 1, **options: Any) -> list[list[str]]:
    async with await opened(**options) as memories:
        await memories.add(ADA, NOTES)
        answers = [await memories.recall(ADA, question, limit=limit) for question in questions]
        assert not any(answer.degraded for answer in answers)
        return [contents(answer) for answer in answers]


@pytest.mark.parametrize("embedder", [None, HashEmbedder(256)], ids=["keyword", "hybrid"])
@pytest.mark.parametrize(
    "nonsense",
    [
        "zarf quibble oblong marmalade flux",
        NOTES[5],
        "Tom, the cat Biscuit, the piano and the passport",
        "the and of",
        "\u4f60\u597d " * 50,
        "x" * 5_000,
        "What happened on 3 May 2023?",
    ],
)
async def test_a_model_that_answers_nonsense_makes_no_answer_worse(nonsense: str, embedder: Any):
    """A rewrite that loses what is asked is not searched."""
    model = ScriptedLlm(lambda prompt: {"query": nonsense})
    without = await search(QUESTIONS, embedding=embedder)
    assert without == [[note] for note in NOTES]
    assert await search(QUESTIONS, embedding=embedder, llm=model, rewrite=True) == without


async def test_a_rewrite_of_a_follow_up_picks_what_it_is_about():
    """A rewrite need not keep the earlier turns that completed the query."""
    notes = [*NOTES, "Mr Sykes charged ninety pounds last spring"]
    history = ["The piano sounds dreadful since the move", "And the book club meets here next week"]
    model = ScriptedLlm(lambda prompt: {"query": "piano tuner Sykes pounds"})
    async with await opened(llm=model, rewrite=True) as memories:
        await memories.add(ADA, notes)
        answer = await memories.recall(ADA, "how much?", history=history)
    assert notes[-1] in contents(answer)


@pytest.mark.parametrize("embedder", [None, HashEmbedder(256)], ids=["keyword", "hybrid"])
async def test_a_model_that_knows_finds_more(embedder: Any):
    """A rewrite may find what the words of the question do not."""
    notes = {
        "the animal next door": NOTES[4],
        "money outstanding": NOTES[5],
        "my travel document": NOTES[6],
    }
    oracle: Callable[[str], Any] = lambda prompt: {  # noqa: E731
        "query": next(note for question, note in notes.items() if question in prompt)
    }
    answers = await search(list(notes), embedding=embedder, llm=ScriptedLlm(oracle), rewrite=True)
    assert [answer[0] for answer in answers] == list(notes.values())
