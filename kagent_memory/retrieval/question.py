"""A query read once, before anything is searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..language.dates import Span, bare_dates, named_spans, windows
from ..language.tokenizer import STOP_WORDS, query_terms
from ..language.word_forms import word_forms
from .query.completion import complete
from .query.identifiers import identifiers
from .ranking.scripts import disguised

MAX_TERMS = 64  # distinct ones of a query that count


@dataclass(frozen=True, slots=True)
class Question:
    """A query, read.

    Attributes:
        text: the query, a vague one completed from what was said before.
        terms: to search by.
        undated: the terms beside its dates, if it asks what there was at a time and no more; else
            None.
        names: the terms of each identifier and name.
        spans: the times that it names.
        windows: those of a known year, from the first moment to the one after the last.
        forms: term → its other forms in the language of the query.
        small_words: terms that tell that language, and nothing of what is asked for.
        disguised: the text in other letters of its script; "" if that is Latin.
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
        """Read a query.

        Args:
            text: as asked.
            now: what "yesterday" is counted from.
            history: the last user turns before it, oldest first.
        """
        text = complete(text, history)
        names, spans = identifiers(text), named_spans(text, now)
        rest = bare_dates(text) if spans else None
        forms, small_words = word_forms(text)
        return cls(
            text=text,
            terms=_terms(text, names),
            undated=None if rest is None else _terms(rest, names),
            names=names,
            spans=spans,
            windows=windows(spans),
            forms=forms,
            small_words=small_words,
            disguised=disguised(text),
        )


def is_small(terms: Sequence[str]) -> bool:
    """Return True for terms that are all stop words, which no index holds."""
    return bool(terms) and STOP_WORDS.issuperset(terms)


def _terms(text: str, names: Sequence[frozenset[str]]) -> Sequence[str]:
    """Return the terms of a text; of too many those of its names, and the first."""
    terms = query_terms(text)
    if len(terms) <= MAX_TERMS:
        return terms
    named = (term for name in names for term in name if term in terms)
    return list(dict.fromkeys((*named, *terms)))[:MAX_TERMS]
