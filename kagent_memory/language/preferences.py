"""Recognize by their wording texts about the speaker, and lasting preferences and standing
instructions of a user.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from .word_lists import QUERY_WORDS, table

PREFERENCE_TERM = "\x1fpreference"
"""The index term of texts that state a preference; it is no word of any text."""

USER = "user"  # ADK's author of what a person typed
_MAX_CHARS = 2_000
_FIRST_PERSON = frozenset(QUERY_WORDS["first_person"])
_WORD = re.compile(r"\w+")
_CONTRACTED_WORD = re.compile(r"[\w']+")
_ANY = ""  # instead of a word, for phrases that may stand within longer runs of letters


def is_about_oneself(text: str) -> bool:
    """Return True if a text has a word such as "my", "we" or "mein"."""
    words = _CONTRACTED_WORD.findall(text.casefold().replace("’", "'"))
    return not _FIRST_PERSON.isdisjoint(words) or any(
        word in text for word in QUERY_WORDS["first_person_unspaced"]
    )


def states_preference(text: str, author: str | None = None) -> bool:
    """Return True if a text gives a standing instruction or states a lasting preference.

    Only the wording counts, in eight languages: a sentence that begins with "always" or "from now
    on", or "I prefer" anywhere.

    Args:
        text: the text, of which the first 2,000 characters are read.
        author: who said it, or None for an explicit save. Only users state preferences.
    """
    if author not in (None, USER):
        return False
    return _is_preference(text[:_MAX_CHARS])


@lru_cache(maxsize=256)  # called for the topics and again for the index terms of a text
def _is_preference(text: str) -> bool:
    folded = " ".join(text.casefold().replace("’", "'").replace("‘", "'").split())
    phrases = _phrases_by_word()
    return any(
        # most texts hold no phrase, and looking up their words is faster
        phrase in folded and forms.search(folded)
        for word in {_ANY, *_WORD.findall(folded)} & phrases.keys()
        for phrase, forms in phrases[word]
    )


@cache
def _phrases_by_word() -> Mapping[str, Sequence[tuple[str, re.Pattern[str]]]]:
    """Return the phrases of all languages by their longest word, each with the pattern of the forms
    in which those of its language count.
    """
    by_word = defaultdict[str, list[tuple[str, re.Pattern[str]]]](list)
    for lists in table("preference_words").values():
        phrases = {name: _phrases(text) for name, text in lists.items()}
        start = rf"(?:^|[.!?:;,\-(]\s*)(?:(?:{_any_of(phrases.pop('please', ()))}),? )?"
        forms = {
            "opens": rf"{start}(?:%s),? (?!\W|mind\b)",  # but not "Never mind"
            "follows": rf"{start}\w+ (?:%s)\b",
            "states": r"\b(?:%s)\b",
            "anywhere": r"(?:%s)",
        }
        pattern = re.compile(
            "|".join(forms[name] % _any_of(forms_of) for name, forms_of in phrases.items())
        )
        for name, forms_of in phrases.items():
            for phrase in forms_of:
                word = _ANY if name == "anywhere" else max(_WORD.findall(phrase), key=len)
                by_word[word].append((phrase, pattern))
    return by_word


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(phrase.strip() for phrase in text.split("|"))


def _any_of(phrases: tuple[str, ...]) -> str:
    return "|".join(map(re.escape, phrases))
