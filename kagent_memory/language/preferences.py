"""Tell what a user wants from now on from what holds for one time, by how it is put."""

from __future__ import annotations

import re
from functools import cache

from .word_lists import table

PREFERENCE_TERM = "\x1fpreference"
"""The index term of texts that state a preference; no text has it as a word."""

USER = "user"  # who ADK says wrote what a person typed
_MOST_CHARS = 2_000
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
    phrases, forms = _forms()
    folded = " ".join(text[:_MOST_CHARS].casefold().translate(_APOSTROPHES).split())
    # nearly all texts hold none of the phrases, which is seen ten times sooner than by the pattern
    return any(phrase in folded for phrase in phrases) and bool(forms.search(folded))


@cache
def _forms() -> tuple[tuple[str, ...], re.Pattern[str]]:
    """Return the phrases of all languages, and the pattern of where each of them counts."""
    phrases: set[str] = set()
    forms: list[str] = []
    for lists in table("preference_words").values():
        told = {name: _phrases(text) for name, text in lists.items()}
        phrases.update(*(told[name] for name in told.keys() - {"please"}))
        start = rf"(?:^|[.!?:;,\-(]\s*)(?:(?:{_any_of(told.get('please', ()))}),? )?"
        for name, form in (
            ("opens", rf"{start}(?:%s),? (?!\W|mind\b)"),  # but not "Never mind"
            ("follows", rf"{start}\w+ (?:%s)\b"),
            ("states", r"\b(?:%s)\b"),
            ("anywhere", r"(?:%s)"),
        ):
            if told.get(name):
                forms.append(form % _any_of(told[name]))
    return tuple(sorted(phrases)), re.compile("|".join(forms))


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(phrase.strip() for phrase in text.split("|"))


def _any_of(phrases: tuple[str, ...]) -> str:
    return "|".join(map(re.escape, phrases))
