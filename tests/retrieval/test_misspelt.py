import random
import string

import pytest

from kagent_memory import Memories, Scope
from kagent_memory.language.respelling import RESPELT_AT_MOST, respellings

ANN = Scope("", "ann", "demo")
NOTES = [
    "I am allergic to hazelnuts",
    "The kayak is stored behind the garage",
    "Grandfather repaired the telescope",
    "The orchestra rehearses in the cathedral",
    "Our landlord raised the deposit",
    "Собака боится грозы",
]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("Who is allregic?", 0),
        ("hazlenuts", 0),
        ("the kyak", 1),
        ("Where is the kayyak?", 1),
        ("a telesgope", 2),
        ("which orchestar", 3),
        ("catehdral", 3),
        ("lanlord", 4),
        ("depozit", 4),
        ("Чего боится сабака?", 5),
    ],
)
async def test_a_misspelt_word_finds_what_the_right_one_finds(asked: str, found: int) -> None:
    """One letter too few, too many, exchanged or in the wrong place is forgiven."""
    async with await Memories.open("libsql:///:memory:") as memories:
        await memories.add(ANN, NOTES)
        answer = await memories.recall(ANN, asked, limit=1, explain=True)
        assert [hit.memory.content for hit in answer] == [NOTES[found]]


async def test_a_word_that_another_scope_holds_is_not_misspelt() -> None:
    """Of several scopes a word counts as known if one of them holds it."""
    bob = Scope("", "bob", "demo")
    async with await Memories.open("libsql:///:memory:") as memories:
        await memories.add(ANN, NOTES)
        await memories.add(bob, ["The landlady moved", "Ein Lanlord", "hazelnut cake"])
        found = await memories.recall([ANN, bob], "lanlord", limit=1)
        assert [hit.memory.content for hit in found] == ["Ein Lanlord"]
        found = await memories.recall([ANN, bob], "telesgope", limit=1)
        assert [hit.memory.content for hit in found] == [NOTES[2]]


async def test_the_explanation_says_what_was_searched_instead() -> None:
    """`why` names the words that took the place of a misspelt one."""
    async with await Memories.open("libsql:///:memory:") as memories:
        await memories.add(ANN, NOTES)
        [hit] = await memories.recall(ANN, "lanlord", limit=1, explain=True)
        assert hit.why["respelt"] == {"lanlord": ["landlord"]}
        [hit] = await memories.recall(ANN, "landlord", limit=1, explain=True)
        assert "respelt" not in hit.why


@pytest.mark.parametrize(
    "asked", ["zeppelin", "boat", "house", "coal", "00124", "v7", "hazelwood", "12345"]
)
async def test_another_word_is_no_slip(asked: str) -> None:
    """Short words, numbers and identifiers are never guessed."""
    async with await Memories.open("libsql:///:memory:") as memories:
        await memories.add(
            ANN,
            [
                "The coat is red",
                "We saw a horde of cows",
                "ERR-00123 in v2.3",
                "hazelnuts",
                "12346",
            ],
        )
        assert list(await memories.recall(ANN, asked)) == []


async def test_a_word_that_is_held_stays_as_it_is() -> None:
    """Even where a word one letter away is more common."""
    async with await Memories.open("libsql:///:memory:") as memories:
        await memories.add(
            ANN, ["The causal model", *(f"A casual dinner, number {number}" for number in range(9))]
        )
        answer = await memories.recall(ANN, "causal", limit=3)
        assert [hit.memory.content for hit in answer] == ["The causal model"]


def test_what_a_pasted_log_costs_is_bounded() -> None:
    """A few unknown words of a query are tried, of ordinary length."""
    words = [
        "".join(random.Random(number).choices(string.ascii_lowercase, k=9)) for number in range(500)
    ]
    tried = respellings(words, {})
    assert list(tried) == words[:RESPELT_AT_MOST]
    assert sum(map(len, tried.values())) < RESPELT_AT_MOST * 600
    assert respellings(["x" * 10_000, "1234", "a1b2c3"], {}) == {}
