"""When two memories fill the same slot, when they say the same, and which of them was said last."""

from __future__ import annotations

from datetime import datetime

from ...language.guard import differences, missing, same_words
from ...language.tokenizer import STOP_WORDS, slot, tokens
from ...records import Memory
from ...stores.planning import identity_of

_GENERIC = frozenset({"user", "users"})  # "The user likes tea" and "Likes tea" are about the same person
_OTHER_WORDS_AT_MOST = 1  # of a reworded sentence may be synonyms that nobody here knows


def slot_of(memory: Memory) -> str | None:
    """The slot it fills: the attribute of a subject that it states."""
    return slot(memory.subject, memory.attribute)


def same_slot(a: Memory, b: Memory) -> bool:
    """Whether both state the same attribute of the same subject; spelling, case and articles aside."""
    ours = slot_of(a)
    return ours is not None and ours == slot_of(b)


def said(memory: Memory) -> datetime:
    """When it was said, as far as that is known."""
    return memory.said_at or memory.created_at


def related(a: Memory, b: Memory) -> bool:
    """Whether they share a telling word; without one nobody but a model says that they say the same."""
    return identity_of(a) == identity_of(b) or not _telling(a.content).isdisjoint(_telling(b.content))


def covers(text: str, source: str) -> bool:
    """Whether a text says all that its source says, and nothing else in its place."""
    return not missing(text, source) and not differences(text, source)


def keeps(text: str, *sources: str) -> bool:
    """Whether a text says something, and all that its sources say."""
    return bool(text.strip()) and all(covers(text, source) for source in sources)


def dispensable(fact: Memory, memory: Memory) -> bool:
    """Whether a fact may go for a memory that says the same: it says no more, but for one word that may be another's
    synonym where the sentence is put otherwise.
    """
    lost = missing(memory.content, fact.content)
    if not lost:
        return True
    gained = missing(fact.content, memory.content)
    few = len(lost) <= min(_OTHER_WORDS_AT_MOST, len(gained))
    return few and 2 * len(lost) <= len(_telling(fact.content))


def says_the_same(a: Memory, b: Memory) -> bool:
    """Whether they say the same with the same words, whatever their forms and an order without meaning."""
    return identity_of(a) == identity_of(b) or same_words(a.content, b.content)


def stays_as_saved(memory: Memory) -> bool:
    """Whether its words are not ours to change: a caller saved or pinned it."""
    return memory.explicit or memory.pinned


def _telling(text: str) -> frozenset[str]:
    return frozenset(term for term in tokens(text) if term not in STOP_WORDS and term not in _GENERIC)
