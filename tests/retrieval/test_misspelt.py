"""A word that no memory holds is searched as what it may have been meant as."""

import random
import string
from typing import Any

import pytest
from memories.opening import ADA, GRACE, contents, opened

from kagent_memory import Recall
from kagent_memory.language.respelling import MAX_RESPELT, respellings

NOTES = [
    "I am allergic to hazelnuts",
    "The kayak is stored behind the garage",
    "Grandfather repaired the telescope",
    "The orchestra rehearses in the cathedral",
    "Our landlord raised the deposit",
    "Собака боится грозы",
]
COMMON = ["The causal model", *(f"A casual dinner, number {number}" for number in range(9))]
OTHERS = ["The coat is red", "We saw a horde of cows", "ERR-00123 in v2.3", "hazelnuts", "12346"]


async def recalled(
    query: str, notes: list[str] = NOTES, beside: Any = (), **options: Any
) -> Recall:
    """Ask Ada's notes, or hers and Grace's beside."""
    async with await opened() as memories:
        await memories.add(ADA, notes)
        if beside:
            await memories.add(GRACE, beside)
        return await memories.recall([ADA, GRACE] if beside else ADA, query, **options)


@pytest.mark.parametrize(
    ("query", "number"),
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
async def test_a_misspelt_word_finds_what_the_right_one_finds(query: str, number: int):
    """One letter too few, too many, exchanged or in the wrong place is forgiven."""
    assert contents(await recalled(query, limit=1)) == [NOTES[number]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [("lanlord", "Ein Lanlord"), ("telesgope", NOTES[2])],
    ids=["held", "not"],
)
async def test_a_word_that_another_scope_holds_is_not_misspelt(query: str, expected: str):
    """Of several scopes a word counts as known if one of them holds it."""
    beside = ["The landlady moved", "Ein Lanlord", "hazelnut cake"]
    assert contents(await recalled(query, beside=beside, limit=1)) == [expected]


@pytest.mark.parametrize(
    ("query", "respelt"), [("lanlord", {"lanlord": ["landlord"]}), ("landlord", None)]
)
async def test_the_explanation_says_what_was_searched_instead(query: str, respelt: Any):
    """`why` names the words that took the place of a misspelt one."""
    [hit] = await recalled(query, limit=1, explain=True)
    assert hit.why.get("respelt") == respelt


@pytest.mark.parametrize(
    "query", ["zeppelin", "boat", "house", "coal", "00124", "v7", "hazelwood", "12345"]
)
async def test_another_word_is_no_slip(query: str):
    """Short words, numbers and identifiers are never guessed."""
    assert contents(await recalled(query, OTHERS)) == []


async def test_a_word_that_is_held_stays_as_it_is():
    """A word that some memory holds stays, even where one a letter away is more common."""
    assert contents(await recalled("causal", COMMON, limit=3)) == COMMON[:1]


def test_what_a_pasted_log_costs_is_bounded():
    """A few unknown words of a query are tried, of ordinary length."""
    words = [
        "".join(random.Random(number).choices(string.ascii_lowercase, k=9)) for number in range(500)
    ]
    tried = respellings(words, {})
    assert list(tried) == words[:MAX_RESPELT]
    assert sum(map(len, tried.values())) < MAX_RESPELT * 600
    assert respellings(["x" * 10_000, "1234", "a1b2c3"], {}) == {}
