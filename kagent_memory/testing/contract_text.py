"""The text leg: what BM25 needs, counted over one scope's visible memories; and what ranking knows
of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ..language.tokenizer import index_terms, query_terms
from ..records import Memory
from ..stores.view import View
from .contract_round_trip import texts as any_text
from .fixtures import BEYOND_INT32, HOSTILE, NOW, ContractPart, ScopedStore, a_memory, examples

WORDS = ("zebra", "yak", "lynx", "otter", "heron", "ibex")
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)


async def assert_found(
    view: View, memories: Sequence[Memory], terms: Sequence[str], limit: int
) -> None:
    """Assert what the docstring of `View.text` promises where these are the memories of the
    view.
    """
    indexed = {memory.id: index_terms(memory.content, memory.author) for memory in memories}
    lengths = {id: sum(counts.values()) for id, counts in indexed.items()}
    frequencies = {
        term: n for term in terms if (n := sum(term in counts for counts in indexed.values()))
    }
    weights = {
        id: sum(
            (Fraction(1, frequencies[term]) for term in frequencies if term in counts), Fraction()
        )
        for id, counts in indexed.items()
    }
    best = sorted(
        (id for id in indexed if weights[id]), key=lambda id: (weights[id], id), reverse=True
    )[:limit]
    found = await view.text(terms, limit=limit)
    assert found.documents == len(memories)
    assert found.average_length == pytest.approx(sum(lengths.values()) / max(1, len(memories)))
    assert dict(found.frequencies) == frequencies
    assert {id: (length, dict(counts)) for id, (length, counts) in found.matches.items()} == {
        id: (lengths[id], {term: indexed[id][term] for term in frequencies if term in indexed[id]})
        for id in best
    }


class TextSearchContract(ContractPart):
    """Frequencies and lengths of the scope alone; rarest terms first."""

    @examples
    @given(
        contents=st.lists(sentences, max_size=8, unique=True),
        terms=st.lists(st.sampled_from([*WORDS, "gnu"]), max_size=4, unique=True),
        limit=st.sampled_from([0, 1, 2, 3, BEYOND_INT32]),
    )
    async def test_the_counts_and_the_cut_are_exact(
        self, home: ScopedStore, contents: list[str], terms: list[str], limit: int
    ) -> None:
        """For any memories and terms: the rarest terms win, equal weights tie; no terms give the
        counts.
        """
        home, memories = home.elsewhere(), [a_memory(content) for content in contents]
        await home.add(*memories)
        await assert_found(home.view(), memories, terms, limit)

    @examples
    @given(
        content=any_text.filter(bool),
        author=any_text,
        terms=st.lists(any_text | st.sampled_from(HOSTILE)),
    )
    async def test_any_text_is_found_by_its_own_words(
        self, home: ScopedStore, content: str, author: str, terms: list[str]
    ) -> None:
        """And any text may be asked for as a term."""
        home, memory = home.elsewhere(), a_memory(content, author=author)
        await home.add(memory)
        for asked in (
            list(index_terms(content, author)),
            query_terms(content),
            list(dict.fromkeys(terms)),
        ):
            await assert_found(home.view(), [memory], asked, 9)

    async def test_features_tell_what_ranking_needs(self, home: ScopedStore) -> None:
        """The length, whether it asks and whether it names a time, an author's name aside; kept
        when it changes.
        """
        told = [
            ("Why? ", None, True, False),
            ("لماذا؟\n", None, True, False),
            ("Why? Because", None, False, False),
            ("We moved in last autumn", "ann", False, True),
            ("Seit Dienstag ist sie da", "ann", False, True),
            ("April came back", "April", False, False),
            ("April came back on Friday", "April", False, True),
        ]
        memories = [a_memory(content, author=author) for content, author, *_ in told]
        await home.add(*memories)
        places = {
            place.id: place for place in await home.features(*(memory.id for memory in memories))
        }
        for memory, (content, _, asks, names_a_time) in zip(memories, told, strict=True):
            place = places[memory.id]
            assert (place.chars, place.asks, place.names_a_time) == (
                len(content),
                asks,
                names_a_time,
            ), content
        await home.change(memories[-1], content="It is so since Monday")
        assert [place.names_a_time for place in await home.features(memories[-1].id)] == [True]

    async def test_features_reach_to_the_neighbours_of_a_turn(self, home: ScopedStore) -> None:
        """In its session only, each once, with what ranking reads of them."""
        turns = await home.write(
            *(f"turn {n}" for n in range(6)), session_id="s", author="ann", happened_at=NOW
        )
        await home.write(*(f"other {n}" for n in range(6)), session_id="t")
        [alone] = await home.write("alone")
        near = await home.features(turns[2].id, alone.id, reach=2)
        assert sorted(place.id for place in near) == sorted(
            [*(turn.id for turn in turns[:5]), alone.id]
        )
        [place] = await home.features(turns[2].id)
        assert (place.id, place.session_id, place.position, place.author) == (
            turns[2].id,
            "s",
            2,
            "ann",
        )
        assert (place.happened_at, place.created_at) == (NOW, turns[2].created_at)
        assert place.importance == 0.5
