"""The values of the package by themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kagent_memory.records import new_id

NOW = datetime(2026, 3, 4, tzinfo=UTC)


def test_ids_of_one_time_rise_whatever_else_asks_for_ids():
    """Memories stored together keep their order, though others ask for ids of another time
    meanwhile.
    """
    times = [NOW, NOW + timedelta(milliseconds=1), None]
    batches = [[new_id(at) for at in times] for _ in range(20)]
    for ids in zip(*batches, strict=True):
        assert list(ids) == sorted(ids)
    assert len({id for ids in batches for id in ids}) == 60
