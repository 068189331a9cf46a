"""The candidates of the text and the vector search side by side, and the text that is embedded for
a query.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ...language.tokenizer import STOP_WORDS, tokens
from ...stores.base import TermMatrix, TextMatches
from .exact import rare_terms
from .rank_settings import Depth, RankSettings

Nearest: TypeAlias = Sequence[tuple[str, float]]
Numbers: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = npt.NDArray[np.intp]
_K1 = (0.6, 1.2)  # of short texts, and of long ones
_B = (0.2, 0.8)
_MIDDLE = 55.0  # index terms a memory; chat has 10 to 20, what is said to an agent 160 to 300
_STEEPNESS = 3
_COMMON = 0.4  # a word that more of a scope's short memories hold leaves the dense query
_COMMON_FROM = 20  # smaller scopes keep all words
_KEPT = 0.75  # of what a query asks stays in a rewrite of it


@dataclass(frozen=True)
class Candidates:
    """Candidates of the searches as arrays (row 0 to n - 1; one more row of nothing at the end).

    Attributes:
        rows: memory id → row.
        counts: how often each of the query's terms is in the memory.
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
        telling: 1 for each term, 0 for a number of one or two digits.
        usual_cosine: the full query's with what is no answer: the median of its list; 0 where that
            is short.
        trust: the weight of the vectors; less than 1 where their model does not know the query's
            script.
    """

    rows: dict[str, int]
    counts: Numbers
    lengths: Numbers
    idf: Numbers
    missing: float
    documents: int
    average_length: float
    dense: Numbers
    cosines: Numbers
    has_vectors: bool
    exact: npt.NDArray[np.bool_]
    telling: Numbers
    usual_cosine: float
    trust: float = 1.0

    @cached_property
    def ids(self) -> list[str]:
        """The candidates' ids, by row."""
        return list(self.rows)


def dense_text(query: str, text: TextMatches) -> str:
    """Return the query without the words that many of the scope's memories hold, for the vector
    leg.

    In chat those are names, which swamp a small embedding and tell no memory from another; the
    longer the texts, the more must hold a word. Scopes under 20 memories, and queries that would be
    left without a telling word, keep all.
    """
    if text.documents < _COMMON_FROM:
        return query
    most = text.documents * _between((_COMMON, 1.0), wordiness(text.average_length))
    if all(frequency <= most for frequency in text.frequencies.values()):
        return query
    kept: list[str] = []
    telling = False
    for word in query.split():
        terms = [term for term in tokens(word) if term not in STOP_WORDS]
        if terms and all(text.frequencies.get(term, 0) > most for term in terms):
            continue
        telling = telling or bool(terms)
        kept.append(word)
    return " ".join(kept) if telling else query


def join(
    terms: Sequence[str],
    text: TextMatches,
    nearest: Nearest = (),
    full: Nearest | None = None,
    *,
    added: Nearest = (),
    added_terms: Collection[str] = (),
    wanted: Sequence[frozenset[str]] = (),
    trust: float = 1.0,
    settings: RankSettings = RankSettings(),
) -> Candidates:
    """Both legs' candidates side by side.

    Args:
        terms: the query's terms, as searched.
        text: what the text leg found.
        nearest: to the vector that ranks (of the trimmed query).
        full: to the full query's vector; None: the same as `nearest`.
        added: to the vector of what a model made of the query.
        added_terms: those of the terms that only such a text holds.
        wanted: the terms of each identifier and name of the query.
        trust: the weight of the vectors.
        settings: what those weigh.
    """
    rows = {id: row for row, id in enumerate(text.matches)}
    ranking, asked, made = (
        _placed(found, rows) for found in (nearest, nearest if full is None else full, added)
    )
    size = len(rows) + 1
    used = [term for term in terms if term in text.frequencies]
    frequency = np.array([text.frequencies[term] for term in used], dtype=np.float64)
    cosines = _spread(*asked, size, np.nan)
    dense = _spread(ranking[0], _stretched(ranking[1]), size, 0.0)
    if added:
        dense += settings.added * _spread(made[0], _stretched(made[1]), size, 0.0)
        dense /= 1 + settings.added
    idf, unknown = (
        _idf(text.documents, frequency),
        [term for term in terms if term not in text.frequencies],
    )
    if added_terms:
        idf *= np.array([settings.added if term in added_terms else 1.0 for term in used])
        unknown = [term for term in unknown if term not in added_terms]
    matrix, lengths = term_matrix(text.matches, used), np.full(size, text.average_length or 1.0)
    counts = np.zeros((size, len(used)))
    lengths[: len(matrix)], counts[: len(matrix)] = matrix.lengths, matrix.counts
    return Candidates(
        rows=rows,
        counts=counts,
        lengths=lengths,
        idf=idf,
        missing=len(unknown) * float(_idf(text.documents, np.zeros(1))[0]) if unknown else 0.0,
        documents=text.documents,
        average_length=text.average_length or 1.0,
        dense=dense,
        cosines=cosines,
        has_vectors=len(nearest) > 0,
        exact=_exact(rare_terms(wanted, text.frequencies, text.documents), used, counts),
        telling=np.array(
            [not (term.isdecimal() and len(term) < 3) for term in used], dtype=np.float64
        ),
        usual_cosine=_usual(cosines),
        trust=trust,
    )


def term_matrix(matches: TermMatrix, terms: Sequence[str]) -> TermMatrix:
    """Return the matches of a text search with a column for each of these terms."""
    if list(matches.terms) == list(terms):
        return matches
    columns = {term: column for column, term in enumerate(matches.terms)}
    counts = np.zeros((len(matches), len(terms)), np.int64)
    known = [term in columns for term in terms]
    counts[:, known] = matches.counts[:, [columns[term] for term in terms if term in columns]]
    return TermMatrix(matches.ids, terms, matches.lengths, counts)


def keeps_what_is_asked(
    asked: AbstractSet[str],
    rewritten: AbstractSet[str],
    text: TextMatches,
    *,
    completed: bool = False,
) -> bool:
    """Return True if a rewrite holds three quarters of the query's words, weighed by rarity.

    Words that no memory holds count as well: a name alone, when it is all that is known of a
    question, is in many others. Where nothing is known, words have found nothing that a rewrite
    could lose.

    Args:
        asked: the query's terms.
        rewritten: the rewrite's.
        text: what both were searched for in.
        completed: the query brought earlier turns along; of what is known of these a rewrite need
            only pick what it is about.
    """
    if asked.isdisjoint(known := text.frequencies.keys()):
        return True
    told = asked & known if completed else asked
    terms = [*(told | (rewritten & known))]
    frequency = np.array([text.frequencies.get(term, 0) for term in terms], dtype=np.float64)
    rarity: dict[str, float] = dict(
        zip(terms, _idf(text.documents, frequency).tolist(), strict=True)
    )
    whole, made, kept = (
        sum(rarity[term] for term in rarity.keys() & some)
        for some in (told, rewritten, told & rewritten)
    )
    return kept >= _KEPT * (min(whole, made or whole) if completed else whole)


def shortlist(
    candidates: Candidates, settings: RankSettings = RankSettings(), depth: Depth = Depth()
) -> list[str]:
    """The ids of the best candidates by their own scores, best first: those whose features are
    worth reading.
    """
    own = (
        fused(
            candidates,
            bm25(candidates, candidates.counts, candidates.lengths),
            candidates.dense,
            settings,
        )[:-1]
        + candidates.exact[:-1]
    )
    if len(own) > depth.shortlist:
        best = (-own).argpartition(depth.shortlist)[: depth.shortlist]
        best = best[(-own[best]).argsort(kind="stable")]
    else:
        best = (-own).argsort(kind="stable")
    return [*map(candidates.ids.__getitem__, best.tolist())]


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
    """The scores, none of them negative, with the best as 1."""
    best = np.maximum.reduce(scores, initial=0.0)
    return scores / best if best > 0 else scores


def fused(
    candidates: Candidates, lexical: Numbers, dense: Numbers, settings: RankSettings
) -> Numbers:
    """Both legs' scores as one in 0..1; one leg's alone when the other has nothing to say."""
    if not candidates.has_vectors:
        return lexical
    if not candidates.idf.size:
        return dense
    return (candidates.trust * dense + settings.text * lexical) / (candidates.trust + settings.text)


def _idf(documents: int, frequency: Numbers) -> Numbers:
    """The rarity of terms that so many of the documents hold: BM25's inverse document frequency,
    never negative.
    """
    return np.log1p((documents - frequency + 0.5) / (frequency + 0.5))


def _between(ends: tuple[float, float], long: float) -> float:
    return ends[0] + (ends[1] - ends[0]) * long


def _exact(
    wanted: Sequence[AbstractSet[str]], used: Sequence[str], counts: Numbers
) -> npt.NDArray[np.bool_]:
    columns = {term: column for column, term in enumerate(used)}
    held = np.zeros(len(counts), np.bool_)
    for terms in wanted:
        if terms <= columns.keys():
            held |= (counts[:, [columns[term] for term in terms]] > 0).all(axis=1)
    return held


def _usual(cosines: Numbers) -> float:
    seen = cosines[~np.isnan(cosines)]
    return max(0.0, min(0.99, float(np.median(seen)))) if len(seen) >= _COMMON_FROM else 0.0


def _placed(found: Nearest, rows: dict[str, int]) -> tuple[Rows, Numbers]:
    """Return the rows and cosines of a list; new ids take new rows."""
    numbers = [rows.setdefault(key, len(rows)) for key, _ in found]
    return np.array(numbers, dtype=np.intp), np.array([near for _, near in found], dtype=np.float64)


def _spread(rows: Rows, values: Numbers, size: int, missing: float) -> Numbers:
    spread = np.full(size, missing)
    spread[rows] = values
    return spread


def _stretched(cosines: Numbers) -> Numbers:
    span = cosines[0] - cosines[-1] if len(cosines) else 0.0
    return (cosines - cosines[-1]) / span if span > 0 else np.ones(len(cosines))
