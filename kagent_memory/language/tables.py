"""The words of all languages in tables to look them up in, made when they are first needed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import NamedTuple

from .vocabulary.asian import ARABIC, HEBREW, HINDI, INDONESIAN, PERSIAN, TURKISH, VIETNAMESE
from .vocabulary.de import GERMAN
from .vocabulary.en import ACRONYMS, ENGLISH
from .vocabulary.es import SPANISH
from .vocabulary.european import FINNISH, GREEK, HUNGARIAN, ROMANIAN
from .vocabulary.fr import FRENCH
from .vocabulary.it import ITALIAN
from .vocabulary.language import Language
from .vocabulary.nl import DUTCH
from .vocabulary.nordic import DANISH, SWEDISH
from .vocabulary.pt import PORTUGUESE
from .vocabulary.slavic import CZECH, POLISH, RUSSIAN, UKRAINIAN
from .vocabulary.units import CASED, CURRENCY_CODES, SYMBOLS
from .vocabulary.unspaced import CHINESE, JAPANESE, KOREAN, THAI

SPACED = (
    ENGLISH, GERMAN, FRENCH, SPANISH, ITALIAN, PORTUGUESE, DUTCH, SWEDISH, DANISH, RUSSIAN, POLISH, UKRAINIAN, CZECH,
    TURKISH, ARABIC, HINDI, PERSIAN, HEBREW, INDONESIAN, VIETNAMESE, FINNISH, HUNGARIAN, ROMANIAN, GREEK,
)  # fmt: skip
UNSPACED = (CHINESE, JAPANESE, KOREAN, THAI)
LANGUAGES = (*SPACED, *UNSPACED)
DEFAULT = "en"
_WORD = re.compile(r"\S+")
_WORDS_THAT_TELL = 400  # of a text tell its language
_CHARS_THAT_TELL = 4000
_SHORTEST_STEM = 2
MONTH_NAMES = tuple(group.split()[0] for group in ENGLISH.months.split("|"))
DAY_NAMES = tuple(group.split()[0] for group in ENGLISH.weekdays.split("|"))
_NEAR = frozenset(("next", "last"))


class Entry(NamedTuple):
    """What a word stands for in one language."""

    code: str
    value: str
    doubtful: bool = False

    def counts(self, spoken: frozenset[str]) -> bool:
        """Whether it does in a text of these languages; what other languages use otherwise only where it is spoken."""
        return not self.doubtful or self.code in spoken or (self.code == DEFAULT and not spoken)


class Words:
    """A table of words, beginnings of words ("open*") and phrases ("in_person")."""

    def __init__(self, rows: Iterable[tuple[str, Entry]]) -> None:
        self._exact: dict[str, list[Entry]] = {}
        self._stems: dict[str, list[Entry]] = {}
        self._phrases: dict[str, list[tuple[tuple[str, ...], Entry]]] = {}
        for form, entry in rows:
            if "_" in form:
                first, *rest = form.strip("_").split("_")
                self._phrases.setdefault(first, []).append((tuple(rest), entry))
            elif form.endswith("*"):
                self._stems.setdefault(form[:-1], []).append(entry)
            else:
                self._exact.setdefault(form, []).append(entry)
        self._longest = max(map(len, self._stems), default=0)

    def of(self, word: str, spoken: frozenset[str]) -> Iterator[Entry]:
        """The entries that a word has by itself."""
        yield from (entry for entry in self._exact.get(word, ()) if entry.counts(spoken))
        for end in range(_SHORTEST_STEM, min(len(word), self._longest) + 1):
            yield from (entry for entry in self._stems.get(word[:end], ()) if entry.counts(spoken))

    def phrases(self, words: Sequence[str], place: int, spoken: frozenset[str]) -> Iterator[Entry]:
        """The entries of the phrases that begin at this place."""
        for rest, entry in self._phrases.get(words[place], ()):
            if entry.counts(spoken) and tuple(words[place + 1 : place + 1 + len(rest)]) == rest:
                yield entry

    def begins_phrase(self, word: str) -> bool:
        """Whether a phrase begins so."""
        return word in self._phrases

    def value(self, word: str, spoken: frozenset[str]) -> str | None:
        """What the word by itself stands for; the languages that are spoken are asked first."""
        found = list(self.of(word, spoken))
        mine = [entry for entry in found if entry.code in spoken]
        return (mine or found)[0].value if found else None

    def holds(self, word: str, spoken: frozenset[str]) -> bool:
        """Whether the word by itself is in the table."""
        return next(self.of(word, spoken), None) is not None


class Lexeme(NamedTuple):
    """What a word is in a text of some languages.

    Attributes:
        number: its value in digits; `one`: it is a word for one.
        date: its English name; `capital`: only when written with a capital.
        near: "next" or "last"; `period`: what that may stand beside.
        unit: the name of the unit it is.
        denies, refuses: it says no, by itself or by what it means.
        function, light: it tells nothing.
        role: "from", "to", "by" or itself, when it is a preposition.
        even: around it both sides may change places.
        sides: "axis:side" of the opposites that it belongs to; a "!" behind: only when it stands by itself.
        turns: what it makes of what is so: a wish, a doubt.
        groups: those it is a synonym in.
        starts, follows: see `Language.starts` and `Language.after_names`.
        phrase: a phrase may begin with it.
    """

    number: str | None
    one: bool
    date: str | None
    capital: bool
    near: str | None
    period: str | None
    unit: str | None
    denies: bool
    refuses: bool
    function: bool
    light: bool
    role: str
    even: bool
    sides: tuple[str, ...]
    turns: tuple[str, ...]
    groups: tuple[str, ...]
    starts: bool
    follows: bool
    phrase: bool


@lru_cache(maxsize=1 << 16)
def lexeme(word: str, spoken: frozenset[str]) -> Lexeme:
    """What a word in small letters is in a text of these languages."""

    def holds(name: str) -> bool:
        return field(name).holds(word, spoken)

    named = units().value(word, spoken)
    date = dates().value(word, spoken)
    period = (named or date or word) if holds("periods") else date if date in DAY_NAMES + MONTH_NAMES else None
    roles = (role for name, role in (("sources", "from"), ("goals", "to"), ("agents", "by")) if holds(name))
    joined = word[:1] == "و" and len(word) > 3  # Arabic's "and" is written in front of it
    return Lexeme(
        number=numbers().value(word[1:] if joined else word, spoken),
        one=ones().holds(word, spoken),
        date=date,
        capital=capital_dates().holds(word, spoken),
        near=nearness().value(word, spoken),
        period=period,
        unit=named,
        denies=holds("negations") or _denies_by_form(word, spoken),
        refuses=holds("refusals"),
        function=is_function_word(word, spoken),
        light=holds("light_words"),
        role=next(roles, word if holds("prepositions") else ""),
        even=any(holds(name) for name in ("copulas", "conjunctions", "articles"))
        or any(
            word in unspaced_words(code, name) for code in ("zh", "ja", "ko") for name in ("copulas", "conjunctions")
        ),
        sides=tuple(dict.fromkeys(entry.value for entry in opposites().of(word, spoken))),
        turns=tuple(entry.value for entry in turns().of(word, spoken)),
        groups=tuple(entry.value for entry in synonyms().of(word, spoken)),
        starts=holds("starts"),
        follows=holds("after_names"),
        phrase=any(
            table.begins_phrase(word) for table in (opposites(), turns(), dates(), nearness(), field("negations"))
        ),
    )


class Piece(NamedTuple):
    """A piece of an unspaced text that stands for something: `kind` is a field of `Language`."""

    start: int
    end: int
    kind: str
    value: str


class Pieces:
    """Finds the pieces of text that tell in scripts without spaces: from left to right, the longest first."""

    def __init__(self, rows: Iterable[tuple[str, str, str]]) -> None:
        self._by_first: dict[str, list[str]] = {}
        self._means: dict[str, list[tuple[str, str]]] = {}
        for form, kind, value in rows:
            self._means.setdefault(form, []).append((kind, value))
        for form in sorted(self._means, key=len, reverse=True):
            self._by_first.setdefault(form[0], []).append(form)

    def find(self, text: str) -> list[Piece]:
        """All pieces of a text; those that mean nothing by themselves are passed over."""
        found: list[Piece] = []
        place = 0
        while place < len(text):
            form = next((one for one in self._by_first.get(text[place], ()) if text.startswith(one, place)), None)
            if form is None:
                place += 1
                continue
            end = place + len(form)
            found += (Piece(place, end, kind, value) for kind, value in self._means[form] if value)
            place = end
        return found


@lru_cache(maxsize=4096)
def spoken(text: str) -> frozenset[str]:
    """The languages that the words and letters of a text speak for most, by their codes; empty: none does."""
    scores: dict[str, int] = {}
    begins = True
    for found in islice(_WORD.finditer(text[:_CHARS_THAT_TELL]), _WORDS_THAT_TELL):
        raw = found.group().strip(".,;:!?¿¡\"'“”„«»()[]")
        inside, begins = not begins, found.group()[-1] in ".!?:…"
        named = inside and raw[:1].isupper() and not raw.isupper()  # such as Kim, which is "who" in Turkish
        word = raw.casefold()
        for code in () if named else _telling_words().get(word, ()):
            scores[code] = scores.get(code, 0) + 2
        for code in _other_words().get(word, ()):
            scores[code] = scores.get(code, 0) + 1
    for letter in frozenset(text[:_CHARS_THAT_TELL].casefold()):
        for code in _LETTERS.get(letter, ()):
            scores[code] = scores.get(code, 0) + 3
    most = max(scores.values(), default=0)
    found = frozenset(code for code, score in scores.items() if score == most)
    return frozenset((DEFAULT,)) if DEFAULT in found else found


def is_function_word(word: str, codes: frozenset[str]) -> bool:
    """Whether it only holds a sentence together, in one of these languages (none: in English)."""
    return not _telling_words().get(word, frozenset()).isdisjoint(codes or {DEFAULT})


@cache
def field(name: str) -> Words:
    """The table of a field that is a list of words."""
    return Words(
        (form, _entry(language, form, form)) for language in SPACED for form in getattr(language, name).split()
    )


@cache
def numbers() -> Words:
    """Number words → their value in digits; "1st", "2nd" … for ordinals."""
    return Words((form, _entry(language, form, value)) for language in LANGUAGES for form, value in _numbers(language))


@cache
def ones() -> Words:
    """Words for one: a number only where they end a larger one."""
    return Words((language.numbers.split()[1], _entry(language, "", "1")) for language in SPACED if language.numbers)


@cache
def dates() -> Words:
    """Words for times → their English name."""
    return Words((form, _entry(language, form, name)) for language in SPACED for name, form in _dates(language))


@cache
def capital_dates() -> Words:
    """Those that are dates only with a capital."""
    return field("capital_dates")


@cache
def nearness() -> Words:
    """Words for "next" and "last" → which of the two; "this" tells no more than the day or week beside it."""
    return Words(
        (form, _entry(language, form, name))
        for language in SPACED
        for name, form in _named(language.nearness)
        if name in _NEAR
    )


@cache
def units() -> Words:
    """Words for units → their English name; symbols are told by `symbol`."""
    return Words((form, _entry(language, form, name)) for language in SPACED for name, form in _named(language.units))


@cache
def opposites() -> Words:
    """Words → "axis:side"; words of different sides of one axis exclude each other."""
    return Words(
        (form.rstrip("!"), _entry(language, form, f"{axis}:{number}{'!' * form.endswith('!')}"))
        for language in SPACED
        for axis, number, form in _sides(language)
    )


@cache
def turns() -> Words:
    """Words that make something else of what is so → what."""
    return Words((form, _entry(language, form, name)) for language in SPACED for name, form in _named(language.turns))


@cache
def synonyms() -> Words:
    """Words → the name of a group that says the same."""
    return Words(
        (form, _entry(language, form, f"{language.code}{number}"))
        for language in SPACED
        for number, group in enumerate(_groups(language.synonyms))
        for form in group.split()
    )


@cache
def pieces(code: str) -> Pieces:
    """What tells in texts of a language without spaces."""
    language = next(one for one in UNSPACED if one.code == code)
    rows = [(form, "harmless", "") for form in language.doubtful.split()]
    rows += ((form, "negations", "denies") for form in language.negations.split())
    rows += ((form, "dates", name) for name, form in _dates(language))
    rows += ((form, "units", name) for name, form in _named(language.units))
    rows += ((form, "opposites", f"{axis}:{number}") for axis, number, form in _sides(language))
    return Pieces((form.replace("_", " ").strip(), kind, value) for form, kind, value in rows)


@cache
def unspaced_words(code: str, name: str) -> frozenset[str]:
    """A field of a language without spaces that is a list of words."""
    return frozenset(next(getattr(one, name) for one in UNSPACED if one.code == code).split())


@cache
def korean_numbers() -> Mapping[str, str]:
    """Korean number words that stand by themselves → their value."""
    return dict(_numbers(KOREAN))


def unspaced_unit(text: str) -> str | None:
    """The name of a unit written in a script without spaces."""
    return _UNSPACED_UNITS.get(text)


def is_currency(text: str) -> bool:
    """Whether a word in capitals is a currency's code, such as EUR."""
    return text.casefold() in _CURRENCY_CODES


@cache
def _denying_ends() -> tuple[Mapping[str, Sequence[tuple[int, str]]], Sequence[tuple[str, int, str]]]:
    """By how a word ends, and by what stands within it: (how many letters in front, the language)."""
    ends: dict[str, list[tuple[int, str]]] = {}
    within: list[tuple[str, int, str]] = []
    for language in SPACED:
        for form in language.negation_forms.split():
            bare = form.lstrip(".")
            if bare.endswith("*"):
                within.append((bare[:-1], len(form) - len(bare), language.code))
            else:
                ends.setdefault(bare, []).append((len(form) - len(bare), language.code))
    return ends, within


def _denies_by_form(word: str, spoken: frozenset[str]) -> bool:
    ends, within = _denying_ends()
    for start in range(max(1, len(word) - max(map(len, ends))), len(word)):
        for least, code in ends.get(word[start:], ()):
            if start >= least and (code in spoken or not spoken):
                return True
    return any(word.find(form, least) >= 0 for form, least, code in within if code in spoken or not spoken)


@cache
def concord() -> frozenset[str]:
    """The languages in which several denials in one clause are one."""
    return frozenset(language.code for language in LANGUAGES if language.concord)


@cache
def months(*codes: str) -> Mapping[str, int]:
    """Names of months in these languages → 1 to 12."""
    chosen = [language for language in SPACED if language.code in codes]
    return {
        form: number
        for language in chosen
        for number, group in enumerate(_groups(language.months), 1)
        for form in group.split()
    }


def weekdays(*codes: str) -> frozenset[str]:
    """Names of the days of the week in these languages."""
    return frozenset(form for language in SPACED if language.code in codes for form in language.weekdays.split()) - {
        "|"
    }


def symbol(text: str) -> str | None:
    """The name of the unit that a symbol stands for: by its case where that tells units apart."""
    whole, _, part = text.partition("/")
    if part and _SYMBOLS.get(text.casefold()) is None:
        names = symbol(whole), symbol(part)
        return None if None in names else "/".join(map(str, names))
    return _CASED.get(text) or _SYMBOLS.get(text.casefold()) or (text if keeps_case(text) else None)


def is_acronym(word: str) -> bool:
    """Whether a word in capitals is another one when it is written small: IT and it, AIDS and aids."""
    return holds_together(word) or word.lower() in _ACRONYMS


def holds_together(word: str) -> bool:
    """Whether it is a function word of any language."""
    return word.lower() in _telling_words()


def keeps_case(word: str) -> bool:
    """Whether it is a unit's symbol whose case tells units apart."""
    return word.casefold() in _CASED_FOLDED


def _groups(text: str) -> list[str]:
    return [group.strip() for group in text.split("|") if group.strip()]


def _named(text: str) -> Iterator[tuple[str, str]]:
    for group in _groups(text):
        name, _, forms = group.partition(":")
        for form in forms.split():
            yield name.strip(), form


def _numbers(language: Language) -> Iterator[tuple[str, str]]:
    plain = language.numbers.split()
    more = dict(pair.split(":") for pair in language.more_numbers.split())
    # "one", "ein", "un" are articles and pronouns as often as numbers: against another number they still differ.
    yield from ((word, str(value)) for value, word in enumerate(plain) if value != 1)
    yield from more.items()
    tens = [
        (word, int(value)) for word, value in more.items() if value.isdecimal() and int(value) in range(30, 100, 10)
    ]
    tens += [(word, 20) for value, word in enumerate(plain) if value == 20]
    tens += [(word, 20) for word, value in more.items() if value == "20"]
    for ten, size in tens:
        for unit, word in enumerate(plain[:10]):
            if unit:
                value = str(size + unit)
                if (joint := language.units_joined) is not None:
                    yield word + joint + ten, value
                    if word.endswith("e"):
                        yield word + joint.replace("e", "ë", 1) + ten, value
                if language.tens_joined is not None:
                    yield (ten[:-1] if unit in (1, 8) and language.code == "it" else ten) + word, value


def _dates(language: Language) -> Iterator[tuple[str, str]]:
    for names, groups in ((MONTH_NAMES, language.months), (DAY_NAMES, language.weekdays)):
        for name, group in zip(names, _groups(groups), strict=False):
            yield from ((name, form) for form in group.split())
    yield from _named(language.dates)


def _sides(language: Language) -> Iterator[tuple[str, int, str]]:
    for group in _groups(language.opposites):
        axis, _, sides = group.partition(":")
        for number, side in enumerate(sides.split("/")):
            for form in side.split():
                yield axis.strip(), number, form


def _entry(language: Language, form: str, value: str) -> Entry:
    bare = form.rstrip("*!")
    elsewhere = any(language.code != code for code in _telling_words().get(bare, ()))
    return Entry(language.code, value, elsewhere or bare in _DOUBTFUL[language.code])


@cache
def _telling_words() -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for language in LANGUAGES:
        for word in language.function_words.split():
            found.setdefault(word, set()).add(language.code)
    return {word: frozenset(codes) for word, codes in found.items()}


@cache
def _other_words() -> Mapping[str, frozenset[str]]:
    """Words that are no function words of any language, and tell which it is too."""
    found: dict[str, set[str]] = {}
    for language in SPACED:
        lists = (language.months, language.weekdays, language.negations, language.light_words, language.synonyms)
        for form in " ".join(lists).split():
            found.setdefault(form, set()).add(language.code)
        pairs = (
            *_numbers(language),
            *((form, name) for name, form in (*_named(language.dates), *_named(language.units))),
        )
        for form, _ in pairs:
            found.setdefault(form, set()).add(language.code)
    return {form: frozenset(codes) for form, codes in found.items() if form not in _telling_words() and form != "|"}


_DOUBTFUL = {
    language.code: frozenset(word.rstrip("*!") for word in language.doubtful.split()) for language in LANGUAGES
}
_LETTERS = {
    letter: frozenset(language.code for language in SPACED if letter in language.letters)
    for letter in "".join(language.letters for language in SPACED)
}
_SYMBOLS = {form: name for name, form in _named(SYMBOLS)}
_CASED = {form: name for name, form in _named(CASED)}
_CASED_FOLDED = frozenset(form.casefold() for form in _CASED)
_CURRENCY_CODES = frozenset(CURRENCY_CODES.split())
_ACRONYMS = frozenset(ACRONYMS.split())
_UNSPACED_UNITS = {form: name for language in UNSPACED for name, form in _named(language.units)}
