"""How the steps before the search read a text."""

from __future__ import annotations

import re
import unicodedata

_WIDE = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff]")
_EDGE = re.compile(r"^\W++|(?<!\W)\W++$")


def plain(text: str) -> str:
    """The text in one spelling: case and width folded, blanks single, nothing but words at its ends."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return bare(" ".join(folded.split()))


def bare(text: str) -> str:
    """Strips non-word characters from both ends."""
    return _EDGE.sub("", text)


def wide(text: str) -> bool:
    """Whether a Chinese, Japanese or Korean character is in it."""
    return bool(_WIDE.search(text))


def width(text: str) -> int:
    """The length in columns: a Chinese, Japanese or Korean character takes two."""
    return len(text) + len(_WIDE.findall(text))
