"""Find the dates that a query names, and tell how close a memory is to them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta
from functools import cache
from itertools import chain
from typing import Final

from .tokenizer import STOP_WORDS, tokens
from .word_lists import all_words, months, weekdays

_LANGUAGES = ("en", "de", "es", "fr")
_MONTHS = months(*_LANGUAGES)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_YEAR = r"(?:19|20)\d\d"
_ORDINAL = r"(?:st|nd|rd|th)?\.?"
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?"
_NAMED = re.compile(
    rf"(?:\b(?P<before>\d{{1,2}}){_ORDINAL}(?: of| de)? )?\b{_MONTH}"
    rf"(?: (?:the )?(?P<after>\d{{1,2}}){_ORDINAL}(?![\d:]))?(?:,? (?:of "
    rf"|de )?(?P<year>{_YEAR})\b)?"
)
_NUMERIC = re.compile(
    rf"(?<![\w.-])(?P<year>{_YEAR})[-/年](?P<month>\d{{1,2}})(?:[-/月](?P<day>\d{{1,2}}))?(?!\d)"
)
# 23.1.2024, 23-01-2024; with slashes the month may come first (1/23/2024), so 3/4/2024 is read as
# both days.
_DAY_FIRST = re.compile(
    r"(?<![\w.,:/-])(?P<first>\d{1,2})(?P<mark>[./-]) ?(?P<second>\d{1,2})"
    rf"(?P=mark) ?(?P<year>{_YEAR})(?![\w/-]|\.\d)"
)
_LONE_YEAR = re.compile(rf"(?<![\w.-]){_YEAR}(?![\w-]|\.\d)")
_RELATIVE = re.compile(
    r"\b(?:(?P<word>today|yesterday|last night)|last (?P<unit>week|month|year)"
    r"|(?P<count>\d{1,3}|an?|two|three|four|five|six) (?P<units>day|week|month|year)s? ago"
    rf"|(?:last|on|past) (?P<weekday>{'|'.join(_WEEKDAYS)}))\b"
)
_HINT = re.compile(
    rf"\d|\b(?:{'|'.join(_MONTHS)}|{'|'.join(_WEEKDAYS)}|today|yesterday|night|week|month|year|ago)"
)
# "may" and "mar" are months only where a date would be.
_DOUBTFUL = {"may", "mar", "mars", "jan", "sep", "dec", "march", "mai"}
_LEADING = re.compile(
    r"\b(?:in|on|of|by|since|until|before|after|during|from|to|this|last|next|late|early|mid|and"
    r"|en|de|im|seit)[ -]$"
)
_MAX_LEADING_CHARS = 10
# of one query: a pasted log names thousands, and each is compared with every candidate
MAX_SPANS = 32
# Words that ask for everything at a time and, like stop words, name no subject.
_ASKED = """
happen occur event events news do done work plan planned talk discuss chat speak mention tell write
note remember record
save day days date week weeks weekend month months year years time morning afternoon evening night
passiert geschah geschehen gemacht war ist ich wir haben habe los pasó hice hicimos passé fait
"""
_COUNTS = {"a": 1, "an": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_DAYS = {"day": 1, "week": 7}
_SHORT = frozenset(("may", "mai", "ago", "day", "tag", "dia", "mes", "ano", "hoy"))
_WHEN = re.compile(
    r"(?:(?:(?:and|so|since|until|till|from|by|in|on|at) )?(?:when|how long"
    r"|(?:what|which) (?:date|day|month|year|time|week|weekday|season))"
    r"|(?:seit |bis |ab )?wann|(?:desde |hasta )?cu[aá]ndo|(?:depuis |jusqu'à )?quand)\b"
)
# "When she was in Rome, what did she eat?" asks for no time.
_WHAT_THEN = re.compile(
    r", (?:what|who|whom|whose|where|which|how|why|did|do|does|was|were|is|are)\b"
)
_MAX_CHARS = 300
_MARKS = "¿¡\"'“„«‘([*- "
_WORDS = " ".join(
    (
        *_MONTHS,
        *weekdays(*_LANGUAGES),
        *all_words("time_words"),
        *map(str, range(1900, 2100)),
    )
)
# Of short words only some: "sun", "sat" and "mar" mean something else more often.
TIME_TERMS: Final = (
    frozenset(term for term in tokens(_WORDS) if len(term) > 3 or term in _SHORT) - STOP_WORDS
)


@dataclass(frozen=True, slots=True)
class Span:
    """A day, month or year that a query names.

    Attributes:
        year: None if the query names none: the date of every year.
        month, day: None if the query names only a larger unit.
    """

    year: int | None
    month: int | None = None
    day: int | None = None


def asks_when(query: str) -> bool:
    """Return True if a question in English, German, Spanish or French asks for a time."""
    folded = " ".join(query[:_MAX_CHARS].casefold().split()).lstrip(_MARKS)
    return bool(_WHEN.match(folded)) and not _WHAT_THEN.search(folded)


def named_spans(query: str, now: datetime) -> list[Span]:
    """Return the distinct days, months and years that a query names, at most `MAX_SPANS`.

    Relative ones ("yesterday", "two weeks ago") count from `now`.
    """
    folded = query.casefold()
    if not _HINT.search(folded):
        return []
    spans = list(chain(_by_name(folded), _by_number(folded), _by_distance(folded, now.date())))
    years = (Span(int(match.group())) for match in _LONE_YEAR.finditer(folded))
    return list(dict.fromkeys(spans or years))[:MAX_SPANS]


def windows(spans: Sequence[Span]) -> list[tuple[datetime, datetime]]:
    """Return the distinct half-open intervals in UTC of the spans that name a year."""
    distinct: dict[tuple[datetime, datetime], None] = {}
    for span in spans:
        if span.year is None or not MINYEAR <= span.year < MAXYEAR:
            continue
        first = _date(span.year, span.month or 1, span.day or 1)
        if first is None:
            continue
        if span.day:
            after = first + timedelta(days=1)
        elif span.month:
            after = date(span.year + span.month // 12, span.month % 12 + 1, 1)
        else:
            after = date(span.year + 1, 1, 1)
        distinct[_midnight(first), _midnight(after)] = None
    return list(distinct)


def bare_dates(query: str) -> str | None:
    """Return the dates as written if a query asks only what happened then; None if it asks more.

    Relative words ("yesterday") are left out: in a memory they mean another day.
    """
    folded = query.casefold()
    rest = _RELATIVE.sub(" ", folded)
    written: list[str] = []
    for pattern in (_NUMERIC, _DAY_FIRST, _NAMED, _LONE_YEAR):
        written += (match.group() for match in pattern.finditer(rest))
        rest = pattern.sub(" ", rest)
    if _asking().issuperset(tokens(rest)):
        return " ".join(written)
    return None


def closeness(spans: Sequence[Span], at: datetime | None) -> tuple[float, float]:
    """Return how well a time fits the spans: by month or year, and by day.

    The first is 1.0 if a named month or year holds the time, else 0.0; the second is e^(-days/5)
    for the nearest named day, else 0.0.
    """
    if at is None or not spans:
        return 0.0, 0.0
    when = at.date()
    month = day = 0.0
    for span in spans:
        if (span.year is None or span.year == when.year) and (
            span.month is None or span.month == when.month
        ):
            month = 1.0
        if span.day is None or span.month is None:
            continue
        for year in (span.year,) if span.year else (when.year - 1, when.year, when.year + 1):
            if target := _date(year, span.month, span.day):
                day = max(day, math.exp(-abs((when - target).days) / 5))
    return month, day


@cache
def _asking() -> frozenset[str]:
    """Return the terms that only ask; computed on first use to keep the import fast."""
    return STOP_WORDS.union(tokens(_ASKED))


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _by_name(query: str) -> Iterator[Span]:
    for match in _NAMED.finditer(query):
        day = match["before"] or match["after"]
        start = match.start("month")
        certain = day or match["year"] or match["month"] not in _DOUBTFUL
        if certain or _LEADING.search(query, max(0, start - _MAX_LEADING_CHARS), start):
            yield _span(match["year"], match["month"], day)


def _by_number(query: str) -> Iterator[Span]:
    for match in _NUMERIC.finditer(query):
        if 1 <= int(match["month"]) <= 12:
            yield _span(match["year"], match["month"], match["day"])
    for match in _DAY_FIRST.finditer(query):
        first, second = match["first"], match["second"]
        readings = (
            ((first, second), (second, first)) if match["mark"] == "/" else ((first, second),)
        )
        for day, month in readings:
            if 1 <= int(month) <= 12 and 1 <= int(day) <= 31:
                yield _span(match["year"], month, day)


def _by_distance(query: str, today: date) -> Iterator[Span]:
    for match in _RELATIVE.finditer(query):
        if match["word"]:
            yield _on(today - timedelta(days=match["word"] != "today"))
        elif match["weekday"]:
            back = (today.weekday() - _WEEKDAYS.index(match["weekday"]) - 1) % 7 + 1
            yield _on(today - timedelta(days=back))
        else:
            unit = match["unit"] or match["units"]
            count = match["count"] or "a"
            count = int(count) if count.isdigit() else _COUNTS[count]
            if unit == "year":
                yield Span(today.year - count)
            elif unit == "month":
                months = today.year * 12 + today.month - 1 - count
                yield Span(months // 12, months % 12 + 1)
            else:
                yield _on(today - timedelta(days=_DAYS[unit] * count))


def _on(when: date) -> Span:
    return Span(when.year, when.month, when.day)


def _span(year: str | None, month: str, day: str | None) -> Span:
    number = int(month) if month.isdigit() else _MONTHS[month]
    return Span(
        int(year) if year else None, number, int(day) if day and 1 <= int(day) <= 31 else None
    )


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
