"""Parse a query before the search: complete it from earlier turns, and find its terms, names and
dates. Measure how well an embedder knows the script of a query.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..language.dates import Span, bare_dates, named_spans, windows
from ..language.tokenizer import STOP_WORDS, query_terms, tokens
from ..language.word_forms import word_forms
from ..records import Vector
from .embedding_spaces import cosine
from .query import WORDS, bare, plain, wide

MAX_TERMS = 64  # distinct ones of a query that count
EARLIER_TURNS = 3
EARLIER_CHARS = 300
FEW_WORDS = 6
FEW_CHARS = 4
_CONTINUATIONS = ("what about", "how about")
_NAME_SIGNS = frozenset("@_/")  # a text with one of them names something
_POINTERS, _QUESTION_WORDS = frozenset(WORDS["pointers"]), frozenset(WORDS["asking"])
_UNSPACED_POINTER = re.compile("|".join(WORDS["pointers_unspaced"]))
_POLITE_ENDING = re.compile(rf"(?:{'|'.join(WORDS['polite_endings'])})$")
# in a query of at most so many words, a capital first letter begins_sentence a name, not a sentence
_LOOK_UP_WORDS = 3
_MIN_DIGITS = 3
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»]{2,80})[\"”“»]")
_SENTENCE_ENDS = (".", "!", "?", ":")
_EDGES = "\"'“”‘’«»„()[]{}<>*,;:!?….。！？%‰°$€£¥"
_INNER_SIGN = re.compile(r"[^\W_][-_./:@\\+#]+[^\W_]|[a-z][A-Z]|[@#+]")
UNRELATED = ("The tea is green.", "Trains leave at noon.")  # English, for `trust`
_LAST_LATIN = "\u024f"
_STEPS = (11, -11, 5, -5)
_MIN_TRUST = 0.1


@dataclass(frozen=True, slots=True)
class Question:
    """A parsed query.

    Attributes:
        text: the query; a vague one is completed from earlier turns.
        terms: the search terms.
        undated: the terms without its dates, if it only asks what happened on them; else None.
        names: the terms of each identifier and name.
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
            terms=_terms(text, names),
            undated=None if dates is None else _terms(dates, names),
            names=names,
            spans=spans,
            windows=windows(spans),
            forms=forms,
            small_words=small_words,
            disguised=disguised(text),
        )


def is_small(terms: Sequence[str]) -> bool:
    """Return True if all terms are stop words, which no index holds."""
    return bool(terms) and STOP_WORDS.issuperset(terms)


def _terms(text: str, names: Sequence[frozenset[str]]) -> Sequence[str]:
    """Return at most `MAX_TERMS` terms of a text, those of its names before others."""
    terms = query_terms(text)
    if len(terms) <= MAX_TERMS:
        return terms
    name_terms = (term for name in names for term in name if term in terms)
    return list(dict.fromkeys((*name_terms, *terms)))[:MAX_TERMS]


def complete(text: str, earlier: Sequence[str]) -> str:
    """Complete a vague or short follow-up ("how much?") with up to three earlier user turns; return
    anything else unchanged.

    Args:
        text: the user's message.
        earlier: the user's turns before it, oldest first. Turns without content words are skipped.
    """
    if not is_vague(text):
        return text
    turns = [
        turn.strip()[:EARLIER_CHARS] for turn in earlier[-EARLIER_TURNS:] if _content_terms(turn)
    ]
    return "\n".join([*turns, text])


def is_vague(text: str) -> bool:
    """Return True if a text says too little to be searched alone."""
    if len(text) > EARLIER_CHARS:
        return False
    if wide(text):
        unspaced = bare(text)
        is_pointing = len(unspaced) <= 2 * FEW_CHARS and bool(_UNSPACED_POINTER.match(unspaced))
        return is_pointing or len(_POLITE_ENDING.sub("", unspaced)) <= FEW_CHARS
    folded = plain(text)
    words = folded.split()
    content_terms = _content_terms(
        " ".join(word for word in words if word not in _QUESTION_WORDS and word not in _POINTERS)
    )
    if not content_terms:
        return True
    if any(map(str.isdigit, folded)) or not _NAME_SIGNS.isdisjoint(folded):
        return False
    is_continued = words[0] in WORDS["continuing"] or folded.startswith(_CONTINUATIONS)
    if is_continued and len(words) <= FEW_WORDS:
        return True
    if not _POINTERS.isdisjoint(words):
        return len(content_terms) <= 2 and len(words) <= 8
    return len(words) <= 2 and text.rstrip().endswith("?")


def _content_terms(text: str) -> list[str]:
    return [term for term in tokens(text) if term not in STOP_WORDS]


def identifiers(query: str) -> Sequence[frozenset[str]]:
    """Return the index terms of each identifier, name and quotation of a query.

    Identifiers are words with digits or symbols inside, names are capitalised words. The capital
    letter that begins_sentence a sentence makes no name, except in a short look-up.
    """
    quoted = (frozenset(tokens(match[1])) - STOP_WORDS for match in _QUOTED.finditer(query))
    return list(dict.fromkeys(filter(None, (*quoted, *_named(query.split())))))


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


def disguised(text: str) -> str:
    """Replace each letter by another of its script, so that the text means nothing; return "" for
    mostly Latin text.
    """
    letters = [char for char in text if char.isalpha()]
    if 2 * sum(char > _LAST_LATIN for char in letters) <= len(letters):
        return ""
    return "".join(map(_other_letter, text))


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


def _other_letter(letter: str) -> str:
    script = unicodedata.name(letter, "").partition(" ")[0]
    for step in _STEPS if letter.isalpha() else ():
        other = chr(ord(letter) + step)
        alike = other.isalpha() and other.islower() == letter.islower()
        if alike and unicodedata.name(other, "").partition(" ")[0] == script:
            return other
    return letter
