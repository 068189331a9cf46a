"""When two memories fill the same slot, and when they say the same."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher

from ..guard import differences
from ..records import Memory
from ..text import STOP_WORDS, identity, tokens

NEAR_IDENTICAL = 0.9
_GENERIC = frozenset({"user", "users"})  # "The user likes tea" and "Likes tea" are about the same person
_WORD = re.compile(r"\w+")
_ARTICLES = frozenset(("the", "a", "an", "my", "his", "her", "their", "der", "die", "das", "le", "la", "el"))


def identity_of(memory: Memory) -> bytes:
    """What a memory shares with those that are the same one."""
    return identity(memory.content, verbatim=memory.verbatim, event_ids=memory.event_ids)


def same_slot(a: Memory, b: Memory) -> bool:
    """Whether both state the same attribute of the same subject; spelling, case and articles aside."""
    slot = _slot(a)
    return slot is not None and slot == _slot(b)


def has_slot(memory: Memory) -> bool:
    """Whether it states an attribute of a subject."""
    return _slot(memory) is not None


def near_identical(a: Memory, b: Memory) -> bool:
    """Whether they say the same in nearly the same words, in the same order, without a guarded difference."""
    ours, theirs = _telling(a.content), _telling(b.content)
    if not ours or not theirs or len(ours) * len(theirs) > 250_000:
        return False
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    return matcher.ratio() >= NEAR_IDENTICAL and not differences(a.content, b.content)


def related(a: Memory, b: Memory) -> bool:
    """Whether they share a telling word; without one nobody but a model says that they say the same."""
    return identity_of(a) == identity_of(b) or bool(set(_telling(a.content)).intersection(_telling(b.content)))


def keeps(text: str, sources: Sequence[str]) -> bool:
    """Whether a text says something, and at least half of the telling words that all its sources share."""
    shared = frozenset(_telling(sources[0])).intersection(*map(_telling, sources[1:]))
    return bool(text.strip()) and 2 * len(shared.intersection(_telling(text))) >= len(shared)


def upserts(memory: Memory) -> bool:
    """Whether its slot is one that a later value always takes over: that of a summary."""
    return (memory.attribute or "").startswith(("compaction:", "session:"))


def _slot(memory: Memory) -> tuple[str, str] | None:
    subject, attribute = _plain(memory.subject), _plain(memory.attribute)
    return (subject, attribute) if subject and attribute else None


def _plain(text: str | None) -> str:
    words = _WORD.findall(unicodedata.normalize("NFKC", text or "").casefold())
    return " ".join(word for word in words if word not in _ARTICLES) or " ".join(words)


def _telling(text: str) -> list[str]:
    return [term for term in tokens(text) if term not in STOP_WORDS and term not in _GENERIC]
