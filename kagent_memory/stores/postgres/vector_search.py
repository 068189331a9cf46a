"""The exact vector search of PostgreSQL: the nearest of a scope's vectors, less what readers may not see."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ...concurrency import SHORT
from ...records import Filter, Scope, Vector
from ..codec import id_text, ids_in
from ..sql import read_queries
from ..sql.index_cache import Indexes
from ..sql.session import Row, Session
from ..vector_index import Halves, ScopeVectors
from .session import PostgresSession

Nearest: TypeAlias = list[tuple[str, float]]
UNPACKED_BYTES = 1000  # of vectors, to be made ready as long as it takes to read one character
_FIRST = id_text("0" * 32)


async def nearest(
    session: PostgresSession,
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
    """See `SqlStore.nearest`. All vectors of the scope are asked first: nearly all are visible."""
    if passing is None:
        passing = await read_queries.passing(session, scope, filter, now)
    narrowed, whose = passing is not None, {"scope_id": scope.id}
    known = indexes.known(scope, version)
    likely = indexes.likely(scope) if known is None and not narrowed else None  # the same round trip tells if it is so
    index = known or likely or await indexes.current(session, scope, version)
    mask = index.visible(now, superseded=bool(filter.superseded), among=passing)
    hidden = index.hidden(mask)
    reach = limit + min(hidden, limit // 4 + 32)
    values: dict[str, Any] = {**whose, "vectors": vectors, "limit": reach}
    asked = [("search_vector", values)]
    if narrowed:
        asked = [("search_vector_among", {**values, "among": index.ids(mask)})]
    elif likely is not None:
        asked = [("scope_row", whose), *asked]
    *told, rows = await session.several(asked, space_number=space_number)
    if told:
        index = await indexes.current(session, scope, version, found=told[0])
    found = _unpacked(rows, len(vectors))
    # Told anew: the index may have grown meanwhile.
    mask = index.visible(now, superseded=bool(filter.superseded), among=passing)
    if narrowed or not index.hidden(mask):
        return [one[:limit] for one in found]
    good = index.shown(mask, (id for one in found for id, _ in one))
    answers = [[hit for hit in one if hit[0] in good][:limit] for one in found]
    if all(len(answer) == limit or len(one) < reach for answer, one in zip(answers, found, strict=True)):
        return answers
    values |= {"limit": limit, "among": index.ids(mask)}
    return _unpacked(await session.rows("search_vector_among", values, space_number=space_number), len(vectors))


async def vectors_of(
    session: Session, scope: Scope, space_number: int, dimensions: int, count: int, *, at_once: int
) -> ScopeVectors | None:
    """All vectors of a scope, about so many, read so many at once; None when there is no such scope any more, or it
    was written to meanwhile.
    """
    held: ScopeVectors | None = None
    values = {"scope_id": scope.id, "first": _FIRST, "limit": at_once}
    while found := await session.rows("scope_vectors", values, space_number=space_number):
        [row] = found
        if held is None:
            stand = {name: row[name] for name in ("version", "erased", "mark")}
            held = ScopeVectors(dimensions, salt=bytes(row["salt"]), **stand)
            held.reserve(count)
        elif (held.version, held.mark) != (row["version"], row["mark"]):
            return None
        ids, sent = ids_in(row["ids"] or ""), row["sent"] or b""
        await session.aside(len(sent) // UNPACKED_BYTES, held.take, ids, _halves(sent, dimensions))
        if len(ids) < at_once:
            return held
        values["first"] = ids[-1]
    return None


async def catch_up(
    session: Session, scope: Scope, space_number: int, dimensions: int, held: ScopeVectors, *, least: int, most: int
) -> bool:
    """Brings the vectors of a scope up to what the database holds, unless more than so many were written since, or a
    standby answers that is not at the `least` version yet.
    """
    lacking = sorted(held.lacking or ())
    values = {"scope_id": scope.id, "version": held.version, "ids": lacking, "limit": most}
    found = await session.rows("changed_vectors", values, space_number=space_number)
    if not found:
        return False
    [row] = found
    written = ids_in(row["written"] or "")
    if bytes(row["salt"]) != held.salt or row["version"] < least or len(written) >= most:
        return False
    halves = _halves(row["sent"] or b"", dimensions)
    change = partial(held.change, written, ids_in(row["ids"] or ""), halves, version=row["version"], mark=row["mark"])
    await session.aside(SHORT + 1, change)  # in a thread: it waits for whoever reads them
    return True


def _halves(sent: bytes, dimensions: int) -> Halves:
    """What `halfvec_send` gave of vectors: two shorts and the numbers each, all big endian."""
    return np.frombuffer(sent, np.dtype([("head", ">i2", 2), ("vector", ">f2", dimensions)]))["vector"]


def _unpacked(rows: Sequence[Row], count: int) -> list[Nearest]:
    found: list[Nearest] = [[] for _ in range(count)]
    for row in rows:
        scores: list[float] = (np.array(row["scores"], np.float64) / 1e6).tolist()
        found[row["number"] - 1] = list(zip(ids_in(row["ids"]), scores, strict=True))
    return found
