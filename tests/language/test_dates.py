from datetime import UTC, datetime

import pytest

from kagent_memory.language.dates import Span, named_spans, windows

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
def test_days_months_and_years_are_read(query: str, span: Span):
    """A query names a day, a month or a year in any usual way of writing it."""
    assert named_spans(query, NOW) == [span]


def test_with_slashes_either_number_may_be_the_month():
    """A date with slashes is read both as day/month and as month/day."""
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
def test_what_only_looks_like_a_date_is_none(query: str):
    """Numbers that only resemble a date name no span of time."""
    assert named_spans(query, NOW) == []


def test_what_is_no_span_of_time_has_no_window():
    """A span without a year and a day that never was have no window."""
    assert windows([Span(None, 5, 3), Span(None, 5), Span(2023, 2, 29), Span(0), Span(9999)]) == []


def test_a_pasted_log_names_its_first_days_and_each_once():
    """A long text names its first 32 distinct days, each once."""
    log = "".join(
        f"2024-{month:02}-{day:02} restarted\n"
        for month in range(1, 13)
        for day in range(1, 29)
        for _ in "ab"
    )
    spans = named_spans(log * 20, NOW)
    assert spans[:3] == [Span(2024, 1, 1), Span(2024, 1, 2), Span(2024, 1, 3)]
    assert len(spans) == len(set(spans)) == 32


def test_doubtful_months_are_told_by_the_word_before_them():
    """ "may" and "march" are months after a word that says so, anywhere in a long text."""
    filler = "it may rain, he may march on. " * 2_000
    assert named_spans(filler, NOW) == []
    assert named_spans(f"{filler}We met in may.", NOW) == [Span(None, 5)]
