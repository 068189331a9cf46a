"""Recognize vague follow-ups of a conversation, and complete them from earlier turns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .scripts import bare, plain, wide
from .tokenizer import STOP_WORDS, tokens
from .word_lists import QUERY_WORDS

EARLIER_TURNS = 3
EARLIER_CHARS = 300
FEW_WORDS = 6
FEW_CHARS = 4
_CONTINUATIONS = ("what about", "how about")
_NAME_SIGNS = frozenset("@_/")  # a text with one of them names something
_POINTERS = frozenset(QUERY_WORDS["pointers"])
_QUESTION_WORDS = frozenset(QUERY_WORDS["asking"])
_UNSPACED_POINTER = re.compile("|".join(QUERY_WORDS["pointers_unspaced"]))
_POLITE_ENDING = re.compile(rf"(?:{'|'.join(QUERY_WORDS['polite_endings'])})$")


def complete(text: str, earlier: Sequence[str]) -> str:
    """Complete a vague or short follow-up ("how much?") with up to three earlier user turns; return
    anything else unchanged.

    Args:
        text: the user's message.
        earlier: the user's turns before it, oldest first. Turns without content words are skipped.
    """
    if not earlier or not is_vague(text):
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
    is_continued = words[0] in QUERY_WORDS["continuing"] or folded.startswith(_CONTINUATIONS)
    if is_continued and len(words) <= FEW_WORDS:
        return True
    if not _POINTERS.isdisjoint(words):
        return len(content_terms) <= 2 and len(words) <= 8
    return len(words) <= 2 and text.rstrip().endswith("?")


def _content_terms(text: str) -> list[str]:
    return [term for term in tokens(text) if term not in STOP_WORDS]
