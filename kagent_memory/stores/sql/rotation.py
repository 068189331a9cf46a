"""Encrypting anew what the current key did not seal, be it plain or sealed by an older key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...records import Scope
from ..planning import Texts
from .queue import touch
from .row_codec import Row, RowCodec, sealed_error, to_scope
from .session import Transaction


async def next_scopes(
    session: Transaction, header: bytes, *, after: Scope | None, limit: int
) -> Sequence[tuple[Scope, bool]]:
    """Return the next scopes, each with whether it holds anything to encrypt anew: so many at a
    time, however few do.
    """
    found = await session.rows(
        "next_scopes", scope_id=after and after.id, limit=limit, **_marks(header)
    )
    return [(to_scope(row), bool(row["stale"])) for row in found]


async def reseal(session: Transaction, header: bytes, *, limit: int) -> int:
    """Encrypt so many rows of a scope anew, first its salt; return how many, 0 when none was left.

    A row is read and written like any other: the session opens it with the key that it was sealed
    by, and seals it with the current one.
    """
    await touch(session, 0)
    codec = session.codec
    which = {"limit": limit, **_marks(header)}
    [row] = await session.rows("scope_row")
    salt, done = codec.salt(row), 0
    if await session.rows("stale_salt", **which):
        # A plain salt means plain hashes of contents; from now on it keys all of them.
        plain = await session.rows("content_hashes") if salt == row["salt"] else ()
        await session.send("replace_salt", salt=codec.sealed_salt(salt))
        hashes = codec.hashes([bytes(one["content_hash"]) for one in plain])
        keyed = zip(plain, hashes, strict=True)
        values = [{"id": one["id"], "content_hash": hash} for one, hash in keyed]
        await session.run_many("replace_hash", values)
        done = 1
    for stale, write, resealed in TABLES:
        rows = await session.rows(stale, **which)
        await session.run_many(write, [resealed(codec, one) for one in rows])
        done += len(rows)
    if done:  # another one is packed when it is asked for
        await session.send("erase_scope_index")
    return done


def _marks(header: bytes) -> dict[str, Any]:
    """Return the first bytes of values and of error texts that the current key sealed."""
    text = sealed_error(header)
    return {"header": header, "width": len(header), "text_header": text, "text_width": len(text)}


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
