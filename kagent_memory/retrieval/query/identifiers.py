"""The identifiers and names of a query."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...language.tokenizer import STOP_WORDS, tokens

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
                yield frozenset((max(tokens(bare), key=len, default=""),)) - {""}
        elif bare[:1].isupper() and not begins and bare.casefold() not in STOP_WORDS:
            yield frozenset(tokens(bare)) - STOP_WORDS
        begins = word.endswith(_SENTENCE_ENDS)
