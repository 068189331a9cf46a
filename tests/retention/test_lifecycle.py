from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kagent_memory.errors import InvalidInput
from kagent_memory.records import Fact, Usage
from kagent_memory.retention.lifecycle import to_memory
from kagent_memory.retrieval.ranking.importance import (
    ImportanceParts,
    ImportanceWeights,
    importance,
    importance_parts,
)

NOW = datetime(2024, 5, 8, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("given", "kept"), [(2.0, 1.0), (-1.0, 0.0), (float("nan"), 0.5), (0.3, 0.3)]
)
def test_importance_stays_within_0_to_1(given, kept):
    assert to_memory(Fact(text="x", importance=given), now=NOW, ttl_days=1).importance == kept


def test_each_part_of_the_importance_formula_has_its_value():
    memory = to_memory(Fact(text="x", importance=0.8, is_error=True), now=NOW, ttl_days=15)
    used = Usage(delivered_total=9, successes=3, failures=0, last_delivered_at=NOW)
    parts = importance_parts(
        replace(memory, usage=used), now=NOW + 30 * DAY, nearest=0.25, often=99
    )
    assert parts == ImportanceParts(
        recency=0.5, frequency=0.5, success=0.8, error=0.8, uniqueness=0.75
    )
    assert importance(parts) == pytest.approx((0.5 + 0.5 + 0.8 + 0.8 + 0.75) / 5)
    fresh = importance_parts(replace(memory, is_error=False), now=NOW - DAY, nearest=-0.3)
    assert fresh == ImportanceParts(
        recency=1.0, frequency=0.0, success=0.5, error=0.0, uniqueness=1.0
    )


def test_weights_count_by_their_proportions_and_must_make_sense():
    parts = ImportanceParts(recency=1.0, frequency=0.0, success=0.0, error=0.0, uniqueness=0.0)
    others = {"success": 0.0, "error": 0.0, "uniqueness": 0.0}
    assert importance(parts, ImportanceWeights(recency=3, frequency=1, **others)) == 0.75
    for wrong in (
        {"recency": -0.1},
        {"recency": float("inf")},
        {"recency": 0.0, "frequency": 0.0, **others},
    ):
        with pytest.raises(InvalidInput):
            ImportanceWeights(**wrong)
