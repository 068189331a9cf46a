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


class Scope:
    """An index with vectors, and what they are in truth."""

    def __init__(self, seed: int) -> None:
        self.numbers, self.dice = np.random.default_rng(seed), random.Random(seed)
        self.index, self.known = ScopeIndex(), dict[str, np.ndarray | None]()
        self.column = VectorColumn(DIMENSIONS)

    def vector(self) -> np.ndarray:
        if self.dice.random() < 0.3 and (
            same := [one for one in self.known.values() if one is not None]
        ):
            return self.dice.choice(same)  # many at the same place
        return self.numbers.normal(size=DIMENSIONS).astype(np.float16)

    def load(self, *ids: str) -> None:
        """Take in memories, new ones or some that were edited: these have no vector yet."""
        memories = [Memory(id=id, content="x", created_at=NOW, updated_at=NOW) for id in ids]
        self.index = self.index.updated([entry_of(memory, b"") for memory in memories])
        self.column.discard(ids)
        self.known |= dict.fromkeys(ids)

    def put(self, *ids: str) -> None:
        rows = {id: self.vector() for id in ids}
        self.known |= {id: row for id, row in rows.items() if id in self.known}
        self.column.put([*rows], np.array([*rows.values()]))

    def discard(self, *ids: str) -> None:
        self.index = self.index.updated((), ids)
        self.column.discard(ids)
        for id in ids:
            self.known.pop(id, None)

    def some(self, most: int) -> list[str]:
        return self.dice.sample(
            sorted(self.known), min(len(self.known), self.dice.randint(1, most))
        )

    def nearest(self, query: np.ndarray, limit: int, among: set[str]) -> list[tuple[str, float]]:
        exact = query.astype(np.float16).astype(np.float64)
        scored = [
            (round(float(row @ exact / np.linalg.norm(row) / np.linalg.norm(exact)), 6) + 0.0, id)
            for id, half in self.known.items()
            if half is not None and id in among
            for row in [half.astype(np.float64)]
        ]
        return [(id, cosine) for cosine, id in sorted(scored, reverse=True)[:limit]]


@pytest.mark.parametrize("seed", range(4))
def test_the_nearest_are_those_of_a_full_scan(seed):
    """Whatever was set, edited and let go of before."""
    scope = Scope(seed)
    for turn in range(60):
        match scope.dice.randrange(6):
            case 0 | 1:
                ids = [new_id() for _ in range(scope.dice.randint(1, 40))]
                scope.load(*ids)
                scope.put(*ids)
            case 2 if scope.known:
                scope.put(*scope.some(9), new_id())  # one that the index does not know
            case 3 if scope.known:
                scope.load(*scope.some(9))
            case _ if scope.known:
                scope.discard(*scope.some(5))
        assert set(scope.column.lacking(scope.index)) == {
            id for id, half in scope.known.items() if half is None
        }
        query = scope.numbers.normal(size=DIMENSIONS).astype(np.float32)
        for share in (1.0, 0.7, 0.1):
            among = {id for id in scope.known if scope.dice.random() < share}
            visible = scope.index.visible(NOW, among=among)
            for limit in (0, 1, 7, 10_000):
                [found] = scope.column.nearest(scope.index, [query], limit, visible)
                truth = scope.nearest(query, limit, among)
                ids = scope.index.ids_of(found.rows)
                assert ids == [id for id, _ in truth], (turn, share, limit)
                cosines = [cosine for _, cosine in truth]
                assert found.cosines.tolist() == pytest.approx(cosines, abs=1e-9)
