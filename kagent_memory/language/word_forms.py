"""The other forms of a query's words in the language it is asked in: "Versicherungen" for
"Versicherung".

English words are stemmed where they are indexed. Of other languages the index holds words as they
are written, so that it stands whatever language they turn out to be in; a query's words are brought
to their stem by that language's Snowball stemmer, and the forms that the language makes of a stem
are looked up.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import import_module
from typing import Final, NamedTuple, Protocol

from .tokenizer import STOP_WORDS, tokens
from .word_lists import table

MAX_WORDS: Final = 8  # of one query
_MAX_CHARS = 1_000
_MIN_LETTERS = 3
_WORD = re.compile(r"[^\W\d_]+")


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...


class _Language(NamedTuple):
    """Rules of one language.

    Attributes:
        name: of its Snowball stemmer.
        ends: what stands after a stem.
        begins: what stands before one.
        small: words that tell a language of Latin letters, and nothing of what a text is about.
        letters: of a script that this language alone is known by, as a range.
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
    """For the first words of a query that tell something, the index terms of their other forms; and
    its small words.

    Nothing for a query in English, in a language not known here, or in none that can be told.
    """
    words = list(_words(text[:_MAX_CHARS]))
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
    stem = _stemmer(name).stemWord(word)
    if len(stem) < _MIN_LETTERS:
        return ()
    ends = dict.fromkeys(("", *(next(_words(end), end) for end in language.ends.split())))
    # the word too: what its stemmer takes for an ending may be part of it
    forms = list(dict.fromkeys(begin + end for begin in (stem, word) for end in ends))
    forms += [begin + form for begin in language.begins.split() for form in forms]
    return tuple(dict.fromkeys(term for form in forms for term in tokens(form)[:1]))


def _stemmer(name: str) -> _Stemmer:
    # a stemmer keeps the word it works on, so that two threads must not share one
    module = import_module(f"snowballstemmer.{name}_stemmer")
    return getattr(module, f"{name.capitalize()}Stemmer")()
