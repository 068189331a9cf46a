from datetime import UTC, datetime

import pytest

from kagent_memory.recall.dates import Span, closeness, named_spans

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)  # a Wednesday


@pytest.mark.parametrize(
    ("query", "span"),
    [
        ("What happened on 8 May, 2023?", Span(2023, 5, 8)),
        ("the week before August 11, 2023", Span(2023, 8, 11)),
        ("on the 3rd of June", Span(None, 6, 3)),
        ("in march 2024", Span(2024, 3)),
        ("in May", Span(None, 5)),
        ("Was war im Dezember?", Span(None, 12)),
        ("deployed 2024-02-29", Span(2024, 2, 29)),
        ("what did we do in 2022?", Span(2022)),
        ("what did I buy yesterday?", Span(2026, 3, 3)),
        ("two weeks ago", Span(2026, 2, 18)),
        ("last month", Span(2026, 2)),
        ("last year", Span(2025)),
        ("on Monday", Span(2026, 3, 2)),
        ("last wednesday", Span(2026, 2, 25)),
    ],
)
def test_days_months_and_years_are_read(query: str, span: Span) -> None:
    assert named_spans(query, NOW) == [span]


@pytest.mark.parametrize(
    "query",
    ["May I have a look?", "a long march", "the error ERR-2023 in v2023.1", "What is new?", "port 8080", "13-45"],
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
