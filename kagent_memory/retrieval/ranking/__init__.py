"""Pure ranking: candidates of both searches → fuse → rank → select. The same for every store,
tested without one. Its weights are here, each with its reason; figures are in bench/NOTES.md.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSettings:
    """Weights of the signs. Scores of the two legs lie in 0..1; every weight is a share of that.

    One set for both modes, learnt over two data sets at once with regularisation (`bench/learn.py`)
    and rounded; a sign that did not help both is not here.

    Attributes:
        text: weight of the text leg; the vector leg weighs 1. Fused by score, not by rank: ranks
            forget how much better a rare word's match is.
        added: weight of what a model made of the query (`rewrite`) beside the query's own 1. Small:
            a model that answers nonsense must not make the answer worse.
        match: what the memory says itself.
        window: what it says with the turns around it, up to two on either side; each step away
            counts half.
        session: what its whole session says: all of its words, and its nearest vector.
        answer: the window's match by words of the previous turn, when that turn asks a question.
            The longer the scope's texts are, the less this and the two before count: their weight
            goes to `match`.
        time: the memory's month or year is one the query names (a near day counts half as much
            again, falling off by e every 5 days), or it names a time and the query asks for one.
        author: the query names who said it. Small: a question may name the wrong person.
        substance: how much it tells by itself. In chat, a short turn or a question tells little;
            among long texts, an agent's answer tells less than the user's words, which it repeats.
            A stated preference tells more.
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
