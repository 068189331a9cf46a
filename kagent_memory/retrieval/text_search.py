"""Find memories by the words of a query in any form, or from the times that it names."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import numpy as np

from ..language.respelling import respellings, respelt
from ..language.tokenizer import holding, query_terms, tokens
from ..stores.columns import NO_ROWS
from ..stores.values import TermMatrix, TextMatches
from .ranking.table import dense_text, keeps_what_is_asked
from .search import Search

MAX_WINDOWS = 3  # a pasted log names hundreds


def by_words(search: Search, texts: Mapping[int, str]) -> tuple[TextMatches, str]:
    """Return the memories with the query's terms, and the text to search by vectors.

    Args:
        search: the search; its final terms and the memories from its times are set.
        texts: row → text to scan, for a query of stop words, which the index leaves out; else {}.
    """
    matches = _matches(search)
    if texts:
        holders = _holding(search.question.text, texts)
        if holders.rows.size:
            frequencies = dict.fromkeys(holders.terms, len(holders.rows))
            matches = matches._replace(matches=holders, frequencies=frequencies)
    elif matches.documents:
        matches = _with_other_forms(search, matches)
    return matches, dense_text(search.question.text, matches)


def _matches(search: Search) -> TextMatches:
    """Search by the terms of the query and of its rewrite, as they are written. Set those terms and
    the memories from the query's times; drop a rewrite that asks for something else.
    """
    question, view, added = search.question, search.view, search.added
    if added is not None:
        query = query_terms(search.text)
        both = view.text([*query, *added.terms], limit=0)
        if not keeps_what_is_asked(query, added.terms, both):
            search.added = added = None
    windows = question.windows or (added.windows if added else ())
    in_windows = (view.newest(search.shortlist, *ends) for ends in windows[:MAX_WINDOWS])
    search.dated = np.concatenate([NO_ROWS, *in_windows])
    undated = question.undated if search.dated.size else None
    search.date_only = undated is not None
    terms = question.terms if undated is None else undated
    search.respelt = {}
    search.added_terms = frozenset(added.terms).difference(terms) if added else frozenset()
    search.terms = [*terms, *sorted(search.added_terms)]
    return view.text(search.terms, limit=search.leg)


def _with_other_forms(search: Search, matches: TextMatches) -> TextMatches:
    """Return the memories with the terms in any form; terms that no memory holds are replaced by
    their corrections.
    """
    question, terms = search.question, search.terms
    exact_terms = [term for term in terms if term not in {*question.forms, *search.added_terms}]
    spellings = respellings(exact_terms, matches.frequencies)
    variants = [*chain.from_iterable((*question.forms.values(), *spellings.values()))]
    if not variants:
        return matches
    frequencies = {**matches.frequencies, **search.view.text(variants, limit=0).frequencies}
    search.respelt = respelt(terms, spellings, frequencies)
    replacements = {term: [term, *forms] for term, forms in question.forms.items()} | search.respelt
    final_terms = dict.fromkeys(
        form
        for term in terms
        for form in [other for other in replacements.get(term, ()) if other in frequencies]
        or [term]
    )
    content_terms = [term for term in final_terms if term not in question.small_words]
    search.terms = (
        content_terms if any(term in frequencies for term in content_terms) else [*final_terms]
    )
    # a query without other forms that a memory holds has been searched already
    return matches if search.terms == terms else search.view.text(search.terms, limit=search.leg)


def _holding(phrase: str, texts: Mapping[int, str]) -> TermMatrix:
    """Return the texts that `holding` finds, as a text search does.

    Args:
        phrase: the phrase.
        texts: the texts by row.

    Returns:
        For each text its number of words, and how often it holds each word of the phrase.
    """
    holders = holding(phrase, texts)
    terms = [*dict.fromkeys(tokens(phrase))]
    counts = np.array(
        [[row_words.count(term) for term in terms] for row_words in holders.values()], np.int64
    )
    lengths = np.array([*map(len, holders.values())], np.int64)
    rows = np.array([*holders], np.int64)
    return TermMatrix(rows, terms, lengths, counts.reshape(-1, len(terms)))
