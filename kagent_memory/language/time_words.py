"""Tests whether a text asks for a time and whether it names one."""

from __future__ import annotations

import re
from typing import Final

from .tokenizer import STOP_WORDS, tokens
from .word_lists import all_words, months, weekdays

_LANGUAGES = ("en", "de", "es", "fr")
_SHORT = frozenset(("may", "mai", "ago", "day", "tag", "dia", "mes", "ano", "hoy"))
_WHEN = re.compile(
    r"(?:(?:(?:and|so|since|until|till|from|by|in|on|at) )?(?:when|how long"
    r"|(?:what|which) (?:date|day|month|year|time|week|weekday|season))"
    r"|(?:seit |bis |ab )?wann|(?:desde |hasta )?cu[aá]ndo|(?:depuis |jusqu'à )?quand)\b"
)
# "When she was in Rome, what did she eat?" asks for no time.
_WHAT_THEN = re.compile(
    r", (?:what|who|whom|whose|where|which|how|why|did|do|does|was|were|is|are)\b"
)
_MAX_CHARS = 300
_MARKS = "¿¡\"'“„«‘([*- "


def asks_when(query: str) -> bool:
    """Return True if a question in English, German, Spanish or French asks for a time."""
    folded = " ".join(query[:_MAX_CHARS].casefold().split()).lstrip(_MARKS)
    return bool(_WHEN.match(folded)) and not _WHAT_THEN.search(folded)


_WORDS = " ".join(
    (
        *months(*_LANGUAGES),
        *weekdays(*_LANGUAGES),
        *all_words("time_words"),
        *map(str, range(1900, 2100)),
    )
)
# of the short ones only these: "sun", "sat" and "mar" are other words more often
TIME_TERMS: Final = (
    frozenset(term for term in tokens(_WORDS) if len(term) > 3 or term in _SHORT) - STOP_WORDS
)
