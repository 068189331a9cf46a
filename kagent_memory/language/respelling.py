"""Words one slip of the keys away, for a word of a query that nobody wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

MAX_RESPELT: Final = 3  # words of one query
_MIN_LETTERS = 4
_MAX_LETTERS = 24
_CERTAIN_LETTERS = 5  # shorter words differ from many others by one letter
_ALPHABETS = tuple(
    "".join(map(chr, range(ord(first), ord(last) + 1)))
    for first, last in ("az", "ая", "αω", "את", "ءي", "अह")
)
_MEANT = 2  # of the words that it may have been, those held by most memories


def respellings(terms: Iterable[str], known: Mapping[str, int]) -> dict[str, list[str]]:
    """For the first few of the terms that no memory holds, the terms one edit away.

    A letter left out, doubled, exchanged for another or with its neighbour. Of short words only a
    letter left out, or two exchanged: "boat" is no slip for "coat".

    Args:
        terms: of a query, as indexed.
        known: those that some memory holds.
    """
    unknown = [term for term in terms if term not in known and _alphabet(term)][:MAX_RESPELT]
    spellings: dict[str, list[str]] = {}
    for term in unknown:
        letters, edits = _alphabet(term), list[str]()
        for place in range(len(term) + 1):
            before, after = term[:place], term[place:]
            edits += (before + letter + after for letter in letters)
            if len(after) > 1 and after[0] != after[1]:
                edits.append(before + after[1] + after[0] + after[2:])
            if after and len(term) >= _CERTAIN_LETTERS:
                edits.append(before + after[1:])
                edits += (before + letter + after[1:] for letter in letters if letter != after[0])
        spellings[term] = list(dict.fromkeys(edits))
    return spellings


def respelt(
    terms: Sequence[str], tried: Mapping[str, Sequence[str]], known: Mapping[str, int]
) -> dict[str, list[str]]:
    """Each unknown term with what it was most likely meant as, the words that most memories hold
    first.

    Args:
        terms: of the query.
        tried: what `respellings` gave for them.
        known: those of all that some memory holds, and how many do.
    """
    meant = {
        term: sorted(
            filter(known.__contains__, tried.get(term, ())), key=lambda spelling: -known[spelling]
        )
        for term in terms
    }
    return {term: spellings[:_MEANT] for term, spellings in meant.items() if spellings}


def _alphabet(term: str) -> str:
    """Return the letters that a word is written with; none for a number, an identifier, or a word
    of unsuited length.
    """
    if not _MIN_LETTERS <= len(term) <= _MAX_LETTERS:
        return ""
    return next((letters for letters in _ALPHABETS if all(map(letters.__contains__, term))), "")
