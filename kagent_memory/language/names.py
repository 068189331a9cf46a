"""Find the names, identifiers and quotations of a text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from .tokenizer import STOP_WORDS, tokens

# in a text of at most so many words, a capital first letter begins a name, not a sentence
_LOOK_UP_WORDS = 3
_MIN_DIGITS = 3
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»]{2,80})[\"”“»]")
_SENTENCE_ENDS = (".", "!", "?", ":")
_EDGES = "\"'“”‘’«»„()[]{}<>*,;:!?….。！？%‰°$€£¥"
_INNER_SIGN = re.compile(r"[^\W_][-_./:@\\+#]+[^\W_]|[a-z][A-Z]|[@#+]")


def identifiers(text: str) -> Sequence[frozenset[str]]:
    """Return the index terms of each identifier, name and quotation of a text.

    Identifiers are words with digits or symbols inside, names are capitalised words. The capital
    letter that begins a sentence makes no name, except in a text of at most three words.
    """
    quoted = (frozenset(tokens(match[1])) - STOP_WORDS for match in _QUOTED.finditer(text))
    return list(dict.fromkeys(filter(None, (*quoted, *_named(text.split())))))


def is_known(query: str, terms: Sequence[str], known: Collection[str]) -> bool:
    """Return True if memories hold a name of a query, or most of its words other than numbers.

    Args:
        query: the query.
        terms: its terms without stop words.
        known: the terms among these that memories hold.
    """
    words = [term for term in terms if not term.isdecimal()]
    has_most = 2 * sum(word in known for word in words) > len(words)
    return has_most or any(name <= {*known} for name in identifiers(query))


def _named(words: Sequence[str]) -> Iterator[frozenset[str]]:
    begins_sentence = len(words) > _LOOK_UP_WORDS
    for word in words:
        bare = word.strip(_EDGES).removesuffix("'s").removesuffix("’s")
        if any(map(str.isdigit, bare)) or _INNER_SIGN.search(bare):
            if not bare.isdecimal() or len(bare) >= _MIN_DIGITS:
                yield frozenset((max(tokens(bare), key=len, default=""),)) - {""}
        elif bare[:1].isupper() and not begins_sentence and bare.casefold() not in STOP_WORDS:
            yield frozenset(tokens(bare)) - STOP_WORDS
        begins_sentence = word.endswith(_SENTENCE_ENDS)
