"""Expand the words of a query into their inflected forms: "Versicherung" into "Versicherungen".

The index holds stems of English words, and words of other languages as they are written, because
the language of a memory is not known. So the words of a query are stemmed by the Snowball stemmer
of its language, and all forms that the language makes of the stem are looked up.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from .tokenizer import STOP_WORDS, stem, tokens
from .word_lists import table

MAX_WORDS = 8  # of one query
_MAX_CHARS = 1_000
_MIN_LETTERS = 3
_WORD = re.compile(r"[^\W\d_]+")


class _Language(NamedTuple):
    """The rules of one language.

    Attributes:
        name: the name of its Snowball stemmer.
        ends: endings that may follow a stem.
        begins: prefixes that may precede one.
        small: function words, by which a language in Latin letters is recognized.
        letters: the range of a script that only this language uses here.
    """

    name: str
    ends: str
    begins: str = ""
    small: str = ""
    letters: str = ""


_STEMMED = {name: _Language(name, **words) for name, words in table("word_forms").items()}
_LATIN = tuple(language for language in _STEMMED.values() if not language.letters)
_SCRIPTS = {
    language: re.compile(f"[{language.letters}]")
    for language in _STEMMED.values()
    if language.letters
}


def word_forms(text: str) -> tuple[dict[str, list[str]], frozenset[str]]:
    """Return the inflected forms of a query's content words as index terms, and its function words.

    At most `MAX_WORDS` words are expanded. Both are empty if the query is in English or its
    language is unknown.
    """
    words = list(_words(text))
    spoken = _spoken(frozenset(words))
    if spoken is None and text.isascii():
        return {}, frozenset()
    small = _small(spoken) if spoken else frozenset[str]()
    forms: dict[str, list[str]] = {}
    for word in dict.fromkeys(words):
        scripts = (script for script, letters in _SCRIPTS.items() if letters.match(word))
        language = next(scripts, spoken)
        if language and len(word) >= _MIN_LETTERS and word not in small and len(forms) < MAX_WORDS:
            [term, *_] = tokens(word) or [word]
            forms[term] = [form for form in _forms(language.name, word) if form != term]
    return forms, frozenset(term for word in small.intersection(words) for term in tokens(word))


def _words(text: str) -> Iterator[str]:
    folded = text[:_MAX_CHARS].casefold()
    if not folded.isascii():
        apart = unicodedata.normalize("NFKD", folded)
        folded = unicodedata.normalize(
            "NFC", "".join(mark for mark in apart if not unicodedata.combining(mark))
        )
    return iter(_WORD.findall(folded))


@cache
def _small(language: _Language) -> frozenset[str]:
    return frozenset(_words(language.small))


@cache
def _all_small() -> frozenset[str]:
    return frozenset[str]().union(*map(_small, _LATIN))


def _spoken(words: frozenset[str]) -> _Language | None:
    others = words - STOP_WORDS
    if others.isdisjoint(_all_small()):
        return None
    counts = [len(_small(language) & others) for language in _LATIN]
    most = max(counts)
    best = _LATIN[counts.index(most)]
    return best if most > len(STOP_WORDS & words - _small(best)) else None


@lru_cache(maxsize=1 << 12)
def _forms(name: str, word: str) -> tuple[str, ...]:
    language = _STEMMED[name]
    root = stem(word, name)
    if len(root) < _MIN_LETTERS:
        return ()
    ends = dict.fromkeys(("", *(next(_words(end), end) for end in language.ends.split())))
    # the whole word too: what the stemmer takes for an ending may belong to it
    forms = list(dict.fromkeys(begin + end for begin in (root, word) for end in ends))
    forms += [begin + form for begin in language.begins.split() for form in forms]
    return tuple(dict.fromkeys(term for form in forms for term in tokens(form)[:1]))
