"""The search of a scope's vectors in memory is exact, whatever was set and let go of before."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import numpy as np
import pytest

from kagent_memory.records import Memory, new_id
from kagent_memory.stores.index import ScopeIndex, entry_of
from kagent_memory.stores.vectors import VectorColumn

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DIMENSIONS = 16


@pytest.mark.parametrize("seed", range(4))
def test_the_nearest_are_those_of_a_full_scan(seed):
    """Whatever was set, edited and let go of before."""
    numbers, dice = np.random.default_rng(seed), random.Random(seed)
    index, column, truth = ScopeIndex(), VectorColumn(DIMENSIONS), dict[str, np.ndarray | None]()
    place = numbers.normal(size=DIMENSIONS).astype(np.float16)
    for turn in range(60):
        new = [new_id() for _ in range(dice.randint(1, 40))]
        some = dice.sample(sorted(truth), min(len(truth), dice.randint(1, 9)))
        loaded, put, gone = dice.choice(  # what is loaded was edited: it has no vector yet
            ((new, new, []), (some, [], []), ([], [*some, "unknown"], []), ([], [], some))
        )
        memories = [Memory(id=id, content="x", created_at=NOW, updated_at=NOW) for id in loaded]
        index = index.updated([entry_of(memory, b"") for memory in memories], gone)
        column.discard([*loaded, *gone])
        truth = {id: row for id, row in truth.items() if id not in gone} | dict.fromkeys(loaded)
        if put:
            rows = numbers.normal(size=(len(put), DIMENSIONS)).astype(np.float16)
            rows[::3] = place  # many at the same one
            column.put(put, rows)
            truth |= {id: row for id, row in zip(put, rows, strict=True) if id in truth}
        assert {*column.lacking(index)} == {id for id, row in truth.items() if row is None}
        query = numbers.normal(size=DIMENSIONS).astype(np.float32)
        for share in (1.0, 0.7, 0.1):
            among = {id for id in truth if dice.random() < share}
            scored = nearest(query, {id: truth[id] for id in among})
            for limit in (0, 1, 7, 10_000):
                visible = index.visible(NOW, among=among)
                [found] = column.nearest(index, [query], limit, visible)
                wanted = scored[:limit]
                assert index.ids_of(found.rows) == [id for _, id in wanted], (turn, share, limit)
                cosines = [cosine for cosine, _ in wanted]
                assert found.cosines.tolist() == pytest.approx(cosines, abs=1e-9)


def nearest(query: np.ndarray, rows: dict[str, np.ndarray | None]) -> list[tuple[float, str]]:
    """Return the cosine and id of each row, best first."""
    exact = query.astype(np.float16).astype(np.float64)
    scored: list[tuple[float, str]] = []
    for id, half in rows.items():
        if half is not None:
            row = half.astype(np.float64)
            cosine = float(row @ exact / np.linalg.norm(row) / np.linalg.norm(exact))
            scored.append((round(cosine, 6) + 0.0, id))
    return sorted(scored, reverse=True)
