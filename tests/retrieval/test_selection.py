"""Selection of hits from a ranking, and the reasons for the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from kagent_memory.records import Exclusion, Memory
from kagent_memory.retrieval.question import Question
from kagent_memory.retrieval.ranking.rank import Ranked
from kagent_memory.retrieval.ranking.selection import select
from kagent_memory.retrieval.search import Search
from kagent_memory.testing.fixtures import DAY, NOW, a_memory

Stored = dict[int, Memory]
Selected = tuple[Sequence[Ranked], Mapping[int, Exclusion]]


def stored(*contents: str, **first: Any) -> Stored:
    """Return memories by row, the best match first; `first` are fields of that one."""
    memories = {n: a_memory(text, id=str(n)) for n, text in enumerate(contents)}
    return memories | {0: replace(memories[0], **first)}


def selected(
    memories: Stored,
    *,
    ranked: str = "",
    text: str = "",
    step: float = 0.1,
    limit: int = 5,
    budget: int | None = None,
) -> Selected:
    search = Search(
        scopes=(),
        text=text,
        question=Question.read(text, NOW),
        now=NOW,
        limit=limit,
        budget_tokens=budget,
    )
    view: Any = SimpleNamespace(rows_of=lambda beside, ids: [int(id) for id in ids])
    search.view = view
    hits = [Ranked(int(row), 1 - int(row) * step, None) for row in ranked or memories]
    return select(search, hits, memories)


def ids(selected: Selected) -> str:
    return "".join(str(hit.row) for hit in selected[0])


def test_equal_words_take_one_place():
    """The next memory moves up."""
    memories = stored("the user likes tea", "The user likes tea.", "User lives in Rome")
    selection = selected(memories, limit=2)
    assert ids(selection) == "02"
    assert selection[1] == {1: "duplicate"}


def test_other_words_are_another_memory():
    """However few differ; and so are the same words of another author."""
    memories = stored("The user likes tea", "The user likes no tea", "The user likes 2 teas")
    assert ids(selected(memories)) == "012"
    assert ids(selected(stored("I like tea", "I like tea", author="Bo"))) == "01"


def test_of_two_linked_memories_the_better_is_handed_over():
    """Links are pairwise: what is linked with one that was left out has a place of its own."""
    memories = stored(
        "likes green tea", "green tea is a favourite", "enjoys a cup of green tea", links=("1",)
    )
    memories[1] = replace(memories[1], links=("0", "2"))
    memories[2] = replace(memories[2], links=("1",))
    selection = selected(memories)
    assert ids(selection) == "02"
    assert selection[1] == {1: "same"}


def test_of_two_linked_memories_with_one_score_words_decide():
    """Of two linked memories with about the same score, the one with the words of the query is
    delivered.
    """
    memories = stored("User lives in Oslo", "User moved to Lima")
    memories[1] = replace(memories[1], links=("0",))
    for step, handed_over in ((0.05, "1"), (0.2, "0")):
        assert ids(selected(memories, text="Who moved to Lima?", step=step)) == handed_over


def test_an_explicit_save_stands_beside_what_contradicts_it():
    """Both are handed over, the newer first."""
    memories = stored("lives in Oslo", "likes tea", "lives in Lima", explicit=True, links=("2",))
    later = NOW + DAY
    memories[2] = replace(memories[2], said_at=later, valid_from=later, links=("0",))
    assert ids(selected(memories)) == "201"


def test_what_is_left_out_is_told():
    """Memories that vanished meanwhile or exceed the limit are named with the reason."""
    memories = stored("coffee", "cocoa")
    assert selected(memories, ranked="901", limit=1)[1] == {9: "expired", 1: "limit"}


def test_the_token_budget_keeps_the_best_and_always_one():
    """A shorter memory may follow one that is too long for the rest."""
    memories = stored("a" * 400, "b" * 400, "c" * 4)
    selection = selected(memories, budget=120)
    assert ids(selection) == "02"
    assert selection[1] == {1: "budget"}
    assert ids(selected(memories, budget=1)) == "0"
    assert ids(selected(stored("茶" * 100, "茶" * 30), budget=120)) == "0"
