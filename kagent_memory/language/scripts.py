"""Fold the case, width and edges of a text, and tell its script."""

from __future__ import annotations

import re
import unicodedata

_LAST_LATIN = "\u024f"
_STEPS = (11, -11, 5, -5)
_WIDE = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff]"
)
_EDGE = re.compile(r"^\W++|(?<!\W)\W++$")


def plain(text: str) -> str:
    """Fold case and width, collapse blanks, and strip symbols from both ends."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return bare(" ".join(folded.split()))


def bare(text: str) -> str:
    """Strip non-word characters from both ends."""
    return _EDGE.sub("", text)


def wide(text: str) -> bool:
    """Return True if a text holds a Chinese, Japanese or Korean character."""
    return bool(_WIDE.search(text))


def disguised(text: str) -> str:
    """Replace each letter by another of its script, so that the text means nothing; return "" for
    mostly Latin text.
    """
    letters = [char for char in text if char.isalpha()]
    if 2 * sum(char > _LAST_LATIN for char in letters) <= len(letters):
        return ""
    return "".join(map(_other_letter, text))


def _other_letter(letter: str) -> str:
    script = unicodedata.name(letter, "").partition(" ")[0]
    for step in _STEPS if letter.isalpha() else ():
        other = chr(ord(letter) + step)
        is_alike = unicodedata.name(other, "").partition(" ")[0] == script
        if is_alike and other.isalpha() and other.islower() == letter.islower():
            return other
    return letter
