"""A look into texts by words: for a phrase, and for the passage that fits a question."""

from __future__ import annotations

import re
import textwrap
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain

import numpy as np

from ..language.tokenizer import estimated_tokens, query_terms, tokens
from ..stores.values import TermMatrix

_CHARS_A_TOKEN = 4  # of ASCII: see `estimated_tokens`
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")


def passage(text: str, question: str, *, max_tokens: int) -> str:
    """Return the part of a text that holds most of what a question asks for; the whole of a short
    text.

    Sentences that follow each other are taken as long as they fit; of equal runs the first.

    Args:
        text: any text.
        question: whose words are looked for; rare ones of the text count more.
        max_tokens: estimated tokens of the passage.
    """
    if estimated_tokens(text) <= max_tokens:
        return text
    sentences = [*_sentences(text, max_tokens)]
    wanted = frozenset(query_terms(question))
    terms_held = [wanted.intersection(tokens(sentence)) for sentence in sentences]
    sizes = [estimated_tokens(sentence) + 1 for sentence in sentences]
    return " ".join(sentences[_best(terms_held, sizes, max_tokens)])


def _sentences(text: str, max_tokens: int) -> Iterator[str]:
    """Return the sentences of a text, long ones in pieces that fit."""
    for sentence in filter(str.strip, _SENTENCE.split(text)):
        chars = max_tokens * (_CHARS_A_TOKEN if sentence.isascii() else 1)
        yield from textwrap.wrap(" ".join(sentence.split()), chars, break_on_hyphens=False)


def _best(held: Sequence[frozenset[str]], sizes: Sequence[int], max_tokens: int) -> slice:
    """Return the run of sentences that fits and holds the most, each word counted once."""
    often = Counter(chain.from_iterable(held))
    ends = [0, *accumulate(sizes)]

    def run(start: int) -> slice:
        return slice(start, max(start + 1, bisect_right(ends, ends[start] + max_tokens) - 1))

    def worth(some: slice) -> float:
        return round(sum(1 / often[term] for term in frozenset[str]().union(*held[some])), 9)

    return max(map(run, range(len(sizes))), key=worth)


def holding(phrase: str, texts: Mapping[int, str]) -> TermMatrix:
    """Return the texts that hold the words of a phrase in a row, or else all of them.

    Args:
        phrase: what is looked for.
        texts: by their rows.

    Returns:
        The number of words of each, and how often it holds each of the phrase's.
    """
    wanted = tokens(phrase)
    words = {row: tokens(text) for row, text in texts.items()}
    candidates = {row: said for row, said in words.items() if {*wanted} <= {*said}}
    run = f" {' '.join(wanted)} "
    holders = {
        row: said for row, said in candidates.items() if run in f" {' '.join(said)} "
    } or candidates
    terms = [*dict.fromkeys(wanted)]
    counts = np.array([[said.count(term) for term in terms] for said in holders.values()], np.int64)
    lengths = np.array([*map(len, holders.values())], np.int64)
    rows = np.array([*holders], np.int64)
    return TermMatrix(rows, terms, lengths, counts.reshape(-1, len(terms)))
