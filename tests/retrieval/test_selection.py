from dataclasses import replace
from datetime import UTC, datetime, timedelta

from kagent_memory.records import Memory
from kagent_memory.retrieval.ranking import Ranked, RankSettings, select

AT = datetime(2026, 3, 4, tzinfo=UTC)


def _stored(*contents: str) -> tuple[list[Ranked], dict[str, Memory]]:
    memories = {
        str(n): Memory(id=str(n), content=text, created_at=AT, updated_at=AT)
        for n, text in enumerate(contents)
    }
    return [Ranked(key, 1 - int(key) / 10, None) for key in memories], memories


def _reasons(left_out: object) -> list[tuple[str, str]]:
    return [(left.memory_id, left.reason) for left in left_out]  # type: ignore[attr-defined]


def test_equal_words_take_one_place_and_the_next_moves_up() -> None:
    ranked, memories = _stored("the user likes tea", "The user likes tea.", "User lives in Rome")
    selection = select(ranked, memories, limit=2)
    assert [hit.id for hit in selection.kept] == ["0", "2"]
    assert _reasons(selection.left_out) == [("1", "duplicate")]


def test_other_words_are_another_memory_however_few_differ() -> None:
    ranked, memories = _stored(
        "The user likes tea", "The user likes no tea", "The user likes 2 teas"
    )
    assert len(select(ranked, memories, limit=5).kept) == 3


def test_of_two_linked_memories_the_better_is_handed_over() -> None:
    """Links are pairwise: what is linked with one that was left out has a place of its own."""
    ranked, memories = _stored(
        "likes green tea", "green tea is a favourite", "enjoys a cup of green tea"
    )
    for one, other in (("0", "1"), ("1", "2")):
        memories[one] = replace(memories[one], links=(*memories[one].links, other))
        memories[other] = replace(memories[other], links=(*memories[other].links, one))
    selection = select(ranked, memories, limit=5)
    assert [hit.id for hit in selection.kept] == ["0", "2"]
    assert _reasons(selection.left_out) == [("1", "same")]


def test_an_explicit_save_stands_beside_what_contradicts_it() -> None:
    """Both are handed over, the newer first."""
    ranked, memories = _stored("lives in Oslo", "likes tea", "lives in Lima")
    later = AT + timedelta(days=1)
    memories["0"] = replace(memories["0"], explicit=True, links=("2",))
    memories["2"] = replace(memories["2"], said_at=later, valid_from=later, links=("0",))
    assert [hit.id for hit in select(ranked, memories, limit=5).kept] == ["2", "0", "1"]


def test_the_same_words_of_two_authors_are_two_memories() -> None:
    ranked, memories = _stored("I like tea", "I like tea")
    memories["1"] = replace(memories["1"], author="Bo")
    assert len(select(ranked, memories, limit=5).kept) == 2


def test_what_is_left_out_is_told() -> None:
    """What vanished meanwhile, and what is over the limit."""
    ranked, memories = _stored("tea", "coffee", "cocoa")
    del memories["0"]
    assert _reasons(select(ranked, memories, limit=1).left_out) == [
        ("0", "expired"),
        ("2", "limit"),
    ]


def test_the_token_budget_keeps_the_best_and_always_one() -> None:
    ranked, memories = _stored("a" * 400, "b" * 400, "c" * 4)
    selection = select(ranked, memories, limit=5, max_tokens=120)
    assert [hit.id for hit in selection.kept] == ["0", "2"]
    assert _reasons(selection.left_out) == [("1", "budget")]
    assert [hit.id for hit in select(ranked, memories, limit=5, max_tokens=1).kept] == ["0"]
    wide, memories = _stored("茶" * 100, "茶" * 30)
    assert [hit.id for hit in select(wide, memories, limit=5, max_tokens=120).kept] == ["0"]


def test_standing_counts_only_when_set() -> None:
    ranked, memories = _stored("tea", "coffee")
    weights = {"0": 0.1, "1": 0.9}
    for setting, order in ((0.0, ["0", "1"]), (0.5, ["1", "0"])):
        selection = select(
            ranked,
            memories,
            limit=2,
            settings=RankSettings(standing=setting),
            standing=lambda memory: weights[memory.id],
        )
        assert [hit.id for hit in selection.kept] == order
