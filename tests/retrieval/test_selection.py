from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import pytest

from kagent_memory.language.tokenizer import index_terms
from kagent_memory.records import Memory, Usage
from kagent_memory.retrieval.ranking import Ranked, RankSettings, same_in_substance, select
from kagent_memory.retrieval.ranking.selection import surely_apart
from kagent_memory.stores.columns import Outline
from kagent_memory.stores.postings import RECORD, outlines_of, packed

AT = datetime(2026, 3, 4, tzinfo=UTC)


def _stored(*contents: str) -> tuple[list[Ranked], dict[str, Memory]]:
    memories = {
        str(n): Memory(id=str(n), content=text, created_at=AT, updated_at=AT) for n, text in enumerate(contents)
    }
    return [Ranked(key, 1 - int(key) / 10, None) for key in memories], memories


def _reasons(left_out: object) -> list[tuple[str, str]]:
    return [(left.memory_id, left.reason) for left in left_out]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user likes tea.", "User likes TEA"),
        ("Ann moved to Porto", "ann moved to porto!"),
        (
            "the old bike shop on the long road near our school repairs brakes quickly and sells used tyres",
            "the old bike shop on the long road near our school repairs brakes quickly and sells used tyre",
        ),
    ],
)
def test_the_same_in_nearly_the_same_words_is_one(one: str, other: str) -> None:
    assert same_in_substance(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user likes tea", "The user likes coffee"),
        ("The user likes tea", "The user does not like tea"),
        (
            "Memory number 1 of the long list of notes about the garden",
            "Memory number 2 of the long list of notes about the garden",
        ),
        ("It failed with ERR-00123", "It failed with ERR-00124"),
        (
            "Ann wants green tea with milk and honey every morning before work in the small kitchen",
            "Bob wants green tea with milk and honey every morning before work in the small kitchen",
        ),
    ],
)
def test_a_difference_in_number_negation_name_or_word_keeps_both(one: str, other: str) -> None:
    assert not same_in_substance(one, other)


def test_outlines_tell_apart_only_what_the_words_tell_apart() -> None:
    random, told, near = Random(7), 0, 0
    words = [
        "the",
        "old",
        "bike",
        "shop",
        "on",
        "our",
        "long",
        "road",
        "does",
        "not",
        "repair",
        "brakes",
        "of",
        "ERR-123",
        "quickly",
        "in",
        "März",
        "東京",
    ]
    for _ in range(3000):
        one = random.choices(words, k=random.randint(1, 30))
        other = (
            [word for word in one if random.random() > 0.04] if random.random() < 0.7 else random.choices(words, k=9)
        )
        texts, author = (" ".join(one), " ".join(other)), random.choice((None, "Ann", "the bike"))
        entries = [packed(index_terms(text, author)) for text in texts]
        outlines = [
            Outline(bits, len(entry) // RECORD.itemsize)
            for bits, entry in zip(outlines_of(entries).tolist(), entries, strict=True)
        ]
        told += (is_apart := surely_apart(*outlines))
        near += (is_same := same_in_substance(*texts))
        assert not (is_apart and is_same), texts
    assert min(told, near) > 500


def test_near_duplicates_take_one_place_and_the_next_moves_up() -> None:
    ranked, memories = _stored("User likes tea", "The user likes tea.", "User lives in Rome")
    selection = select(ranked, memories, limit=2)
    assert [hit.id for hit in selection.kept] == ["0", "2"]
    assert _reasons(selection.left_out) == [("1", "duplicate")]


def test_the_same_words_of_two_authors_are_two_memories() -> None:
    ranked, memories = _stored("I like tea", "I like tea")
    memories["1"] = replace(memories["1"], author="Bo")
    assert len(select(ranked, memories, limit=5).kept) == 2


def test_what_vanished_meanwhile_and_what_is_over_the_limit_is_told() -> None:
    ranked, memories = _stored("tea", "coffee", "cocoa")
    del memories["0"]
    assert _reasons(select(ranked, memories, limit=1).left_out) == [("0", "expired"), ("2", "limit")]


def test_the_token_budget_keeps_the_best_and_always_one() -> None:
    ranked, memories = _stored("a" * 400, "b" * 400, "c" * 4)
    selection = select(ranked, memories, limit=5, max_tokens=120)
    assert [hit.id for hit in selection.kept] == ["0"]
    assert _reasons(selection.left_out) == [("1", "budget"), ("2", "budget")]
    assert [hit.id for hit in select(ranked, memories, limit=5, max_tokens=1).kept] == ["0"]
    wide, memories = _stored("茶" * 100, "茶" * 30)
    assert [hit.id for hit in select(wide, memories, limit=5, max_tokens=120).kept] == ["0"]


def test_the_gap_cuts_at_the_largest_fall_when_it_is_deep_enough() -> None:
    ranked, memories = _stored("tea", "coffee", "cocoa")
    ranked[2] = ranked[2]._replace(score=0.3)
    assert [hit.id for hit in select(ranked, memories, limit=5, settings=RankSettings(gap=0.05)).kept] == ["0", "1"]
    assert len(select(ranked, memories, limit=5, settings=RankSettings(gap=0.9)).kept) == 3
    assert len(select(ranked, memories, limit=5).kept) == 3
    assert len(select(ranked[:1], memories, limit=5, settings=RankSettings(gap=0.05)).kept) == 1


@pytest.mark.parametrize("setting", [{"deliveries": 0.5}, {"feedback": 0.5}])
def test_deliveries_and_feedback_count_only_when_set(setting: dict[str, float]) -> None:
    ranked, memories = _stored("tea", "coffee")
    memories["1"] = replace(memories["1"], usage=Usage(delivered_total=100, successes=9))
    assert [hit.id for hit in select(ranked, memories, limit=2).kept] == ["0", "1"]
    assert [hit.id for hit in select(ranked, memories, limit=2, settings=RankSettings(**setting)).kept] == ["1", "0"]
