"""The candidates of a search as arrays, and the text to embed for a query."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...language.tokenizer import STOP_WORDS, tokens
from ...settings.ranking import RankSettings
from ...stores.columns import NO_SESSION, NONE, Mask, Rows, best, spots_of
from ...stores.values import TextMatches
from ...stores.vectors import Nearest
from ..search import Search

Numbers: TypeAlias = npt.NDArray[np.float64]
STEPS = (-1, 1, -2, 2)  # from a turn to its neighbours, first to the turn before it
_K1 = (0.6, 1.2)  # of short texts, and of long ones
_B = (0.2, 0.8)
# index terms per memory for a wordiness of 0.5; chat has 10 to 20, messages to an agent 160 to 300
_MIDDLE = 55.0
_STEEPNESS = 3
_COMMON = 0.4  # a word that more of a scope's short memories hold leaves the dense query
_COMMON_FROM = 20  # smaller scopes keep all words
_KEPT = 0.75  # share of the query's words, by rarity, that a rewrite must keep
_RARE = 0.01  # a name is rare if at most this share of the scope's memories holds it


class Near(NamedTuple):
    """The memories nearest to each vector of a query.

    Attributes:
        trimmed: nearest to the query without common words, blended with its rewrite; ranking uses
            these.
        full: nearest to the full query; `min_score` and relevance use these.
    """

    trimmed: Nearest = Nearest()
    full: Nearest = Nearest()


def _spread(
    values: npt.NDArray[np.generic], rows: Rows, size: int, missing: float = 0.0
) -> Numbers:
    """Return one value for each row of an index: those of some rows, `missing` for the others."""
    shape = (size, *values.shape[1:])
    spread = np.full(shape, missing) if missing else np.zeros(shape)
    spread[rows] = values
    return spread


def _mask(size: int, *groups: Rows) -> Mask:
    """Return the mask of these rows of an index."""
    mask = np.zeros(size, np.bool_)
    for rows in groups:
        mask[rows] = True
    return mask


class Table:
    """The candidates of a search as parallel arrays: the terms, cosine, session and time of each.

    Candidates are the best results of both searches by their own scores, the memories from the
    query's dates, and the turns around all of these.

    Args:
        search: the search.
        text: the result of the text search.
        near: the result of the vector search.
        settings: the weights of the legs.

    Attributes:
        rows: the rows of the candidates in the index.
        columns, authors: the other values that the index holds of each.
        counts: how often each candidate holds each query term, of the terms that any memory holds.
        lengths: the number of index terms; the average where the text search did not find the
            memory.
        idf: ln(1 + (N - f + 0.5) / (f + 0.5)) of each term (Robertson, Zaragoza 2009, kept above
            zero).
        missing: the idf of the terms that no memory holds, together.
        average_length: the mean number of index terms of the scope's memories.
        long: the wordiness of the scope's texts, 0..1: see `wordiness`.
        dense: the cosine to the trimmed query, stretched to 0..1 over the list; 0 where not in it.
        cosines: the cosine to the full query; NaN where the vector search did not find the memory.
        has_vectors: True if the vector search found anything.
        dated: True for a memory from a date that the query names.
        exact: True for a memory that holds a rare identifier or name of the query.
        names_known: True if the query holds an identifier or name that many memories hold.
        asks: 1 for a memory that ends with a question.
        turns: for each of `STEPS` the place of the turn so far away from each candidate in its
            session; one past the last if that is no candidate.
        sessions: the number of each candidate's session; one without a session is alone in its own.
    """

    def __init__(
        self, search: Search, text: TextMatches, near: Near, settings: RankSettings
    ) -> None:
        self.text = text
        self.near = near
        self._trust = search.trust
        self._text_weight = settings.text
        matches = text.matches
        self.average_length = text.average_length or 1.0
        self.long = wordiness(self.average_length)
        weights = [settings.added if term in search.added_terms else 1.0 for term in matches.terms]
        unknown = {*search.terms} - text.frequencies.keys() - search.added_terms
        # the last one is of a term that no memory holds
        idf = _idf(text.documents, [*(text.frequencies[term] for term in matches.terms), 0])
        self.idf = idf[:-1] * weights
        self.missing = len(unknown) * float(idf[-1])
        self.has_vectors = near.trimmed.rows.size > 0
        few = max(1.0, _RARE * text.documents)
        rare = [
            terms
            for terms in search.names
            if min(text.frequencies.get(term, 0) for term in terms) <= few
        ]
        self.names_known = len(rare) < len(search.names)
        index = search.view.index
        size = len(index.ids)
        words = _spread(self.bm25(matches.counts, matches.lengths), matches.rows, size)
        dense = _spread(_stretched(near.trimmed.cosines), near.trimmed.rows, size)
        exact = _spread(self._exact(rare), matches.rows, size)
        candidates = _mask(size, matches.rows, near.trimmed.rows, near.full.rows).nonzero()[0]
        own_scores = self.fused(words[candidates], dense[candidates]) + exact[candidates]
        shortlist = candidates[best(own_scores, search.shortlist)]
        rows = index.near(
            np.concatenate([shortlist, search.dated]), max(STEPS), search.view.current
        )

        self.rows = rows
        self.columns = index.columns[rows]
        self.authors: list[str | None] = [index.authors[row] for row in rows.tolist()]
        self.counts = _spread(matches.counts, matches.rows, size)[rows]
        self.lengths = _spread(matches.lengths, matches.rows, size, self.average_length)[rows]
        self.exact = exact[rows] > 0
        self.dense = dense[rows]
        self.cosines = _spread(near.full.cosines, near.full.rows, size, np.nan)[rows]
        self.dated = _mask(size, search.dated)[rows]
        self.asks = self.columns["asks"].astype(np.float64)
        spots, rising, order = spots_of(self.columns)
        targets = spots + np.array(STEPS)[:, None]
        # -1, the last spot, for a target before all spots: it is found unequal
        last = rising.searchsorted(targets, "right") - 1
        is_there = (spots != NONE) & (rising[last] == targets)
        self.turns = np.where(is_there, order[last], len(rows))
        sessions = self.columns["session"]
        alone = np.where(sessions == NO_SESSION, np.arange(len(rows)), sessions)
        self.sessions = np.sort(alone).searchsorted(alone)

    def _exact(self, names: Sequence[frozenset[str]]) -> Mask:
        """Return the mask of text matches that hold one of these identifiers and names."""
        matches = self.text.matches
        columns = {term: column for column, term in enumerate(matches.terms)}
        exact = np.zeros(len(matches.rows), np.bool_)
        for terms in names:
            if columns.keys() >= terms:
                exact |= (matches.counts[:, [columns[term] for term in terms]] > 0).all(axis=1)
        return exact

    def bm25(self, counts: Numbers | Rows, lengths: Numbers | Rows) -> Numbers:
        """Return BM25 of every row (Robertson, Zaragoza 2009), as a share of the best.

        The longer the texts of a scope, the more repeated words and the length of a text count.
        """
        k1 = _between(_K1, self.long)
        b = _between(_B, self.long)
        norm = k1 * (1 - b + b * lengths / self.average_length)
        return share_of_best((counts * (k1 + 1) / (counts + norm[:, None])) @ self.idf)

    def fused(self, words: Numbers, dense: Numbers) -> Numbers:
        """Return the scores of both legs as one in 0..1; of one leg if the other has none."""
        if not self.has_vectors:
            return words
        if not self.text.matches.terms:
            return dense
        weighted = self._trust * dense + self._text_weight * words
        return weighted / (self._trust + self._text_weight)

    def of_windows(self) -> tuple[Numbers, Numbers]:
        """Return how often each candidate and the turns around it hold each term, and their mean
        cosine; each step away halves the weight of a turn.
        """
        # counts, cosines and ones in one array: each step is one addition, and the ones add up to
        # the weight of the turns that exist
        candidates, terms = self.counts.shape
        padded = np.zeros((candidates + 1, terms + 2))
        padded[:-1, :-2] = self.counts
        padded[:-1, -2] = self.dense
        padded[:-1, -1] = 1.0
        totals = padded[:-1].copy()
        for step, places in zip(STEPS, self.turns, strict=True):
            totals += padded[places] / 2 ** abs(step)
        return totals[:, :-2], totals[:, -2] / totals[:, -1]

    def of_sessions(self) -> tuple[Numbers, Numbers]:
        """Return how often each session holds each term, and its highest cosine, by session."""
        size = int(self.sessions.max(initial=-1)) + 1
        counts = np.zeros((size, self.counts.shape[1]))
        nearest = np.zeros(size)
        np.add.at(counts, self.sessions, self.counts)
        np.maximum.at(nearest, self.sessions, self.dense)
        return counts, nearest


def keeps_what_is_asked(
    query: Collection[str], rewritten: Collection[str], text: TextMatches
) -> bool:
    """Return True if a rewrite holds three quarters of the query's words, weighed by rarity.

    Words that no memory holds count as well; otherwise a rewrite could pass by keeping only a
    common name. If no memory holds any word of the query, a rewrite loses nothing.

    Args:
        query: the terms of the query.
        rewritten: the terms of the rewrite.
        text: the text search of both.
    """
    frequencies = text.frequencies
    terms = [*query]
    rarity = _idf(text.documents, [frequencies.get(term, 0) for term in terms])
    weight = rarity @ np.array([term in rewritten for term in terms])
    return frequencies.keys().isdisjoint(query) or bool(weight >= _KEPT * rarity.sum())


def _stretched(cosines: Numbers) -> Numbers:
    """Stretch cosines, highest first, to 0..1."""
    span = cosines[0] - cosines[-1] if cosines.size else 0.0
    return (cosines - cosines[-1]) / span if span > 0 else np.ones(cosines.size)


def dense_text(query: str, text: TextMatches) -> str:
    """Return the query without the words that many of the scope's memories hold, for the vector
    leg.

    In chat those are names, which swamp a small embedding and distinguish no memories; the longer
    the texts, the more memories must hold a word. Scopes under 20 memories, and queries that would
    lose every content word, keep all words.
    """
    most = text.documents * _between((_COMMON, 1.0), wordiness(text.average_length or 1.0))
    common = {term for term, frequency in text.frequencies.items() if frequency > most}
    if text.documents < _COMMON_FROM or not common:
        return query
    words = [
        word
        for word in query.split()
        if not (terms := {*tokens(word)} - STOP_WORDS) or not terms <= common
    ]
    shorter = " ".join(words)
    return shorter if {*tokens(shorter)} - STOP_WORDS else query


def wordiness(average_length: float) -> float:
    """Return how much the texts of a scope are like messages to an agent: near 0 for chat, near 1
    for pages.
    """
    return 1 / (1 + (_MIDDLE / average_length) ** _STEEPNESS)


def share_of_best(scores: Numbers) -> Numbers:
    """Return the scores, none of them negative, relative to the best."""
    best = np.maximum.reduce(scores, initial=0.0)
    return scores / best if best > 0 else scores


def _idf(documents: int, frequencies: Sequence[int]) -> Numbers:
    """Return the inverse document frequency of terms with these document counts."""
    counts = np.array(frequencies, np.float64)
    return np.log1p((documents - counts + 0.5) / (counts + 0.5))


def _between(ends: tuple[float, float], long: float) -> float:
    return ends[0] + (ends[1] - ends[0]) * long
