"""Encrypting anew what the current key did not seal, be it plain or sealed by an older key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ...errors import ConfigurationError
from ...records import Scope
from ..planning import Texts
from ..values import Rotated
from .queue import touch
from .row_codec import Row, RowCodec, to_scope
from .scripts import run
from .session import Database, Transaction

SCOPES_AT_ONCE = 100
ROWS_AT_ONCE = 200


async def rotate(database: Database, *, dry_run: bool) -> Rotated:
    """Encrypt all scopes anew, some rows in one transaction: see `MemoryStore.rotate_keys`."""
    if (ring := database.ring) is None:
        raise ConfigurationError(
            "There is no key to encrypt with: set KAGENT_MEMORY_ENCRYPTION_KEYS=id:key."
        )
    scopes, rows, after = 0, 0, None
    reseal = partial(_reseal, header=ring.header)
    while some := await run(
        database, partial(_next_scopes, header=ring.header, after=after), write=False
    ):
        after = to_scope(some[-1])
        for scope in (to_scope(row) for row in some if row["stale"]):
            scopes += 1
            while not dry_run and (done := await run(database, reseal, scope, write=True)):
                rows += done
    if rows:  # what they said before must not stay in the log
        await database.erase()
    return Rotated(key=ring.current, scopes=scopes, rows=rows)


async def _next_scopes(
    session: Transaction, header: bytes, *, after: Scope | None
) -> Sequence[Row]:
    """Return the next scopes, each with whether it holds anything to encrypt anew: so many at a
    time, however few do.
    """
    which = {"header": header, "limit": SCOPES_AT_ONCE}
    return await session.rows("next_scopes", scope_id=after and after.id, **which)


async def _reseal(session: Transaction, header: bytes) -> int:
    """Encrypt some rows of a scope anew, first its salt; return how many, 0 when none was left.

    A row is read and written like any other: the session opens it with the key that it was sealed
    by, and seals it with the current one.
    """
    await touch(session, 0)
    codec = session.codec
    [row] = await session.rows("scope_row")
    salt, stored = codec.salt(row), bytes(row["salt"])
    done = int(not stored.startswith(header))
    if done:
        # A plain salt means plain hashes of contents; from now on it keys all of them.
        plain = await session.rows("content_hashes") if salt == stored else ()
        await session.send("replace_salt", salt=codec.sealed_salt(salt))
        hashes = codec.hashes([bytes(row["content_hash"]) for row in plain])
        keyed = zip(plain, hashes, strict=True)
        values = [{"id": row["id"], "content_hash": hash} for row, hash in keyed]
        await session.run_many("replace_hash", values)
    for stale, write, resealed in TABLES:
        rows = await session.rows(stale, header=header, limit=ROWS_AT_ONCE)
        await session.run_many(write, [resealed(codec, row) for row in rows])
        done += len(rows)
    if done:  # another one is packed when it is asked for
        await session.send("erase_scope_index")
    return done


def _memory_values(codec: RowCodec, row: Row) -> dict[str, Any]:
    terms = bytes(codec.with_terms(row)["postings"])
    return codec.memory_values(codec.memory(row), Texts(), touched=row["touched"], postings=terms)


TABLES: Sequence[tuple[str, str, Callable[[RowCodec, Row], Mapping[str, Any]]]] = (
    ("stale_memories", "replace_memory", _memory_values),
    (
        "stale_revisions",
        "replace_revision",
        lambda codec, row: codec.revision_values(codec.revision(row)),
    ),
    (
        "stale_jobs",
        "reseal_job",
        lambda codec, row: codec.job_text_values(row["id"], **codec.job_texts(row)),
    ),
)
"""What finds the rows of each table that are to be sealed anew, what writes them, and how."""
