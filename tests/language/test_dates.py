from datetime import UTC, date, datetime

import pytest

from kagent_memory.language.dates import Span, bare_dates, closeness, named_spans, windows

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)  # a Wednesday


@pytest.mark.parametrize(
    ("query", "span"),
    [
        ("What happened on 8 May, 2023?", Span(2023, 5, 8)),
        ("in march 2024", Span(2024, 3)),
        ("in May", Span(None, 5)),
        ("Was war im Dezember?", Span(None, 12)),
        ("deployed 2024-02-29", Span(2024, 2, 29)),
        ("what did we do in 2022?", Span(2022)),
        ("what did I buy yesterday?", Span(2026, 3, 3)),
        ("two weeks ago", Span(2026, 2, 18)),
        ("last month", Span(2026, 2)),
        ("on Monday", Span(2026, 3, 2)),
        ("Who came to lunch on 23.01.2024?", Span(2024, 1, 23)),
        ("since 9-1-2024.", Span(2024, 1, 9)),
        ("shipped 1/23/2024", Span(2024, 1, 23)),
    ],
)
def test_days_months_and_years_are_read(query: str, span: Span) -> None:
    assert named_spans(query, NOW) == [span]


def test_with_slashes_either_number_may_be_the_month() -> None:
    assert named_spans("between 3/4/2024 and lunch", NOW) == [Span(2024, 4, 3), Span(2024, 3, 4)]


@pytest.mark.parametrize(
    "query",
    [
        "May I have a look?",
        "a long march",
        "the error ERR-2023 in v2023.1",
        "What is new?",
        "13-45",
        "release v10.01.2024",
        "at 192.168.1.2024",
        "40.13.2024",
        "10.01-2024",
    ],
)
def test_what_only_looks_like_a_date_is_none(query: str) -> None:
    assert named_spans(query, NOW) == []


def test_the_day_falls_off_and_the_month_is_all_or_nothing() -> None:
    spans = [Span(2023, 5, 8)]
    assert closeness(spans, datetime(2023, 5, 8, 23, tzinfo=UTC)) == (1.0, 1.0)
    month, day = closeness(spans, datetime(2023, 5, 13, tzinfo=UTC))
    assert (month, round(day, 3)) == (1.0, 0.368)
    assert closeness(spans, datetime(2024, 7, 8, tzinfo=UTC))[0] == 0.0
    assert closeness([Span(None, 2, 30)], NOW) == (0.0, 0.0)
    assert closeness(spans, None) == (0.0, 0.0)


def test_a_day_without_a_year_is_near_across_new_year() -> None:
    assert closeness([Span(None, 12, 31)], datetime(2024, 1, 1, tzinfo=UTC))[1] > 0.8


@pytest.mark.parametrize(
    ("span", "first", "after"),
    [
        (Span(2024, 2, 29), date(2024, 2, 29), date(2024, 3, 1)),
        (Span(2024, 12), date(2024, 12, 1), date(2025, 1, 1)),
        (Span(2024), date(2024, 1, 1), date(2025, 1, 1)),
    ],
)
def test_a_window_runs_from_the_first_moment_of_a_span_to_the_one_after_its_last(
    span: Span, first: date, after: date
) -> None:
    midnights = tuple(datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (first, after))
    assert windows([span, span]) == [midnights]


def test_spans_without_a_year_and_days_that_never_were_have_no_window() -> None:
    assert windows([Span(None, 5, 3), Span(None, 5), Span(2023, 2, 29), Span(0), Span(9999)]) == []


@pytest.mark.parametrize(
    ("query", "bare"),
    [
        ("What happened on 3 May 2024?", "3 may 2024"),
        ("What did we talk about on 2024-05-03?", "2024-05-03"),
        ("Anything from 2023?", "2023"),
        ("what did I do last Tuesday?", ""),
        ("Tell me about yesterday", ""),
        ("Was ist am 3. Mai 2024 passiert?", "3. mai 2024"),
    ],
)
def test_a_question_that_names_nothing_but_dates_is_told_from_others(query: str, bare: str) -> None:
    assert bare_dates(query) == bare


@pytest.mark.parametrize(
    "query",
    ["Which kayak did I buy on 3 May 2024?", "What did Bo do yesterday?", "ERR-2023 in May 2024"],
)
def test_a_question_that_names_more_than_dates_keeps_its_words(query: str) -> None:
    assert bare_dates(query) is None


def test_a_pasted_log_names_its_first_days_and_each_once() -> None:
    log = "".join(
        f"2024-{month:02}-{day:02} restarted\n"
        for month in range(1, 13)
        for day in range(1, 29)
        for _ in "ab"
    )
    spans = named_spans(log * 20, NOW)
    assert spans[:3] == [Span(2024, 1, 1), Span(2024, 1, 2), Span(2024, 1, 3)]
    assert len(spans) == len(set(spans)) == 32


def test_doubtful_months_are_told_by_the_word_before_them_anywhere_in_a_long_text() -> None:
    filler = "it may rain, he may march on. " * 2_000
    assert named_spans(filler, NOW) == []
    assert named_spans(f"{filler}We met in may.", NOW) == [Span(None, 5)]
