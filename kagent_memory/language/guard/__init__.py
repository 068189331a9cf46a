"""The difference guard: in what two texts differ that must never be merged away.

It reads the texts, not their meaning: when in doubt they differ, and both are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

from .. import tables
from ..handing_on import is_idle, is_praise, is_turning
from ..tokenizer import is_question
from .annotated_text import LONGEST, AnnotatedText, Word, has_no_case, is_unread, is_unspaced, read
from .word_order import denials, denies_something_else, reordered

__all__ = ["KINDS", "Kind", "adds", "denies_otherwise", "differences", "marks", "missing", "new_in", "same_words"]

Kind: TypeAlias = Literal["number", "date", "unit", "negation", "identifier", "name", "opposite", "order", "word"]
KINDS: tuple[Kind, ...] = ("number", "date", "unit", "negation", "identifier", "name", "opposite", "order", "word")
_MARKS: tuple[Kind, ...] = ("number", "date", "unit", "negation", "identifier", "name")
_COMMON_BEGINNING = 5
_INFLECTIONS = "e n t s st en est et te er es ons ez ent o as a amos an mo no i"
_ENDINGS = frozenset(("", *_INFLECTIONS.split()))


def differences(a: str, b: str) -> frozenset[Kind]:
    """The kinds of things in which two texts differ.

    Numbers (also in words), dates and times of all sorts, units and what is counted, what is denied, identifiers
    (codes, paths, options, acronyms), names (capitalised words; in scripts without capitals every word that tells),
    common opposites, what is wished, doubted or asked instead of being so, the order and the parts that people and
    things play, a single word in the place of another.
    Texts of more than 20,000 characters differ unless they are equal.
    """
    if a == b:
        return frozenset()
    if max(len(a), len(b)) > LONGEST:
        return frozenset({"word"})
    ours, theirs = read(a), read(b)
    found: set[Kind] = {kind for kind in _MARKS if kind != "name" and _differ(kind, ours, theirs)}
    letters, others = _letters(ours), _letters(theirs)
    if (
        _strangers(ours, theirs)
        or _strangers(theirs, ours)
        or (letters - others and others - letters)
        or (_caseless(ours, theirs) and _caseless(theirs, ours))
    ):
        found.add("name")
    if _excluding(ours, theirs) or _turned(ours) != _turned(theirs) or _asks(a) != _asks(b):
        found.add("opposite")
    if reordered(ours, theirs):
        found.add("order")
    if not found and (_replaced(ours, theirs) or _unread(ours) != _unread(theirs)):
        found.add("word")
    return frozenset(found)


def new_in(text: str, known: str) -> frozenset[Kind]:
    """The kinds of things that `text` holds and `known` does not; whether it denies must be equal.

    A text of more than 20,000 characters is new unless it is known as it is.
    """
    if len(text) > LONGEST:
        return frozenset() if text in known else frozenset({"word"})
    ours, theirs = marks(text), marks(known)
    found: set[Kind] = {kind for kind in _MARKS if kind not in ("name", "negation") and ours[kind] - theirs[kind]}
    if ours["negation"] != theirs["negation"]:
        found.add("negation")
    if _strangers(read(text), read(known)) or _letters(read(text)) - _letters(read(known)):
        found.add("name")
    return frozenset(found)


def adds(text: str, known: str, beside: str = "") -> frozenset[Kind]:
    """The kinds of things that `text` says beyond `known`, down to a single word.

    Args:
        text: what is said.
        known: one statement; `text` may leave parts of it out.
        beside: what may be named too, such as the day on which it was said.
    """
    everything = f"{known}\n{beside}" if beside else known
    found = set(new_in(text, everything))
    ours, theirs, held = read(text), read(known), read(everything)
    if not found and Counter(denials(ours, theirs)) - Counter(denials(theirs, ours)):
        found.add("negation")
    if not found and {(word.value, word.unit) for word in ours.words if word.unit}.difference(
        (word.value, word.unit) for word in held.words
    ):
        found.add("unit")
    if not found and _excluding(ours, theirs):
        found.add("opposite")
    # the dates and names that stand beside what is known have no place in its order
    values = {word.value for word in theirs.words}
    placed = (word for word in ours.words if word.kind not in ("date", "number", "name") or word.value in values)
    if not found and reordered(ours._replace(words=tuple(placed)), theirs):
        found.add("order")
    if not found and (_turns(ours) - _turns(held) or _unexplained(missing(everything, text), held)):
        found.add("word")
    return frozenset(found)


def _turns(reading: AnnotatedText) -> set[str]:
    return {word.low for word in reading.words if is_turning(word.low)}


def _unexplained(words: frozenset[str], held: AnnotatedText) -> bool:
    lows = {word.low for word in held.words}
    inflected = "en" not in held.spoken
    return any(
        not is_idle(word) and not is_praise(word) and word not in lows and not (inflected and _is_form(word, lows))
        for word in words
    )


def _is_form(word: str, others: Set[str]) -> bool:
    """Whether one of the others differs in its ending only, which the stemmer knows for English alone."""
    for other in others:
        common = next((place for place, (x, y) in enumerate(zip(word, other, strict=False)) if x != y), len(word))
        common = min(common, len(other))
        if common >= _COMMON_BEGINNING - 1 and {word[common:], other[common:]} <= _ENDINGS:
            return True
    return False


@lru_cache(maxsize=4096)
def marks(text: str) -> Mapping[Kind, frozenset[str]]:
    """What a text holds of each kind, in one spelling."""
    reading = read(text)
    words = reading.words
    return {
        **{kind: frozenset(_of_kind(words, kind)) for kind in ("number", "date", "identifier", "name")},
        "negation": frozenset({"denies"} if _denies(reading) else ()),
        "unit": frozenset(word.unit for word in words if word.unit),
    }


def missing(text: str, source: str) -> frozenset[str]:
    """The telling words of a source that a text does not hold, in any form of theirs."""
    ours, theirs = read(text), read(source)
    held = _Held(ours)
    return frozenset(
        word.value for word in theirs.words if word.tells and not held.has(word, ours.spoken | theirs.spoken)
    )


def denies_otherwise(a: str, b: str) -> bool:
    """Whether one of two sentences denies what the other says without a denial; what only one of them says is no
    matter.
    """
    ours, theirs = read(a), read(b)
    if _denied_of(ours, theirs) != _denied_of(theirs, ours):
        return True
    for one, other in ((ours, theirs), (theirs, ours)):
        held = {spelling for word in other.words for spelling in (word.value, word.low)}
        denies_all = any(denial.whole and not held.isdisjoint(denial.words) for denial in _denials_by_clause(one))
        if denies_all and not any(clause.open for clause in _denials_by_clause(other)):
            return True
    return False


def _denied_of(reading: AnnotatedText, other: AnnotatedText) -> frozenset[str]:
    """What the denials of a text stand before, in words that the other holds too."""
    held = {word.value for word in other.words if word.tells}
    found: set[str] = set()
    denying: Word | None = None
    for word in reading.words:
        if word.kind in ("negation", "refusal"):
            denying = word
        elif word.tells and denying is not None:
            found |= {word.value} & held if word.clause == denying.clause else set()
            denying = None
    return frozenset(found)


class _Denial(NamedTuple):
    """What a clause denies: all of it when no word behind the denial tells, or one of its verbs that tell nothing.

    Attributes:
        words: those that tell, else the others but function words.
        whole: no word behind the denial tells: it never went out, es kam nicht.
        open: the same, or a verb that tells nothing stands next behind it: it never went out to Oslo.
    """

    words: frozenset[str]
    whole: bool
    open: bool


def _denials_by_clause(reading: AnnotatedText) -> Iterator[_Denial]:
    for _, clause in groupby(reading.words, key=lambda word: word.clause):
        words = list(clause)
        place = max((at for at, word in enumerate(words) if word.kind in ("negation", "refusal")), default=None)
        if place is None:
            continue
        behind = [word for word in words[place + 1 :] if word.tells or word.kind == "light"]
        telling = frozenset(word.value for word in words if word.tells)
        whole = not any(word.tells for word in behind)
        plain = frozenset(word.low for word in words if word.kind == "light")
        yield _Denial(telling or plain, whole, whole or behind[0].kind == "light")


def same_words(a: str, b: str) -> bool:
    """Whether they say the same with the same telling words, in whatever forms and order without meaning."""
    return not missing(a, b) and not missing(b, a) and not differences(a, b)


class _Held:
    """The telling words of a text, ready to be asked for in other forms."""

    def __init__(self, reading: AnnotatedText) -> None:
        self._spoken = reading.spoken
        words = [word for word in reading.words if word.kind not in ("negation", "refusal")]
        self._values = {value for word in words for value in (word.value, word.low)}
        self._groups = {group for word in words for group in _synonyms(word, reading.spoken)}
        self._by_beginning: dict[str, list[str]] = {}
        for value in self._values:
            self._by_beginning.setdefault(value[:3], []).append(value)

    def has(self, word: Word, spoken: frozenset[str]) -> bool:
        if word.value in self._values or word.low in self._values:
            return True
        if word.kind not in ("", "name") or is_unspaced(word.low) or not any(map(str.isalnum, word.low)):
            return False
        if not self._groups.isdisjoint(_synonyms(word, spoken)):
            return True
        return not word.kind and any(_akin(word.value, other) for other in self._by_beginning.get(word.value[:3], ()))


def _differ(kind: Kind, a: AnnotatedText, b: AnnotatedText) -> bool:
    if kind == "negation":
        return _denies(a) != _denies(b) or denies_something_else(a, b)
    if kind == "unit":
        paired, others = (
            Counter((word.value, word.unit) for word in text.words if word.kind == "number") for text in (a, b)
        )  # 5 km in 30 min, 30 km in 5 min
        paired_otherwise = paired != others and not _differ("number", a, b)
        return _units(a) != _units(b) or paired_otherwise or _counts_strangers(a, b)
    if kind == "number":
        return Counter(_of_kind(a.words, kind)) != Counter(_of_kind(b.words, kind))
    return set(_of_kind(a.words, kind)) != set(_of_kind(b.words, kind))


def _denies(reading: AnnotatedText) -> bool:
    return any(word.kind in ("negation", "refusal") for word in reading.words)


def _of_kind(words: Sequence[Word], kind: Kind) -> Iterator[str]:
    return (word.value for word in words if word.kind == kind)


def _units(reading: AnnotatedText) -> frozenset[str]:
    return frozenset(word.unit for word in reading.words if word.unit)


def _counts_strangers(a: AnnotatedText, b: AnnotatedText) -> bool:
    """Whether the same number counts in each text what the other one does not speak of: 5 pesos, 5 rupees."""
    ours, theirs = _counted(a), _counted(b)
    held, others = _Held(a), _Held(b)
    spoken = a.spoken | b.spoken
    return any(
        not others.has(ours[number], spoken) and not held.has(theirs[number], spoken)
        for number in ours.keys() & theirs.keys()
    )


def _counted(reading: AnnotatedText) -> dict[str, Word]:
    """Number → the word behind it, where no unit stands there."""
    found: dict[str, Word] = {}
    for word, behind in zip(reading.words, reading.words[1:], strict=False):
        if word.kind == "number" and not word.unit and not behind.kind and behind.clause == word.clause:
            found.setdefault(word.value, behind)
    return found


def _strangers(a: AnnotatedText, b: AnnotatedText) -> bool:
    """Whether a name of `a` is no word of `b`."""
    lows = {word.low for word in b.words}
    strange = [word for word in a.words if word.kind == "name" and word.low not in lows]
    if not strange:
        return False
    groups = {group for word in b.words for group in _synonyms(word, b.spoken)}
    return any(groups.isdisjoint(_synonyms(word, a.spoken)) for word in strange)


def _letters(reading: AnnotatedText) -> frozenset[str]:
    return frozenset(letter for word in reading.words if not word.kind and is_unspaced(word.low) for letter in word.low)


def _unread(reading: AnnotatedText) -> frozenset[str]:
    return frozenset(word.low for word in reading.words if is_unread(word))


def _caseless(a: AnnotatedText, b: AnnotatedText) -> list[str]:
    held, spoken = _Held(b), a.spoken | b.spoken
    return [word.low for word in a.words if not word.kind and has_no_case(word) and not held.has(word, spoken)]


def _excluding(a: AnnotatedText, b: AnnotatedText) -> bool:
    """Whether each is on a side of some axis that the other is not on: open and closed, brother and sister."""
    ours, theirs = _by_axis(a), _by_axis(b)
    for axis in ours.keys() & theirs.keys():
        if ours[axis] - theirs[axis] and theirs[axis] - ours[axis]:
            return True
    return _by_prefix(a, b) or _by_prefix(b, a)


def _turned(reading: AnnotatedText) -> frozenset[str]:
    return frozenset(turn for word in reading.words for turn in word.turns)


def _asks(text: str) -> bool:
    return is_question(text, "\"'”’)» \n")


def _by_axis(reading: AnnotatedText) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for word in reading.words:
        for side in word.sides:
            found.setdefault(side.partition(":")[0], set()).add(side)
    return found


_PREFIXES = (
    "un",
    "in",
    "im",
    "ir",
    "il",
    "dis",
    "non",
    "mis",
    "anti",
    "de",
    "des",
    "dés",
    "o",
    "u",
    "не",
    "ne",
    "nie",
    "без",
    "a",
    "on",
)
_LEAST_STEM = 4


def _by_prefix(a: AnnotatedText, b: AnnotatedText) -> bool:
    """Whether a word of `a` stands in `b` with a prefix that turns it round (able: unable, legal: illegal)."""
    ours = {word.low.replace("-", "") for word in a.words}
    theirs = {word.low.replace("-", "") for word in b.words}
    turned = theirs - ours
    return any(prefix + word in turned for word in ours - theirs if len(word) >= _LEAST_STEM for prefix in _PREFIXES)


def _replaced(a: AnnotatedText, b: AnnotatedText) -> bool:
    """Whether, all else being equal, one telling word stands in the place of another that is no other form of it."""
    ours, theirs = ([word for word in reading.words if word.tells and not is_unspaced(word.low)] for reading in (a, b))
    if len(ours) != len(theirs) or not ours:
        return False
    apart = [(one, other) for one, other in zip(ours, theirs, strict=True) if one.value != other.value]
    if len(apart) != 1:
        return False
    ((one, other),) = apart
    return not _Held(b).has(one, a.spoken | b.spoken) and not _Held(a).has(other, a.spoken | b.spoken)


def _synonyms(word: Word, spoken: frozenset[str]) -> tuple[str, ...]:
    return tables.lexeme(word.low, spoken).groups


def _akin(one: str, other: str) -> bool:
    """Whether two stems are forms of one word: the one begins the other, or they share most of their letters."""
    short, long = sorted((one, other), key=len)
    if len(short) >= 3 and long.startswith(short) and len(long) - len(short) <= 4:
        return True
    common = next((place for place, (x, y) in enumerate(zip(short, long, strict=False)) if x != y), len(short))
    return common >= _COMMON_BEGINNING and common * 10 >= 7 * len(long)
