"""The weights of the signs that rank the hits of a search."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSettings:
    """The weights of the signs, as shares of the scores of the two legs, which lie in 0..1.

    One set serves both modes. It was learned on two data sets at once with regularisation
    (`bench/learn.py`) and rounded; a sign that did not help both is not here.

    Attributes:
        text: the text leg; the vector leg weighs 1. Legs are fused by score, not by rank, because
            ranks forget how much better the match of a rare word is.
        added: what a model made of the query (`rewrite`), beside the query's own 1. Small, so that
            a useless answer of the model does little harm.
        match: the match of the memory itself.
        window: the match of the memory with the turns around it, up to two on either side; each
            step away counts half.
        session: the match of its whole session: all words, and the nearest vector.
        answer: the window's match by words of the previous turn, if that turn is a question. The
            longer the texts of the scope, the less this and the two before count: their weight
            goes to `match`.
        time: the query names the memory's month or year (a near day counts half as much again,
            falling by e every 5 days), or asks for a time and the memory names one.
        author: the query names the speaker. Small, since a question may name the wrong person.
        substance: how much the memory says by itself. In chat, short turns and questions say
            little; among long texts, an agent's answer says less than the user's words, which it
            repeats. A stated preference says more.
    """

    text: float = 0.75
    added: float = 0.3
    match: float = 0.3
    window: float = 0.4
    session: float = 0.33
    answer: float = 0.15
    time: float = 0.3
    author: float = 0.2
    substance: float = 0.35
