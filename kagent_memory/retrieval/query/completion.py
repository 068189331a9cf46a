"""Vague follow-ups completed from what was said before, long texts split into what can be searched apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...language.tokenizer import STOP_WORDS, tokens
from .normalize import bare, plain, wide, width
from .query_words import ASKING, CONTINUATIONS, CONTINUING, POINTERS, POINTERS_UNSPACED, POLITE_ENDINGS

MIN_SENTENCE_WIDTH = 30
MAX_SENTENCES = 8
EARLIER_TURNS = 3
EARLIER_CHARS = 300
FEW_WORDS = 6
FEW_CHARS = 4
_NAMING = frozenset("@_/")  # signs within what names something
_POINTING = re.compile("|".join(map(re.escape, POINTERS_UNSPACED)))
_POLITE = re.compile(rf"(?:{'|'.join(POLITE_ENDINGS)})$")
# "Dr.", "St.", "z.B." and initials end no sentence.
_SENTENCE_END = re.compile(r"(?<=[.!?…؟])(?<!\b[A-Z]\.)(?<!\b[A-Z][a-z]\.)(?<!\bMrs\.)(?<!\.\w\.)\s+|(?<=[。！？।])\s*")


def complete(text: str, earlier: Sequence[str]) -> str:
    """A vague or short follow-up ("how much?") with the last three user turns before it; anything else as it is.

    Args:
        text: what the user says now.
        earlier: the user's turns before it, oldest first. Turns without a telling word are passed over.
    """
    if not is_vague(text):
        return text
    telling = [turn.strip()[:EARLIER_CHARS] for turn in earlier[-EARLIER_TURNS:] if _telling(turn)]
    return "\n".join([*telling, text])


def is_vague(text: str) -> bool:
    """Whether a text says too little of what it is about to be searched alone."""
    if len(text) > EARLIER_CHARS:
        return False
    if wide(text):
        unspaced = bare(text)
        is_pointing = len(unspaced) <= 2 * FEW_CHARS and bool(_POINTING.match(unspaced))
        return is_pointing or len(_POLITE.sub("", unspaced)) <= FEW_CHARS
    folded = plain(text)
    words = folded.split()
    telling = _telling(" ".join(word for word in words if word not in ASKING and word not in POINTERS))
    if not telling:
        return True
    if any(map(str.isdigit, folded)) or not _NAMING.isdisjoint(folded):
        return False
    if len(words) <= FEW_WORDS and (words[0] in CONTINUING or folded.startswith(CONTINUATIONS)):
        return True
    if not POINTERS.isdisjoint(words):
        return len(telling) <= 2 and len(words) <= 8
    return len(words) <= 2 and text.rstrip().endswith("?")


def split(text: str) -> list[str]:
    """The sentences of a text, at most 8; those under 30 characters (a Chinese, Japanese or Korean one counts as two)
    are not a query of their own and stay with the one before, unless they tell nothing.
    """
    found: list[str] = []
    waiting = ""
    for part in (part.strip() for part in _SENTENCE_END.split(text)):
        if len(found) > MAX_SENTENCES:
            break
        if width(part) >= MIN_SENTENCE_WIDTH:
            found.append(" ".join(filter(None, (waiting, part))))
            waiting = ""
        elif not _telling(part):
            continue
        elif found:
            found[-1] += f" {part}"
        else:
            waiting = f"{waiting} {part}".strip()
    return found[:MAX_SENTENCES] or [text]


def _telling(text: str) -> list[str]:
    return [term for term in tokens(text) if term not in STOP_WORDS]
