"""Secrets that are known by their check digit."""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[int, int, str]
KINDS = frozenset({"credit card"})

_SEPARATORS = str.maketrans("", "", " -")
_CARD = re.compile(r"\d(?<![\w.\-]\d)(?:[ \-]?\d){12,18}+(?![\w\-]|\.\d)")
# Issuer ranges with the lengths they use, as payment networks publish them (ISO/IEC 7812).
_ISSUED = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:2[2-9]|[3-6]\d|7[01])\d{13}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}"
    r"|6(?:011|5\d\d|4[4-9]\d)\d{12}|35\d{14}|62\d{14,17}"
)


def spans(text: str) -> Iterator[Span]:
    """Where credit card numbers stand."""
    for match in _CARD.finditer(text):
        digits = match.group().translate(_SEPARATORS)
        # the last digit is the check digit of the others (ISO/IEC 7812-1, annex B)
        doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
        if _ISSUED.fullmatch(digits) and sum(value // 10 + value % 10 for value in doubled) % 10 == 0:
            yield match.start(), match.end(), "credit card"
