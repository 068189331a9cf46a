"""Compare memories by structure: when they were said, what may change them, and whether one text
holds the words of others.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from ..language.tokenizer import EDGES, JOINING_WORDS, tokens
from ..records import Memory

WHO = "consolidation"
"""Stands in the history of what is changed."""


def said(memory: Memory) -> datetime:
    """Return when a memory was said, or when it was added where that is unknown."""
    return memory.said_at or memory.created_at


def is_saved(memory: Memory) -> bool:
    """Return True if only an explicit call may change a memory: a caller saved or pinned it."""
    return memory.explicit or memory.pinned


def words(text: str) -> list[str]:
    """Return the words of a text in order: plain ones as stems, all others exactly as they are
    written.
    """
    terms: list[str] = []
    for chunk in unicodedata.normalize("NFC", text).split():
        word = chunk.strip(EDGES)
        is_plain = word.isalpha() and word[1:] == word[1:].lower()
        terms += tokens(word) if is_plain else [word] if word else []
    return terms


def unites(text: str, *memories: Memory) -> bool:
    """Return True if a merged text can stand for all its sources.

    It holds the words of every source in their order, adds nothing but joining words ("and"), and
    says more than any single source: a source that already holds another one's words may say
    something else with them ("The user's wife is vegan.").
    """
    merged = words(text)
    parts = [words(memory.content) for memory in memories]
    added = set(merged).difference(*parts)
    return (
        bool(merged)
        and merged not in parts
        and all(_holds(merged, part) for part in parts)
        and added <= JOINING_WORDS
    )


def united_fields(group: Sequence[Memory]) -> dict[str, Any]:
    """Return the fields that a memory has which stands for others, the oldest first.

    It has the labels and sources of all.
    """

    def each(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(value for memory in group for value in getattr(memory, name)))

    return {
        **{name: each(name) for name in ("topics", "tags", "event_ids")},
        "importance": max(memory.importance for memory in group),
        "metadata": {key: value for memory in group for key, value in memory.metadata.items()},
        "happened_at": max(
            (memory.happened_at for memory in group if memory.happened_at), default=None
        ),
    }


def _holds(words: Iterable[str], part: Iterable[str]) -> bool:
    """Return True if `part` is a subsequence of `words`."""
    rest = iter(words)
    return all(word in rest for word in part)
