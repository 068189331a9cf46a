"""Whether two texts say the same words in other parts or another order: who does what to whom, from where to where."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from .. import tables
from .annotated_text import AnnotatedText, Word, is_unspaced

_MARKS = frozenset(("number", "date", "identifier"))
_OPPOSED_ROLES = frozenset((frozenset(("from", "to")), frozenset(("by", "to")), frozenset(("subject", "object"))))
_LONGEST_SWAP = 80
_MOST_MARKS = 64

Item = tuple[str, str, int]  # kind, value, which of its like


def reordered(a: AnnotatedText, b: AnnotatedText) -> bool:
    """Whether what both texts hold plays other parts in them, or stands in another order that may mean something else.

    A phrase with the same preposition may stand anywhere, and both sides of "is" and "and" may change places.
    """
    ours, theirs = _items(a, _names(a, b)), _items(b, _names(a, b))
    return (
        _plays_other_parts(ours, theirs)
        or _stands_in_other_order(a, ours, b, theirs)
        or _counts_other_things(a, b)
        or _opposites_swapped(a, b)
        or _swapped(a, b)
    )


def denies_something_else(a: AnnotatedText, b: AnnotatedText) -> bool:
    """Whether both deny, but not the same: another number of times, or other words."""
    return denials(a, b) != denials(b, a)


def denials(reading: AnnotatedText, other: AnnotatedText) -> list[tuple[str, int]]:
    """What each denial in a text is about, in words that the other text holds too.

    That is the next word that both hold, or else the one before; and which of its like.
    """
    shared = Counter(word.value for word in reading.words if word.tells) & Counter(
        word.value for word in other.words if word.tells
    )
    places: list[int] = []
    keys: list[tuple[str, int]] = []
    seen: Counter[str] = Counter()
    for place, word in enumerate(reading.words):
        if word.tells and shared[word.value] > 0:
            places.append(place)
            keys.append((word.value, seen[word.value]))
            seen[word.value] += 1
    found: list[tuple[str, int]] = []
    former = -1
    for place, word in enumerate(reading.words):
        if word.kind != "negation" or (word.clause == former and reading.spoken & tables.concord()):
            continue
        former = word.clause
        behind = bisect(places, place)
        if behind < len(places) and reading.words[places[behind]].clause == word.clause:
            found.append(keys[behind])
        else:
            found.append(keys[behind - 1] if behind else ("", 0))
    return found


def _names(a: AnnotatedText, b: AnnotatedText) -> frozenset[str]:
    return frozenset(word.low for reading in (a, b) for word in reading.words if word.kind == "name")


def _items(reading: AnnotatedText, names: frozenset[str]) -> dict[Item, tuple[int, Word]]:
    """What has a place: names, numbers, dates, identifiers; each with where it stands."""
    found: dict[Item, tuple[int, Word]] = {}
    seen: Counter[tuple[str, str]] = Counter()
    for place, word in enumerate(reading.words):
        named = word.low in names or (word.role and word.kind == "" and is_unspaced(word.low))
        key = ("name", word.low) if named else (word.kind, word.value) if word.kind in _MARKS else None
        if key is not None and len(found) < _MOST_MARKS:
            found[key[0], key[1], seen[key]] = (place, word)
            seen[key] += 1
    return found


def _plays_other_parts(ours: dict[Item, tuple[int, Word]], theirs: dict[Item, tuple[int, Word]]) -> bool:
    changes = {(item[0], ours[item][1].role, theirs[item][1].role) for item in ours.keys() & theirs.keys()}
    return any(
        one != other and (frozenset((one, other)) in _OPPOSED_ROLES or (kind, other, one) in changes)
        for kind, one, other in changes
    )


def _stands_in_other_order(
    a: AnnotatedText, ours: dict[Item, tuple[int, Word]], b: AnnotatedText, theirs: dict[Item, tuple[int, Word]]
) -> bool:
    groups: dict[tuple[str, str], list[Item]] = {}
    for item in ours.keys() & theirs.keys():
        role = ours[item][1].role if ours[item][1].role == theirs[item][1].role else ""
        groups.setdefault((item[0], role), []).append(item)
    for group in groups.values():
        for one, other in combinations(group, 2):
            before = ours[one][0] < ours[other][0]
            if before == (theirs[one][0] < theirs[other][0]):
                continue
            between = {_between(a, ours, one, other), _between(b, theirs, one, other)}
            if None in between or (len(between) == 1 and _joins(between, a.spoken | b.spoken)):
                return True
    return False


def _between(reading: AnnotatedText, items: dict[Item, tuple[int, Word]], one: Item, other: Item) -> str | None:
    """The one word that stands between two names, if it is one."""
    first, second = sorted((items[one][0], items[other][0]))
    return reading.words[first + 1].low if one[0] == "name" and second - first == 2 else None


def _counts_other_things(a: AnnotatedText, b: AnnotatedText) -> bool:
    """Whether two numbers count what the other one does in the other text ("5 cats, 3 dogs": "3 cats, 5 dogs")."""
    ours, theirs = _counted(a), _counted(b)
    shared = [number for number in ours if number in theirs]
    return any(
        ours[one] != ours[other] and ours[one] == theirs[other] and ours[other] == theirs[one]
        for one, other in combinations(shared[:_MOST_MARKS], 2)
    )


def _counted(reading: AnnotatedText) -> dict[str, str]:
    found: dict[str, str] = {}
    for place, word in enumerate(reading.words):
        if word.kind == "number":
            behind = next((one.value for one in reading.words[place + 1 : place + 4] if one.kind in ("", "name")), "")
            found.setdefault(word.value, f"{word.unit} {behind}")
    return found


def _opposites_swapped(a: AnnotatedText, b: AnnotatedText) -> bool:
    """Whether both hold both sides of an axis, in another order."""
    ours, theirs = _sides(a), _sides(b)
    return any(
        ours[axis] != theirs[axis] and set(ours[axis]) == set(theirs[axis]) and len(set(ours[axis])) > 1
        for axis in ours.keys() & theirs.keys()
    )


def _sides(reading: AnnotatedText) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in reading.words:
        for side in word.sides:
            found.setdefault(side.partition(":")[0], []).append(side)
    return found


def _swapped(a: AnnotatedText, b: AnnotatedText) -> bool:
    """Whether two parts have changed places around a third that joins them: "dogs chase cats", "cats chase dogs"."""
    spoken = a.spoken | b.spoken
    held = Counter(word.low for word in a.words) & Counter(word.low for word in b.words)
    ours, theirs = list(_shared(a, held)), list(_shared(b, held))
    while ours and theirs and ours[0].low == theirs[0].low:
        del ours[0], theirs[0]
    while ours and theirs and ours[-1].low == theirs[-1].low:
        del ours[-1], theirs[-1]
    if len(ours) > _LONGEST_SWAP:
        return True
    first, second = [word.low for word in ours], [word.low for word in theirs]
    for start, end in _swaps(first, second):
        # a phrase whose preposition comes along may stand anywhere, and so may a pronoun
        movable = any(
            part[0].kind == "function" if len(part) == 1 else tables.lexeme(part[0].low, spoken).role
            for part in (ours[:start], ours[end:])
        )
        if _joins(first[start:end], spoken) and not movable:
            return True
    return False


def _shared(reading: AnnotatedText, held: Counter[str]) -> Iterator[Word]:
    """The words that both texts hold, and those that tell: these are not passed over, whoever holds them."""
    left = Counter(held)
    for word in reading.words:
        if left[word.low] > 0:
            left[word.low] -= 1
            yield word
        elif word.kind not in ("function", "light"):
            yield word


def _swaps(first: Sequence[str], second: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The places between which `first` keeps its middle, its two ends standing the other way round in `second`."""
    size = len(first)
    for end in range(2, size):
        tail = size - end
        if list(first[end:]) != list(second[:tail]):
            continue
        for start in range(1, end):
            if list(first[:start]) == list(second[size - start :]) and list(first[start:end]) == list(
                second[tail : size - start]
            ):
                yield start, end


def _joins(middle: Iterable[str | None], spoken: frozenset[str]) -> bool:
    """Whether something stands there around which the sides may not change places."""
    return not all(word and tables.lexeme(word, spoken).even for word in middle)
