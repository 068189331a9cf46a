"""Parse a query before the search: complete it from earlier turns, and find its terms, names and
dates. Measure how well an embedder knows the script of a query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..language.dates import Span, bare_dates, named_spans, windows
from ..language.follow_ups import complete
from ..language.names import identifiers
from ..language.scripts import disguised
from ..language.tokenizer import most_telling
from ..language.word_forms import word_forms
from ..records import Vector
from .embedding_spaces import cosine

UNRELATED = ("The tea is green.", "Trains leave at noon.")  # English, for `trust`
_MIN_TRUST = 0.1


@dataclass(frozen=True, slots=True)
class Question:
    """A parsed query.

    Attributes:
        text: the query; a vague one is completed from earlier turns.
        terms: the search terms.
        undated: the terms without its dates, if it only asks what happened on them; else None.
        names: the terms of each identifier and name, without function words ("O'Brien").
        spans: the times that it names, also those without a year.
        windows: the intervals of those in a known year.
        forms: other forms of its terms in its language, by term.
        small_words: function words of that language.
        disguised: the text with each letter replaced by another of its script, which means nothing
            and which `trust` compares with the text; "" for mostly Latin text.
    """

    text: str
    terms: Sequence[str]
    undated: Sequence[str] | None
    names: Sequence[frozenset[str]]
    spans: Sequence[Span]
    windows: Sequence[tuple[datetime, datetime]]
    forms: Mapping[str, Sequence[str]]
    small_words: frozenset[str]
    disguised: str

    @classmethod
    def read(cls, text: str, now: datetime, history: Sequence[str] = ()) -> Question:
        """Parse a query.

        Args:
            text: the query.
            now: the time from which "yesterday" counts.
            history: the last user turns before it, oldest first.
        """
        text = complete(text, history)
        names, spans = identifiers(text), named_spans(text, now)
        dates = bare_dates(text) if spans else None
        forms, small_words = word_forms(text)
        return cls(
            text=text,
            terms=most_telling(text, names),
            undated=None if dates is None else most_telling(dates, names),
            names=[name - small_words or name for name in names],
            spans=spans,
            windows=windows(spans),
            forms=forms,
            small_words=small_words,
            disguised=disguised(text),
        )


def trust(text: Vector, other: Vector, *unrelated: Vector) -> float:
    """Return how well an embedder tells texts of a script apart, compared with English, in 0.1..1.

    An embedder that does not know a script gives a text and a meaningless one nearly the same
    vector.

    Args:
        text: the vector of the text.
        other: the vector of the `disguised` text.
        unrelated: the vectors of the two texts `UNRELATED`.
    """
    distance = 1 - cosine(*unrelated)  # of English texts
    return (
        min(1.0, max(_MIN_TRUST, (1 - cosine(text, other)) / distance))
        if distance > _MIN_TRUST
        else 1.0
    )
