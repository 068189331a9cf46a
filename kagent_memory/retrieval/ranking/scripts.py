"""Knowledge of scripts: how far an embedder tells the letters of a text's script apart."""

from __future__ import annotations

import unicodedata

import numpy as np

from ...records import Vector

UNRELATED = ("The tea is green.", "Trains leave at noon.")
_LAST_LATIN = "\u024f"
_STEPS = (11, -11, 5, -5)
_LEAST_TRUST = 0.1


def disguised(text: str) -> str:
    """Return the text with each letter replaced by another of its script; "" if most of it is
    Latin.
    """
    letters = [char for char in text if char.isalpha()]
    if 2 * sum(char > _LAST_LATIN for char in letters) <= len(letters):
        return ""
    return "".join(map(_another, text))


def trust(text: Vector, other: Vector, *unrelated: Vector) -> float:
    """Return how far the vectors of a script tell texts apart, beside those of two English texts,
    in 0.1..1.

    Args:
        text: of the text.
        other: of the text in other letters, which means nothing.
        unrelated: of the two texts `UNRELATED`.
    """
    room = 1 - _cosine(*unrelated)
    return (
        min(1.0, max(_LEAST_TRUST, (1 - _cosine(text, other)) / room))
        if room > _LEAST_TRUST
        else 1.0
    )


def _another(letter: str) -> str:
    script = unicodedata.name(letter, "").partition(" ")[0]
    for step in _STEPS if letter.isalpha() else ():
        other = chr(ord(letter) + step)
        alike = other.isalpha() and other.islower() == letter.islower()
        if alike and unicodedata.name(other, "").partition(" ")[0] == script:
            return other
    return letter


def _cosine(one: Vector, other: Vector) -> float:
    first, second = one.astype(np.float64), other.astype(np.float64)
    return float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second)))
