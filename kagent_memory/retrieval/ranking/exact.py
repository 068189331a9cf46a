"""Exact phrases that no index knows, looked up in the memories' texts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...language.tokenizer import tokens
from ...stores.base import TermMatrix


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
    held = {id: said for id, said in words.items() if {*wanted} <= {*said}}
    run = f" {' '.join(wanted)} "
    found = {id: said for id, said in held.items() if run in f" {' '.join(said)} "} or held
    terms = [*dict.fromkeys(wanted)]
    counts = np.array([[said.count(term) for term in terms] for said in found.values()], np.int64)
    lengths = np.array([*map(len, found.values())], np.int64)
    return TermMatrix([*found], terms, lengths, counts.reshape(-1, len(terms)))
