"""Maintenance across the scopes of a database: pruning and re-encryption."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from ...errors import ConfigurationError
from ..codec import Texts
from ..values import Gone, Pruned, Rotated
from .forgetting import erase
from .row_codec import Row, RowCodec, to_scope
from .session import Database, Transaction, run

SCOPES_AT_ONCE = 50
ROWS_AT_ONCE = 50


async def pages(database: Database, statement: str, **values: Any) -> AsyncIterator[Sequence[Row]]:
    """Yield the scopes of a named query in pages, ordered by id."""
    place: dict[str, Any] = {"scope_id": None, "limit": SCOPES_AT_ONCE}
    while rows := await run(
        database, lambda session: session.rows(statement, **place, **values), write=False
    ):
        yield rows
        place["scope_id"] = to_scope(rows[-1]).id


async def prune(
    session: Transaction, *, now: datetime, popular_after: int, dry_run: bool
) -> Pruned:
    """Erase the expired memories of a scope, except those delivered often enough, which are
    extended.
    """
    if not dry_run:
        await session.send("advance_version", step=1)
    expired = await session.rows("expired_memories", now=now, popular_after=popular_after)
    unused_ids = [row["id"] for row in expired if not row["lives"]]
    popular_ids = [row["id"] for row in expired if row["lives"]]
    if not dry_run:
        await erase(session, unused_ids)  # first, since memories are locked before counters
        for statement in ("extend_memories", "reset_delivered") if popular_ids else ():
            await session.send(statement, ids=popular_ids, now=now)
    deleted = tuple(Gone(session.scope, id, "expired") for id in unused_ids)
    return Pruned(deleted=len(unused_ids), extended=len(popular_ids), gone=deleted)


# -- encrypting anew ----------------------------------------------------------------------------


async def rotate(database: Database, *, dry_run: bool) -> Rotated:
    """Re-encrypt all rows that are plain or sealed by an older key, some per transaction.

    See `MemoryStore.rotate_keys`.
    """
    if (ring := database.ring) is None:
        raise ConfigurationError(
            "There is no key to encrypt with: set KAGENT_MEMORY_ENCRYPTION_KEYS=id:key."
        )
    scopes = rows = 0
    async for page in pages(database, "next_scopes", header=ring.header):
        for scope in (to_scope(row) for row in page if row["stale"]):
            scopes += 1
            while not dry_run and (
                count := await run(
                    database, partial(_reseal, header=ring.header), scope, write=True
                )
            ):
                rows += count
    if rows:  # the log must not keep the plain texts
        await database.erase()
    return Rotated(key=ring.current, scopes=scopes, rows=rows)


async def _reseal(session: Transaction, header: bytes) -> int:
    """Re-encrypt some rows of a scope, its salt first; return their number, 0 when done.

    Rows are read and written as usual: the codec opens them with the key that sealed them, and
    seals them with the current one.
    """
    row = await session.row("lock_scope")
    if not row:  # the scope was forgotten meanwhile
        return 0
    codec = session.codec
    salt, stored = codec.salt(row), bytes(row["salt"])
    count = int(not stored.startswith(header))
    if count:
        # With a plain salt the content hashes are plain, too; the sealed salt keys them.
        plain = await session.rows("content_hashes") if salt == stored else ()
        await session.send("replace_salt", salt=codec.sealed_salt(salt))
        await session.run_many(
            "replace_hash",
            (
                {"id": row["id"], "content_hash": codec.hash(bytes(row["content_hash"]))}
                for row in plain
            ),
        )
    for stale, write, resealed in TABLES:
        rows = await session.rows(stale, header=header, limit=ROWS_AT_ONCE)
        await session.run_many(write, (resealed(codec, row) for row in rows))
        count += len(rows)
    if count:  # a search packs a new index
        await session.send("erase_scope_index")
    return count


TABLES: Sequence[tuple[str, str, Callable[[RowCodec, Row], Mapping[str, Any]]]] = (
    (
        "stale_memories",
        "replace_memory",
        lambda codec, row: codec.memory_values(codec.memory(row), Texts(), touched=row["touched"]),
    ),
    (
        "stale_revisions",
        "replace_revision",
        lambda codec, row: codec.revision_values(codec.revision(row)),
    ),
    (
        "stale_jobs",
        "reseal_job",
        lambda codec, row: codec.job_values(codec.job(row)),
    ),
)
"""For each table: the query for rows to re-encrypt, the statement to write one, and its values."""
