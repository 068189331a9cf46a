"""The text leg: what BM25 needs, counted over one scope's visible memories."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ..language.tokenizer import index_terms, query_terms
from ..records import Filter, Memory, Scope, new_id
from ..stores.base import Store, TextMatches
from ..stores.view import texts
from .contract_round_trip import texts as any_text
from .fixtures import BEYOND_INT32, HOSTILE, NOW, ContractPart, a_memory, a_scope, add, examples

WORDS = ("zebra", "yak", "lynx", "otter", "heron", "ibex")
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)


def expected_matches(memories: Sequence[Memory], terms: Sequence[str], limit: int) -> TextMatches:
    """What the docstring of `View.text` promises for these visible memories, in Python."""
    indexed = {memory.id: index_terms(memory.content, memory.author) for memory in memories}
    lengths = {id: sum(counts.values()) for id, counts in indexed.items()}
    frequencies = {term: sum(term in counts for counts in indexed.values()) for term in dict.fromkeys(terms)}
    frequencies = {term: count for term, count in frequencies.items() if count}
    weights = {
        id: sum((Fraction(1, frequencies[term]) for term in frequencies if term in counts), Fraction())
        for id, counts in indexed.items()
    }
    best = sorted((id for id in indexed if weights[id]), key=lambda id: (weights[id], id), reverse=True)[:limit]
    return TextMatches(
        documents=len(memories),
        average_length=sum(lengths.values()) / len(memories) if memories else 0.0,
        frequencies=frequencies,
        matches={
            id: (lengths[id], {term: indexed[id][term] for term in frequencies if term in indexed[id]}) for id in best
        },
    )


async def assert_found(
    store: Store, scope: Scope, memories: Sequence[Memory], terms: Sequence[str], limit: int
) -> None:
    """The store answers what Python expects of these memories."""
    found = await store.view(scope, now=NOW).text(terms, limit=limit)
    wanted = expected_matches(memories, terms, limit)
    assert found.documents == wanted.documents
    assert found.average_length == pytest.approx(wanted.average_length)
    assert dict(found.frequencies) == dict(wanted.frequencies)
    assert {id: (length, dict(counts)) for id, (length, counts) in found.matches.items()} == dict(wanted.matches)


def plain(found: TextMatches) -> tuple[Any, ...]:
    """The answer in a form that compares with its order."""
    matches = [(id, length, dict(counts)) for id, (length, counts) in found.matches.items()]
    return found.documents, found.average_length, dict(found.frequencies), matches


class TextSearchContract(ContractPart):
    """Frequencies and lengths of the scope alone; rarest terms first."""

    @examples
    @given(
        contents=st.lists(sentences, max_size=8, unique=True),
        terms=st.lists(st.sampled_from([*WORDS, "gnu"]), max_size=4, unique=True),
        limit=st.sampled_from([0, 1, 2, 3, BEYOND_INT32]),
    )
    async def test_counts_lengths_and_the_cut_are_those_of_the_scope(
        self, store: Store, contents: list[str], terms: list[str], limit: int
    ) -> None:
        scope = a_scope()
        memories = [a_memory(content) for content in contents]
        await add(store, scope, *memories)
        await assert_found(store, scope, memories, terms, limit)

    @examples
    @given(content=any_text.filter(bool), author=any_text)
    async def test_any_text_is_found_by_its_own_words(self, store: Store, content: str, author: str) -> None:
        scope = a_scope()
        memory = a_memory(content, author=author)
        await add(store, scope, memory)
        await assert_found(store, scope, [memory], list(index_terms(content, author)), 9)
        await assert_found(store, scope, [memory], query_terms(content), 9)

    @examples
    @given(terms=st.lists(any_text | st.sampled_from(HOSTILE), max_size=5))
    async def test_any_text_may_be_asked_for_as_a_term(self, store: Store, terms: list[str]) -> None:
        scope = a_scope()
        memory = a_memory("zebra * NEAR yak")
        await add(store, scope, memory)
        await assert_found(store, scope, [memory], terms, 9)

    async def test_rare_terms_win_the_cut_over_many_common_ones(self, store: Store) -> None:
        scope = a_scope()
        common = [a_memory(f"zebra yak {number}") for number in range(20)]
        rare = a_memory("lynx")
        await add(store, scope, rare, *common)
        found = await store.view(scope, now=NOW).text(["zebra", "yak", "lynx"], limit=1)
        assert list(found.matches) == [rare.id]
        assert dict(found.frequencies) == {"zebra": 20, "yak": 20, "lynx": 1}

    async def test_equal_weights_tie_whatever_their_sums_are_made_of(self, store: Store) -> None:
        scope = a_scope()
        # 1/7 + 1/3 + 1/2 against 1/2 + 1/3 + 1/7: sums of floats differ by their order, and ids must decide.
        held = {"alpaca": 7, "bison": 3, "camel": 2, "dingo": 2, "eland": 3, "fossa": 7}
        first, last = sorted((new_id(), new_id()))
        pairs = [a_memory("alpaca bison camel", id=first), a_memory("dingo eland fossa", id=last)]
        fillers = [a_memory(f"{term} filler{number}") for term, n in held.items() for number in range(n - 1)]
        await add(store, scope, *pairs, *fillers)
        await assert_found(store, scope, [*pairs, *fillers], list(held), 1)

    async def test_a_thousand_memories_of_others_change_no_count(self, store: Store) -> None:
        scope = a_scope()
        mine = [a_memory("zebra yak"), a_memory("yak")]
        await add(store, scope, *mine)
        for _ in range(10):
            await add(store, a_scope(), *(a_memory(f"zebra zebra {number}") for number in range(100)))
        await assert_found(store, scope, mine, ["zebra", "yak"], 9)

    async def test_the_counts_are_of_what_passes_the_filter(self, store: Store) -> None:
        scope = a_scope()
        memories = [a_memory("zebra", tags=("x",)), a_memory("zebra yak lynx", tags=("y",))]
        await add(store, scope, *memories)
        found = await store.view(scope, filter=Filter(tags=("x",)), now=NOW).text(["zebra", "yak"], limit=9)
        assert (found.documents, found.average_length, dict(found.frequencies)) == (1, 1.0, {"zebra": 1})
        assert set(found.matches) == {memories[0].id}

    async def test_many_queries_of_a_view_are_answered_as_each_alone(self, store: Store) -> None:
        scope = a_scope()
        await add(store, scope, *(a_memory(f"zebra yak {number}", tags=("x",) * (number % 2)) for number in range(9)))
        queries = [["zebra"], [], ["gnu"], ["yak", "3", "4"], ["zebra"], ["8"]]
        for narrowed in (Filter(), Filter(tags=("x",)), Filter(tags=("nobody",))):
            together = await texts(store.view(scope, filter=narrowed, now=NOW), queries, limit=3)
            alone = [await store.view(scope, filter=narrowed, now=NOW).text(terms, limit=3) for terms in queries]
            assert [plain(found) for found in together] == [plain(found) for found in alone]

    async def test_no_terms_give_the_counts_alone(self, store: Store) -> None:
        scope = a_scope()
        memories = [a_memory("zebra yak"), a_memory("!?")]
        await add(store, scope, *memories)
        await assert_found(store, scope, memories, [], 9)

    async def test_hundreds_of_terms_are_one_question(self, store: Store) -> None:
        scope = a_scope()
        memory = a_memory(" ".join(f"word{number}" for number in range(800)))
        await add(store, scope, memory)
        await assert_found(store, scope, [memory], query_terms(memory.content), 9)
