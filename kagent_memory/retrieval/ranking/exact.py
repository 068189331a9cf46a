"""Which memories hold an identifier or a name of the query, or a phrase that no index knows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from ...language.tokenizer import STOP_WORDS, tokens
from ...stores.base import TermMatrix

RARE = 0.01  # of the scope's memories may hold what tells one from the others
# up to so many words a query's first capital letter is a name's, not a sentence's
_LOOK_UP_WORDS = 3
_LEAST_DIGITS = 3
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»]{2,80})[\"”“»]")
_SENTENCE_ENDS = (".", "!", "?", ":")
_EDGES = "\"'“”‘’«»„()[]{}<>*,;:!?….。！？%‰°$€£¥"
_INNER_SIGN = re.compile(r"[^\W_][-_./:@\\+#]+[^\W_]|[a-z][A-Z]|[@#+]")


def identifiers(query: str) -> Sequence[frozenset[str]]:
    """Return the index terms of each identifier, name and quotation of a query.

    Those are words with digits or signs within them, capitalised names, and what stands in
    quotation marks. The capital letter that begins a sentence makes no name, except in a short
    look-up.
    """
    quoted = (frozenset(tokens(match[1])) - STOP_WORDS for match in _QUOTED.finditer(query))
    return list(dict.fromkeys(filter(None, (*quoted, *_named(query.split())))))


def _named(words: Sequence[str]) -> Iterator[frozenset[str]]:
    begins = len(words) > _LOOK_UP_WORDS
    for word in words:
        bare = word.strip(_EDGES).removesuffix("'s").removesuffix("’s")
        if any(map(str.isdigit, bare)) or _INNER_SIGN.search(bare):
            if not bare.isdecimal() or len(bare) >= _LEAST_DIGITS:
                yield _whole(bare)
        elif bare[:1].isupper() and not begins and bare.casefold() not in STOP_WORDS:
            yield frozenset(tokens(bare)) - STOP_WORDS
        begins = word.endswith(_SENTENCE_ENDS)


def _whole(word: str) -> frozenset[str]:
    terms = tokens(word)
    return frozenset((max(terms, key=len),)) if terms else frozenset()


def rare_terms(
    wanted: Sequence[AbstractSet[str]], frequencies: Mapping[str, int], documents: int
) -> Sequence[AbstractSet[str]]:
    """Return those of the identifiers whose terms are known, the rarest of them in few memories."""
    most = max(1.0, RARE * documents)
    known = (terms for terms in wanted if terms <= frequencies.keys())
    return [terms for terms in known if min(frequencies[term] for term in terms) <= most]


def holding(phrase: str, texts: Mapping[str, str]) -> TermMatrix:
    """Return the texts that hold the words of a phrase in a row, or else all of them.

    Args:
        phrase: what is looked for.
        texts: by id.

    Returns:
        The number of words of each, and how often it holds each of the phrase's.
    """
    wanted = tokens(phrase)
    words = {id: tokens(text) for id, text in texts.items()}
    held = {id: said for id, said in words.items() if set(wanted) <= set(said)}
    in_a_row = {id: said for id, said in held.items() if _holds(said, wanted)}
    found, terms = in_a_row or held, list(dict.fromkeys(wanted))
    counts = np.array([[said.count(term) for term in terms] for said in found.values()], np.int64)
    return TermMatrix(
        list(found),
        terms,
        np.array([len(said) for said in found.values()], np.int64),
        counts.reshape(len(found), len(terms)),
    )


def _holds(words: Sequence[str], phrase: Sequence[str]) -> bool:
    starts = (place for place, word in enumerate(words) if word == phrase[0])
    return any(words[place : place + len(phrase)] == phrase for place in starts)
