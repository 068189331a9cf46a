"""The candidates of the text and the vector search side by side, and the text that is embedded for
a query.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...language.tokenizer import STOP_WORDS, tokens
from ...stores.columns import Mask, Rows
from ...stores.values import TextMatches
from ...stores.vectors import Nearest
from ..search import Search
from . import RankSettings

Numbers: TypeAlias = npt.NDArray[np.float64]
_K1 = (0.6, 1.2)  # of short texts, and of long ones
_B = (0.2, 0.8)
_MIDDLE = 55.0  # index terms a memory; chat has 10 to 20, what is said to an agent 160 to 300
_STEEPNESS = 3
_COMMON = 0.4  # a word that more of a scope's short memories hold leaves the dense query
_COMMON_FROM = 20  # smaller scopes keep all words
_KEPT = 0.75  # of what a query asks stays in a rewrite of it
_RARE = 0.01  # of the scope's memories may hold what tells one from the others


class Near(NamedTuple):
    """The memories nearest to each vector of a query.

    Attributes:
        trimmed: to that of the query without common words, which ranks.
        full: to that of the full query.
        added: to that of what a model made of the query.
    """

    trimmed: Nearest = Nearest()
    full: Nearest = Nearest()
    added: Nearest = Nearest()


@dataclass(frozen=True)
class Candidates:
    """Candidates of the searches as arrays (number 0 to n - 1; one more of nothing at the end).

    Attributes:
        rows: of the candidates in their index.
        numbers: the number of each row of the index; n for those that are no candidates.
        terms: those of the query that a memory holds.
        counts: how often each of them is in the memory.
        lengths: number of index terms; the average where the text leg did not see the memory.
        idf: ln(1 + (N - f + 0.5) / (f + 0.5)) of each term (Robertson, Zaragoza 2009, kept above
            zero).
        missing: the idf of the terms that no memory holds, together.
        documents: number of memories that were searched.
        average_length: of the scope's memories.
        dense: the cosine, stretched to 0..1 over its list; 0 where not in it.
        cosines: of the full query; NaN where the vector leg did not see the memory.
        has_vectors: whether the vector leg answered at all.
        exact: whether the memory holds a rare identifier or name of the query.
        names_known: whether the query holds an identifier or name that many of the memories hold.
    """

    rows: Rows
    numbers: Rows
    terms: Sequence[str]
    counts: Numbers
    lengths: Numbers
    idf: Numbers
    missing: float
    documents: int
    average_length: float
    dense: Numbers
    cosines: Numbers
    has_vectors: bool
    exact: Mask
    names_known: bool


def join(search: Search, text: TextMatches, near: Near, settings: RankSettings) -> Candidates:
    """Return both legs' candidates side by side.

    Args:
        search: what is searched for.
        text: what the text leg found.
        near: what the vector leg found.
        settings: the weight of what a model made of the query.
    """
    matches = text.matches
    joined = np.concatenate([matches.rows, *(nearest.rows for nearest in near)])
    rows = joined[np.sort(np.unique(joined, return_index=True)[1])]
    numbers = np.full(len(search.view.index.ids), len(rows))
    numbers[rows] = np.arange(len(rows))

    def column(nearest: Nearest, values: Numbers, missing: float) -> Numbers:
        column = np.full(len(rows) + 1, missing)
        column[numbers[nearest.rows]] = values
        return column

    dense = column(near.trimmed, _stretched(near.trimmed.cosines), 0.0)
    if near.added.rows.size:
        dense += settings.added * column(near.added, _stretched(near.added.cosines), 0.0)
        dense /= 1 + settings.added
    average_length = text.average_length or 1.0
    counts = np.zeros((len(rows) + 1, len(matches.terms)))
    lengths = np.full(len(rows) + 1, average_length)
    counts[: len(matches)], lengths[: len(matches)] = matches.counts, matches.lengths
    added = [term in search.added_terms for term in matches.terms]
    frequencies = np.array([text.frequencies[term] for term in matches.terms], np.float64)
    unknown = {*search.terms} - text.frequencies.keys() - search.added_terms
    return Candidates(
        rows=rows,
        numbers=numbers,
        terms=matches.terms,
        counts=counts,
        lengths=lengths,
        idf=_idf(text.documents, frequencies) * np.where(added, settings.added, 1.0),
        missing=len(unknown) * float(_idf(text.documents, np.zeros(1))[0]),
        documents=text.documents,
        average_length=average_length,
        dense=dense,
        cosines=column(near.full, near.full.cosines, np.nan),
        has_vectors=near.trimmed.rows.size > 0,
        exact=_exact(search.names, text, counts),
        names_known=any(_rarest(terms, text) > _few(text) for terms in search.names),
    )


def _stretched(cosines: Numbers) -> Numbers:
    """Return falling cosines stretched to 0..1."""
    span = cosines[0] - cosines[-1] if cosines.size else 0.0
    return (cosines - cosines[-1]) / span if span > 0 else np.ones(cosines.size)


def _exact(names: Sequence[Collection[str]], text: TextMatches, counts: Numbers) -> Mask:
    """Return whether each memory holds an identifier or name whose rarest term is in few of
    them.
    """
    columns = {term: column for column, term in enumerate(text.matches.terms)}
    exact = np.zeros(len(counts), np.bool_)
    for terms in names:
        if columns.keys() >= {*terms} and _rarest(terms, text) <= _few(text):
            exact |= (counts[:, [columns[term] for term in terms]] > 0).all(axis=1)
    return exact


def _rarest(terms: Collection[str], text: TextMatches) -> int:
    """Return how many memories hold the rarest of the terms."""
    return min(text.frequencies.get(term, 0) for term in terms)


def _few(text: TextMatches) -> float:
    """Return how many memories may hold a name that tells one from the others."""
    return max(1.0, _RARE * text.documents)


def dense_text(query: str, text: TextMatches) -> str:
    """Return the query without the words that many of the scope's memories hold, for the vector
    leg.

    In chat those are names, which swamp a small embedding and tell no memory from another; the
    longer the texts, the more must hold a word. Scopes under 20 memories, and queries that would be
    left without a telling word, keep all.
    """
    most = text.documents * _between((_COMMON, 1.0), wordiness(text.average_length or 1.0))
    common = {term for term, frequency in text.frequencies.items() if frequency > most}
    if text.documents < _COMMON_FROM or not common:
        return query
    kept: list[str] = []
    telling = False
    for word in query.split():
        terms = {*tokens(word)} - STOP_WORDS
        if not terms or not terms <= common:
            telling = telling or bool(terms)
            kept.append(word)
    return " ".join(kept) if telling else query


def keeps_what_is_asked(
    asked: Collection[str], rewritten: Collection[str], text: TextMatches
) -> bool:
    """Return True if a rewrite holds three quarters of the query's words, weighed by rarity.

    Words that no memory holds count as well: a name alone, when it is all that is known of a
    question, is in many others. Where nothing is known, words have found nothing that a rewrite
    could lose.

    Args:
        asked: the query's terms.
        rewritten: the rewrite's.
        text: what both were searched for in.
    """
    often, terms = text.frequencies, [*asked]
    rarity = _idf(text.documents, np.array([often.get(term, 0) for term in terms], np.float64))
    kept = rarity @ np.array([term in rewritten for term in terms])
    return often.keys().isdisjoint(asked) or bool(kept >= _KEPT * rarity.sum())


def shortlist(candidates: Candidates, search: Search, settings: RankSettings) -> Rows:
    """Return the rows of the best candidates by their own scores, best first: those whose features
    are worth reading.
    """
    words = bm25(candidates, candidates.counts, candidates.lengths)
    own = fused(candidates, words, candidates.dense, search, settings) + candidates.exact
    return candidates.rows[(-own[:-1]).argsort(kind="stable")[: search.shortlist]]


def wordiness(average_length: float) -> float:
    """Return how much like messages to an agent a scope's texts are: near 0 for chat, near 1 for
    pages.
    """
    return 1 / (1 + (_MIDDLE / average_length) ** _STEEPNESS)


def bm25(candidates: Candidates, counts: Numbers, lengths: Numbers) -> Numbers:
    """Return BM25 of every row (Robertson, Zaragoza 2009), as a share of the best.

    The longer a scope's texts are, the more a repeated word and a text's own length tell.
    """
    long = wordiness(candidates.average_length)
    k1, b = _between(_K1, long), _between(_B, long)
    norm = k1 * (1 - b + b * lengths / candidates.average_length)
    return share_of_best((counts * (k1 + 1) / (counts + norm[:, None])) @ candidates.idf)


def share_of_best(scores: Numbers) -> Numbers:
    """Return the scores, none of them negative, with the best as 1."""
    best = np.maximum.reduce(scores, initial=0.0)
    return scores / best if best > 0 else scores


def fused(
    candidates: Candidates, words: Numbers, dense: Numbers, search: Search, settings: RankSettings
) -> Numbers:
    """Return both legs' scores as one in 0..1; one leg's alone if the other is silent."""
    if not candidates.has_vectors:
        return words
    if not candidates.terms:
        return dense
    return (search.trust * dense + settings.text * words) / (search.trust + settings.text)


def _idf(documents: int, frequency: Numbers) -> Numbers:
    """Return the rarity of terms that so many of the documents hold."""
    return np.log1p((documents - frequency + 0.5) / (frequency + 0.5))


def _between(ends: tuple[float, float], long: float) -> float:
    return ends[0] + (ends[1] - ends[0]) * long
