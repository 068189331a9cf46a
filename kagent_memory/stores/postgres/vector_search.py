"""The exact vector search of PostgreSQL: the nearest of a scope's vectors, less what readers may not see."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

import numpy as np

from ...records import Filter, Scope, Vector
from ..codec import ids_in
from ..sql import read_queries
from ..sql.index_cache import Indexes
from ..sql.session import Row, Session
from ..vector_index import ScopeVectors

Nearest: TypeAlias = list[tuple[str, float]]


async def nearest(
    session: Session,
    indexes: Indexes,
    scope: Scope,
    space_number: int,
    vectors: Sequence[Vector],
    *,
    limit: int,
    filter: Filter,
    version: int | None,
    passing: Sequence[str] | None,
    now: datetime,
) -> list[Nearest]:
    """See `MemoryStore.search_vector`. All vectors of the scope are asked first: nearly all are visible."""
    index = await indexes.current(session, scope, version)
    if passing is None:
        passing = await read_queries.passing(session, scope, filter, now)
    narrowed = passing is not None
    mask = index.visible(now, superseded=bool(filter.superseded), among=passing)
    hidden = index.hidden(mask)
    reach = limit + min(hidden, limit // 4 + 32)
    values = {"scope_id": scope.id, "vectors": vectors, "limit": reach, "among": index.ids(mask) if narrowed else None}
    found = _unpacked(await session.rows("search_vector", values, space_number=space_number), len(vectors))
    # Told anew: the index may have grown meanwhile.
    mask = index.visible(now, superseded=bool(filter.superseded), among=passing)
    if narrowed or not index.hidden(mask):
        return [one[:limit] for one in found]
    good = index.shown(mask, (id for one in found for id, _ in one))
    answers = [[hit for hit in one if hit[0] in good][:limit] for one in found]
    if all(len(answer) == limit or len(one) < reach for answer, one in zip(answers, found, strict=True)):
        return answers
    values |= {"limit": limit, "among": index.ids(mask)}
    return _unpacked(await session.rows("search_vector", values, space_number=space_number), len(vectors))


async def vectors_of(session: Session, scope: Scope, space_number: int) -> Row | None:
    """The row of `scope_vectors`; None when there is no such scope any more."""
    found = await session.rows("scope_vectors", {"scope_id": scope.id}, space_number=space_number)
    return found[0] if found else None


def held(row: Row, dimensions: int) -> ScopeVectors:
    """The vectors of a row of `scope_vectors`: two shorts and the numbers each, all big endian."""
    sent = np.frombuffer(row["sent"] or b"", np.dtype([("head", ">i2", 2), ("vector", ">f2", dimensions)]))
    halves = sent["vector"].astype(np.float16)
    return ScopeVectors.of(ids_in(row["ids"] or ""), halves, version=row["version"], mark=row["mark"])


def _unpacked(rows: Sequence[Row], count: int) -> list[Nearest]:
    found: list[Nearest] = [[] for _ in range(count)]
    for row in rows:
        scores = (score / 1e6 for score in row["scores"])
        found[row["number"] - 1] = list(zip(ids_in(row["ids"]), scores, strict=True))
    return found
