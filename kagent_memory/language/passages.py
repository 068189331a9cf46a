"""Find the passage of a long text that fits a question."""

from __future__ import annotations

import re
import textwrap
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain

from .tokenizer import estimated_tokens, query_terms, tokens

_CHARS_A_TOKEN = 4  # of ASCII: see `estimated_tokens`
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")


def passage(text: str, question: str, *, max_tokens: int) -> str:
    """Return the passage of a text that holds most words of a question; a short text as it is.

    A passage is a run of sentences; of equal runs the first one counts.

    Args:
        text: the text.
        question: the question; its words that are rare in the text count more.
        max_tokens: the limit of the passage in estimated tokens.
    """
    if estimated_tokens(text) <= max_tokens:
        return text
    sentences = [*_sentences(text, max_tokens)]
    terms = frozenset(query_terms(question))
    terms_held = [terms.intersection(tokens(sentence)) for sentence in sentences]
    sizes = [estimated_tokens(sentence) + 1 for sentence in sentences]
    return " ".join(sentences[_best(terms_held, sizes, max_tokens)])


def _sentences(text: str, max_tokens: int) -> Iterator[str]:
    """Return the sentences of a text, with long ones in pieces."""
    for sentence in filter(str.strip, _SENTENCE.split(text)):
        chars = max_tokens * (_CHARS_A_TOKEN if sentence.isascii() else 1)
        yield from textwrap.wrap(" ".join(sentence.split()), chars, break_on_hyphens=False)


def _best(held: Sequence[frozenset[str]], sizes: Sequence[int], max_tokens: int) -> slice:
    """Return the run of sentences that fits and holds the most words, each counted once."""
    frequencies = Counter(chain.from_iterable(held))
    ends = [0, *accumulate(sizes)]

    def run(start: int) -> slice:
        return slice(start, max(start + 1, bisect_right(ends, ends[start] + max_tokens) - 1))

    def worth(some: slice) -> float:
        return round(sum(1 / frequencies[term] for term in frozenset[str]().union(*held[some])), 9)

    return max(map(run, range(len(sizes))), key=worth)
