"""The candidates of the text and the vector search side by side, and the text that is embedded for a query."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ...language.tokenizer import STOP_WORDS, tokens
from ...stores.base import TermMatrix, TextMatches
from .exact import rare_terms
from .rank_settings import RankSettings

Nearest: TypeAlias = Sequence[tuple[str, float]]
Numbers: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = npt.NDArray[np.intp]
_K1 = (0.6, 1.2)  # of short texts, and of long ones
_B = (0.2, 0.8)
_MIDDLE = 55.0  # index terms a memory; chat has 10 to 20, what is said to an agent 160 to 300
_STEEPNESS = 3
_KEPT = 0.75  # of what a query asks stays in a rewrite of it
_TELLING = 5  # pairs of cosines from which on they tell how much wider one embedder's lie than another's


@dataclass(frozen=True)
class Candidates:
    """What the searches found, as arrays over the candidates (row 0 to n - 1; one more row of nothing at the end).

    Attributes:
        rows: memory id → row.
        counts: how often each of the query's terms is in the memory.
        lengths: number of index terms; the average where the text leg did not see the memory.
        idf: ln(1 + (N - f + 0.5) / (f + 0.5)) of each term (Robertson, Zaragoza 2009, kept above zero).
        missing: the idf of the terms that no memory holds, together.
        average_length: of the scope's memories.
        dense: the best of the query vectors' cosines, each stretched to 0..1 over its list; 0 where in none.
        cosines: of the full query; NaN where the vector leg did not see the memory.
        has_vectors: whether the vector leg answered at all.
        exact: whether the memory holds a rare identifier or name of the query.
    """

    rows: dict[str, int]
    counts: Numbers
    lengths: Numbers
    idf: Numbers
    missing: float
    average_length: float
    dense: Numbers
    cosines: Numbers
    has_vectors: bool
    exact: npt.NDArray[np.bool_]

    @cached_property
    def ids(self) -> list[str]:
        """The candidates' ids, by row."""
        return list(self.rows)


def dense_text(query: str, text: TextMatches, settings: RankSettings = RankSettings()) -> str:
    """The query without the words that most of the scope's memories hold (names, usually), for the vector leg.

    Such words swamp a small embedding and tell no memory from another. Scopes under 20 memories, and queries that
    would be left without a telling word, keep all of it.
    """
    if text.documents < settings.common_from:
        return query
    most = settings.common * text.documents
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
    nearest: Sequence[Nearest] = (),
    full: Sequence[Nearest] | None = None,
    *,
    added: Sequence[Nearest] = (),
    added_terms: Collection[str] = (),
    wanted: Sequence[frozenset[str]] = (),
    settings: RankSettings = RankSettings(),
) -> Candidates:
    """Both legs' candidates side by side.

    Args:
        terms: the query's terms, as searched.
        text: what the text leg found.
        nearest: one list for every vector that ranks (the trimmed query of each sentence).
        full: the lists of the full query's vectors; None: the same as `nearest`.
        added: one list for every vector of what a model made of the query.
        added_terms: those of the terms that only such a text holds.
        wanted: the terms of each identifier and name of the query.
        settings: what those weigh.
    """
    full = nearest if full is None else full
    rows = dict(zip(text.matches, range(len(text.matches)), strict=True))
    columns: dict[int, tuple[Rows, Numbers]] = {}
    for found in (*nearest, *full, *added):
        if found and id(found) not in columns:  # the full query's often ranks as well
            numbers = [rows.setdefault(key, len(rows)) for key, _ in found]
            columns[id(found)] = np.array(numbers), np.array([near for _, near in found])
    size, seen = len(rows) + 1, len(text.matches)

    def columns_of(some: Sequence[Nearest]) -> list[tuple[Rows, Numbers]]:
        return [columns[id(found)] for found in some if found]

    used = [term for term in terms if term in text.frequencies]
    frequency = np.array([text.frequencies[term] for term in used], dtype=np.float64)
    cosines = _best(columns_of(full), size, np.nan)
    dense = _best(map(_stretched, columns_of(nearest)), size, 0.0)
    if added:
        made = _best(map(_stretched, columns_of(added)), size, 0.0)
        dense = (dense + settings.added * made) / (1 + settings.added)
    idf, unknown = _idf(text.documents, frequency), [term for term in terms if term not in text.frequencies]
    if added_terms:
        idf *= np.array([settings.added if term in added_terms else 1.0 for term in used])
        unknown = [term for term in unknown if term not in added_terms]
    lengths = np.full(size, text.average_length or 1.0)
    if isinstance(text.matches, TermMatrix):
        lengths[:seen] = text.matches.lengths
    else:
        lengths[:seen] = [length for length, _ in text.matches.values()]
    counts = _counts(used, text, size)
    return Candidates(
        rows=rows,
        counts=counts,
        lengths=lengths,
        idf=idf,
        missing=len(unknown) * float(_idf(text.documents, np.zeros(1))[0]) if unknown else 0.0,
        average_length=text.average_length or 1.0,
        dense=dense,
        cosines=cosines,
        has_vectors=any(nearest),
        exact=_exact(rare_terms(wanted, text.frequencies, text.documents), used, counts),
    )


def keeps_what_is_asked(
    asked: AbstractSet[str], rewritten: AbstractSet[str], text: TextMatches, *, completed: bool = False
) -> bool:
    """Whether a rewrite still holds the query's words: three quarters of them, each by its rarity.

    Words that no memory holds count as well: a name alone, when it is all that is known of a question, is in many
    others. Where nothing is known, words have found nothing that a rewrite could lose.

    Args:
        asked: the query's terms.
        rewritten: the rewrite's.
        text: what both were searched for in.
        completed: the query brought earlier turns along; of what is known of these a rewrite need only pick what it is
            about.
    """
    if asked.isdisjoint(known := text.frequencies.keys()):
        return True
    told = asked & known if completed else asked
    terms = [*(told | (rewritten & known))]
    frequency = np.array([text.frequencies.get(term, 0) for term in terms], dtype=np.float64)
    rarity: dict[str, float] = dict(zip(terms, _idf(text.documents, frequency).tolist(), strict=True))
    whole, made, kept = (
        sum(rarity[term] for term in rarity.keys() & some) for some in (told, rewritten, told & rewritten)
    )
    return kept >= _KEPT * (min(whole, made or whole) if completed else whole)


def in_one_scale(new: Nearest, former: Nearest) -> Nearest:
    """What is nearest by two embedders as one list, each memory once, in the scale of the former one.

    A memory that both have seen keeps the former's cosine; those that only the new one knows get theirs shifted and
    stretched as those that both have seen tell.
    """
    held = dict(former)
    pairs = [(cosine, held[key]) for key, cosine in new if key in held]
    shift_from = shift_to = 0.0
    stretch = 1.0
    if pairs:
        theirs, ours = (np.array(column) for column in zip(*pairs, strict=True))
        shift_from, shift_to = float(theirs.mean()), float(ours.mean())
        if len(pairs) >= _TELLING and theirs.std() > 0:
            stretch = float(ours.std() / theirs.std())
    alone = [
        (key, round(min(1.0, max(-1.0, (cosine - shift_from) * stretch + shift_to)), 6))
        for key, cosine in new
        if key not in held
    ]
    return sorted([*former, *alone], key=lambda hit: (hit[1], hit[0]), reverse=True)


def shortlist(candidates: Candidates, settings: RankSettings = RankSettings()) -> list[str]:
    """The ids of the best candidates by their own scores, best first: those whose features are worth reading."""
    own = (
        fused(candidates, bm25(candidates, candidates.counts, candidates.lengths), candidates.dense, settings)[:-1]
        + candidates.exact[:-1]
    )
    if len(own) > settings.shortlist:
        best = (-own).argpartition(settings.shortlist)[: settings.shortlist]
        best = best[(-own[best]).argsort(kind="stable")]
    else:
        best = (-own).argsort(kind="stable")
    return [*map(candidates.ids.__getitem__, best.tolist())]


def wordiness(average_length: float) -> float:
    """Return how much like messages to an agent a scope's texts are: near 0 for chat, near 1 for pages."""
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


def fused(candidates: Candidates, lexical: Numbers, dense: Numbers, settings: RankSettings) -> Numbers:
    """Both legs' scores as one in 0..1; one leg's alone when the other has nothing to say."""
    if not candidates.has_vectors:
        return lexical
    if not candidates.idf.size:
        return dense
    return (dense + settings.text * lexical) / (1 + settings.text)


def _idf(documents: int, frequency: Numbers) -> Numbers:
    """The rarity of terms that so many of the documents hold: BM25's inverse document frequency, never negative."""
    return np.log1p((documents - frequency + 0.5) / (frequency + 0.5))


def _between(ends: tuple[float, float], long: float) -> float:
    return ends[0] + (ends[1] - ends[0]) * long


def _exact(wanted: Sequence[AbstractSet[str]], used: Sequence[str], counts: Numbers) -> npt.NDArray[np.bool_]:
    columns = {term: column for column, term in enumerate(used)}
    held = np.zeros(len(counts), np.bool_)
    for terms in wanted:
        if terms <= columns.keys():
            held |= (counts[:, [columns[term] for term in terms]] > 0).all(axis=1)
    return held


def _counts(used: Sequence[str], text: TextMatches, size: int) -> Numbers:
    matches = text.matches
    if isinstance(matches, TermMatrix):
        packed = np.zeros((size, len(used)))
        if list(matches.terms) == list(used):
            packed[: len(matches)] = matches.counts
        else:
            given = {term: column for column, term in enumerate(matches.terms)}
            packed[: len(matches)] = matches.counts[:, [given[term] for term in used]]
        return packed
    columns = {term: column for column, term in enumerate(used)}
    held = [
        (row, columns[term], count)
        for row, (_, counts) in enumerate(text.matches.values())
        for term, count in counts.items()
        if term in columns
    ]
    found = np.zeros((size, len(used)))
    if held:
        rows, terms, counts = zip(*held, strict=True)
        found[list(rows), list(terms)] = counts
    return found


def _best(lists: Iterable[tuple[Rows, Numbers]], size: int, missing: float) -> Numbers:
    best = np.full(size, missing)
    for rows, values in lists:
        best[rows] = np.fmax(best[rows], values)
    return best


def _stretched(found: tuple[Rows, Numbers]) -> tuple[Rows, Numbers]:
    rows, cosines = found
    low, span = cosines[-1], cosines[0] - cosines[-1]
    return rows, (cosines - low) / span if span > 0 else np.ones(len(cosines))
