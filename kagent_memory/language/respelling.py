"""Correct typing errors: words one edit away from a query word that no memory holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

MAX_RESPELT = 2  # words of one query; hundreds of spellings each are looked up
_MIN_LETTERS = 4
_MAX_LETTERS = 24
_CERTAIN_LETTERS = 5  # one letter turns a shorter word into many others
_ALPHABETS = tuple(
    "".join(map(chr, range(ord(first), ord(last) + 1)))
    for first, last in ("az", "ая", "αω", "את", "ءي", "अह")
)
_MEANT = 2  # corrections of one word, those that most memories hold


def respellings(terms: Iterable[str], known: Mapping[str, int]) -> dict[str, list[str]]:
    """Return the spellings one edit away for the first few terms that no memory holds.

    An edit inserts, removes or replaces a letter, or swaps two neighbours; for short words it only
    inserts or swaps, because "boat" is no misspelling of "coat".

    Args:
        terms: the terms of a query.
        known: the terms among them that some memory holds.
    """
    spellings: dict[str, list[str]] = {}
    for term in [term for term in terms if term not in known and _alphabet(term)][:MAX_RESPELT]:
        letters = _alphabet(term)
        edits: list[str] = []
        for place in range(len(term) + 1):
            before, after = term[:place], term[place:]
            edits += [before + letter + after for letter in letters]
            if len(after) > 1 and after[0] != after[1]:
                edits.append(before + after[1] + after[0] + after[2:])
            if after and len(term) >= _CERTAIN_LETTERS:
                edits.append(before + after[1:])
                edits += [before + letter + after[1:] for letter in letters if letter != after[0]]
        spellings[term] = list(dict.fromkeys(edits))
    return spellings


def respelt(
    terms: Sequence[str], tried: Mapping[str, Sequence[str]], known: Mapping[str, int]
) -> dict[str, list[str]]:
    """Return the most likely corrections of each unknown term, the most frequent ones first.

    Args:
        terms: the terms of the query.
        tried: the result of `respellings`.
        known: the terms and spellings that some memory holds, with how many memories do.
    """
    meant = {
        term: sorted(
            filter(known.__contains__, tried.get(term, ())), key=lambda spelling: -known[spelling]
        )
        for term in terms
    }
    return {term: spellings[:_MEANT] for term, spellings in meant.items() if spellings}


def _alphabet(term: str) -> str:
    """Return the alphabet of a word; "" for a number, an identifier, or a word that is too short
    or too long.
    """
    if not _MIN_LETTERS <= len(term) <= _MAX_LETTERS:
        return ""
    return next((letters for letters in _ALPHABETS if all(map(letters.__contains__, term))), "")
