"""The difference guard: in what two texts differ that must never be merged away.

It reads the texts, not their meaning: when in doubt they differ, and both are kept.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Literal, TypeAlias

from ..text import STOP_WORDS
from .words import (
    CAPITAL_DATES,
    CJK_DATES,
    CJK_NEGATIONS,
    CJK_NOT_NEGATIONS,
    DATE_WORDS,
    FOLLOWS_A_NAME,
    NEGATIONS,
    NUMBER_WORDS,
    PLAIN_STARTS,
    UNITS,
)

Kind: TypeAlias = Literal["number", "date", "unit", "negation", "identifier", "name"]
KINDS: tuple[Kind, ...] = ("number", "date", "unit", "negation", "identifier", "name")

_CHUNK = re.compile(r"\S+")
_EDGE = re.compile(r"^[\"'“”‘’«»„()\[\]{}<>*_~,;:!?…¿¡.]+|[\"'“”‘’«»„()\[\]{}<>*_~,;:!?….]+$")
_POSSESSIVE = re.compile(r"['’]s$|(?<=s)['’]$")
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w)])[-−+])?(?P<digits>\d+(?:[.,’' ]\d{3}(?!\d))*(?:[.,]\d+)?)(?P<tail>st|nd|rd|th|º|ª)?"
)
_THOUSANDS = re.compile(r"(?<=\d)[.,’' ](?=\d{3}(?!\d))")
_NOON = re.compile(r"(?<=[\d ])([ap])\.m\.?(?!\w)")
_ISO_DATE = re.compile(r"\d{4}-\d{2}(?:-\d{2})?|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}:\d{2}(?::\d{2})?")
_UNIT = re.compile(r"(?<=\d)\s?(?:-\s?)?(?P<after>[^\W\d_]+(?:/[a-z])?|%|€|\$|£|¥|°[CF]?)|(?P<before>[€$£¥])(?=\s?\d)")
_IDENTIFIER = re.compile(
    r"[A-Za-z]+[-_]?\d|\d[-_]?[A-Za-z]{2,}\d|[a-z][A-Z]|_|@|://|\\|#\w|^[/~.]\w|\w/\w+/|\w\.[a-z]\w*$|^[A-Z]{2,}s?$|^[0-9a-f]{7,}$"
)
_QUANTITY = re.compile(r"[-−+]?[€$£¥]?\d[\d.,:’']*(?:[^\W\d_]{1,12}|%|€|\$|£|°[CF]?)?")
_SENTENCE_END = re.compile(r"[.!?:…][\"'”’)]*$")
_UNSPACED = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\u30a1-\u30fa\u30fc\uac00-\ud7a3]")
_UNSPACED_PLAIN = frozenset(
    "的了是在我你他她它们和与也都很就用户使用喜欢有会要能好每个这那您吧呢吗은는이가을를에의도로와과하다고서지기사용자님습니까요입니"
)


def differences(a: str, b: str) -> frozenset[Kind]:
    """The kinds of things that the one text holds and the other does not.

    Numbers (also in words), dates and times of all sorts, units, whether it denies, identifiers (codes, paths,
    addresses, acronyms) and names (capitalised words; in scripts without capitals and spaces every word that tells).
    """
    ours, theirs = marks(a), marks(b)
    differing: set[Kind] = {kind for kind in KINDS if kind != "name" and ours[kind] != theirs[kind]}
    if _strangers(a, b) or _strangers(b, a) or (_unspaced(a) - _unspaced(b) and _unspaced(b) - _unspaced(a)):
        differing.add("name")
    return frozenset(differing)


def new_in(text: str, known: str) -> frozenset[Kind]:
    """The kinds of things that `text` holds and `known` does not; whether it denies must be equal."""
    ours, theirs = marks(text), marks(known)
    found: set[Kind] = {kind for kind in KINDS if kind not in ("name", "negation") and ours[kind] - theirs[kind]}
    if ours["negation"] != theirs["negation"]:
        found.add("negation")
    if _strangers(text, known) or _unspaced(text) - _unspaced(known):
        found.add("name")
    return frozenset(found)


@lru_cache(maxsize=4096)
def marks(text: str) -> Mapping[Kind, frozenset[str]]:
    """What a text holds of each kind, in one spelling."""
    plain = _NOON.sub(r"\1m", unicodedata.normalize("NFKC", text))
    words = [_EDGE.sub("", chunk) for chunk in _CHUNK.findall(plain)]
    identifiers = frozenset(word.casefold() for word in words if _is_identifier(word))
    rest = " ".join(word for word in plain.split() if _EDGE.sub("", word).casefold() not in identifiers)
    low = [_bare(word) for word in words]
    return {
        "number": _numbers(rest, low),
        "date": _dates(rest, words, low),
        "unit": _units(rest, low),
        "negation": frozenset({"denies"} if _denies(plain, low) else ()),
        "identifier": identifiers,
        "name": frozenset(_names(plain)),
    }


def _bare(word: str) -> str:
    return _POSSESSIVE.sub("", word.casefold().replace("’", "'"))


def _is_identifier(word: str) -> bool:
    if word.casefold() in UNITS:
        return False
    return bool(_IDENTIFIER.search(word)) and not _QUANTITY.fullmatch(word) and not _ISO_DATE.fullmatch(word)


def _numbers(text: str, low: list[str]) -> frozenset[str]:
    dateless = _ISO_DATE.sub(" ", text)
    digits = (
        (match["sign"] or "").replace("−", "-").replace("+", "")
        + _plain_number(match["digits"])
        + (match["tail"] or "")
        for match in _NUMBER.finditer(dateless)
    )
    parts = (part for word in low for part in (word, *word.split("-")))
    return frozenset(digits) | {NUMBER_WORDS[part] for part in parts if part in NUMBER_WORDS}


def _plain_number(digits: str) -> str:
    whole = _THOUSANDS.sub("", digits).replace(",", ".")
    return (whole.rstrip("0").rstrip(".") if "." in whole else whole.lstrip("0")) or "0"


def _dates(text: str, words: list[str], low: list[str]) -> frozenset[str]:
    named = {
        DATE_WORDS[bare]
        for word, bare in zip(words, low, strict=True)
        if bare in DATE_WORDS and (bare not in CAPITAL_DATES or word[:1].isupper())
    }
    return frozenset(named | set(_ISO_DATE.findall(text)) | {word for word in CJK_DATES if word in text})


def _units(text: str, low: list[str]) -> frozenset[str]:
    found = (match["after"] or match["before"] for match in _UNIT.finditer(text))
    counted = (unit for word, unit in pairwise(low) if word in NUMBER_WORDS)
    known = (UNITS.get(unit.casefold()) for unit in (*found, *counted))
    return frozenset(unit for unit in known if unit)


def _denies(text: str, low: list[str]) -> bool:
    if any(word in NEGATIONS or word.endswith("n't") or word.startswith("non-") for word in low):
        return True
    for harmless in CJK_NOT_NEGATIONS:
        text = text.replace(harmless, "")
    return bool(_UNSPACED.search(text)) and any(sign in text for sign in CJK_NEGATIONS)


def _names(text: str) -> set[str]:
    """Capitalised words, as they are compared; at a sentence's beginning only when what follows says so."""
    chunks = _CHUNK.findall(text)
    found: set[str] = set()
    for place, chunk in enumerate(chunks):
        word = _EDGE.sub("", chunk)
        if not word[:1].isupper() or _bare(word) in DATE_WORDS or _bare(word).split("'")[0] in STOP_WORDS:
            continue
        begins = place == 0 or bool(_SENTENCE_END.search(chunks[place - 1])) or chunks[place - 1] in "-*•"
        if not begins or _begins_with_name(word, _EDGE.sub("", chunks[place + 1]) if place + 1 < len(chunks) else ""):
            found.add(_bare(word))
    return found


def _begins_with_name(word: str, following: str) -> bool:
    if _bare(word) in PLAIN_STARTS or _bare(word) in NEGATIONS:
        return False
    capital = following[:1].isupper() and _bare(following).split("'")[0] not in STOP_WORDS
    return word.endswith(("'s", "’s")) or capital or following in FOLLOWS_A_NAME


def _strangers(a: str, b: str) -> bool:
    """Whether a name of `a` is no word of `b`."""
    words = {_bare(_EDGE.sub("", chunk)) for chunk in _CHUNK.findall(unicodedata.normalize("NFKC", b))}
    return any(name not in words for name in marks(a)["name"])


def _unspaced(text: str) -> frozenset[str]:
    plain = unicodedata.normalize("NFKC", text)
    return frozenset(_UNSPACED.findall(plain)) - _UNSPACED_PLAIN
