"""The exact scan of a file: over a scope's vectors, which are kept in memory between calls.

Every vector set takes a new `seq`, so a call loads what came since the last one; whatever removes vectors moves the
scope's version, and then the count tells whether what is kept is still all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from datetime import datetime

from ...errors import StoreError
from ...records import Filter, Memory, Scope, Vector
from ..codec import ids_in
from ..sql import read_queries
from ..sql.index_cache import Indexes
from ..vector_index import ScopeVectors, VectorCache, search
from .session import LibSQLSession, sql


async def unchanged(
    session: LibSQLSession,
    indexes: Indexes,
    scope: Scope,
    ids: Sequence[str],
    *,
    version: int,
    marks: Mapping[int, int],
    now: datetime,
) -> Mapping[str, Memory] | None:
    """See `SqlStore.unchanged`; a vector that was set since one of the marks tells that it is out of date."""
    for space_number, mark in marks.items():
        values = {"scope_id": scope.id, "seq": mark}
        try:
            later = session.connection.tuples(sql("later_vector", space_number), values)
        except StoreError:  # the table is gone; if it is something else, the search that follows meets it too
            return None
        if later:
            return None
    return await read_queries.unchanged(session, indexes, scope, ids, version=version, marks={}, now=now)


async def nearest(
    session: LibSQLSession,
    indexes: Indexes,
    cache: VectorCache,
    scope: Scope,
    space_number: int,
    vectors: Sequence[Vector],
    *,
    limit: int,
    filter: Filter,
    version: int | None,
    passing: Sequence[str] | None,
    now: datetime,
) -> list[list[tuple[str, float]]]:
    """See `SqlStore.nearest`; at least one vector."""
    index = await indexes.current(session, scope, version)
    if passing is None:
        passing = await read_queries.passing(session, scope, filter, now)
    visible = index.visible(now, superseded=bool(filter.superseded), among=passing)

    def load(after: int, limit: int) -> tuple[int, Sequence[str], bytes]:
        values = {"scope_id": scope.id, "seq": after, "limit": limit}
        [(last, ids, sent)] = session.connection.tuples(sql("vectors_since", space_number), values)
        return last or after, ids_in(ids), sent

    def count() -> int:
        return session.connection.tuples(sql("count_vectors", space_number), {"scope_id": scope.id})[0][0]

    def shown(ids: Sequence[str] | None) -> Set[str]:
        return index.shown(visible, ids)

    held: ScopeVectors = cache.current(
        (scope.id, space_number), len(vectors[0]), version=index.version, loader=load, count=count
    )
    with held.loading:  # who forgets meanwhile lets go of all instead of moving vectors under the search
        return search(held, vectors, limit, shown if passing is not None or index.hidden(visible) else None)
