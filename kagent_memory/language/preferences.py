"""Tell what a user wants from now on from what holds for one time, by how it is put."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from .word_lists import table

PREFERENCE_TERM = "\x1fpreference"
"""The index term of texts that state a preference; no text has it as a word."""

USER = "user"  # who ADK says wrote what a person typed
_MAX_CHARS = 2_000
_APOSTROPHES = str.maketrans("’‘", "''")


def states_preference(text: str, author: str | None = None) -> bool:
    """Return True if a text gives a standing instruction or states a lasting preference.

    Looks at the form alone, in eight languages: a sentence that begins with "always" or "from now
    on", or "I prefer" anywhere.

    Args:
        text: its first 2,000 characters count.
        author: who said it; None: whoever saved it. Only what a user says is a preference.
    """
    if author not in (None, USER):
        return False
    return _is_preference(text[:_MAX_CHARS])


@lru_cache(maxsize=256)  # a text is asked about for its topics and for its index terms
def _is_preference(text: str) -> bool:
    folded = " ".join(text.casefold().translate(_APOSTROPHES).split())
    return any(
        # nearly all texts hold none of a language's phrases, which is seen sooner than by its forms
        any(phrase in folded for phrase in phrases) and forms.search(folded) is not None
        for phrases, forms in _languages()
    )


@cache
def _languages() -> Sequence[tuple[Sequence[str], re.Pattern[str]]]:
    """Return the phrases of each language's preferences, and the forms in which they count."""
    return [_forms(lists) for lists in table("preference_words").values()]


def _forms(lists: Mapping[str, str]) -> tuple[Sequence[str], re.Pattern[str]]:
    phrases = {name: _phrases(text) for name, text in lists.items()}
    start = rf"(?:^|[.!?:;,\-(]\s*)(?:(?:{_any_of(phrases.pop('please', ()))}),? )?"
    forms = {
        "opens": rf"{start}(?:%s),? (?!\W|mind\b)",  # but not "Never mind"
        "follows": rf"{start}\w+ (?:%s)\b",
        "states": r"\b(?:%s)\b",
        "anywhere": r"(?:%s)",
    }
    pattern = "|".join(forms[name] % _any_of(forms_of) for name, forms_of in phrases.items())
    return [phrase for some in phrases.values() for phrase in some], re.compile(pattern)


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(phrase.strip() for phrase in text.split("|"))


def _any_of(phrases: tuple[str, ...]) -> str:
    return "|".join(map(re.escape, phrases))
