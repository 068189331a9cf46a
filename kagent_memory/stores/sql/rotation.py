"""Encrypting anew what the current key did not seal, be it plain or sealed by an older key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...records import Scope
from ..planning import Texts
from .queue import touch
from .row_codec import Row, sealed_error, to_scope
from .session import Session
from .transfer import replace_revisions


async def next_scopes(
    session: Session, header: bytes, *, after: Scope | None, limit: int
) -> Sequence[tuple[Scope, bool]]:
    """Return the next scopes, each with whether it holds anything to encrypt anew: so many at a
    time, however few do.
    """
    values = {"scope_id": after and after.id, "limit": limit, **_marks(header)}
    found = await session.rows("next_scopes", values)
    return [(to_scope(row), bool(row["stale"])) for row in found]


async def reseal(session: Session, scope: Scope, header: bytes, *, limit: int) -> int:
    """Encrypt so many rows of a scope anew, first its salt; return how many, 0 when none was left.

    A row is read and written like any other: the session opens it with the key that it was sealed
    by, and seals it with the current one.
    """
    await touch(session, scope, 0)
    codec = session.codec
    which = {"scope_id": scope.id, "limit": limit, **_marks(header)}
    [row] = await session.rows("scope_row", which)
    salt, done = codec.salt(scope, row), 0
    if await session.rows("stale_salt", which):
        # A plain salt means plain hashes of contents; from now on it keys all of them.
        plain = await session.rows("content_hashes", which) if salt == row["salt"] else ()
        values = {"scope_id": scope.id, "salt": codec.sealed_salt(scope, salt)}
        await session.run_many("replace_salt", [values])
        if plain:
            hashes = codec.hashes(scope, [bytes(one["content_hash"]) for one in plain])
            keyed = zip(plain, hashes, strict=True)
            values = [{**which, "id": one["id"], "content_hash": hash} for one, hash in keyed]
            await session.run_many("replace_hash", values)
        done = 1
    if memories := await session.rows("stale_memories", which):
        values = [_memory_values(session, scope, one) for one in memories]
        await session.run_many("replace_memory", values)
    if revisions := await session.rows("stale_revisions", which):
        await replace_revisions(session, scope, codec.revisions(scope, revisions))
    if jobs := await session.rows("stale_jobs", which):
        texts = [(one["id"], codec.job_texts(scope, one)) for one in jobs]
        values = [codec.job_text_values(scope, id, **one) for id, one in texts]
        await session.run_many("reseal_job", values)
    done += len(memories) + len(revisions) + len(jobs)
    if done:  # another one is packed when it is asked for
        await session.run_many("erase_scope_index", [{"scope_id": scope.id}])
    return done


def _marks(header: bytes) -> dict[str, object]:
    """Return the first bytes of values and of error texts that the current key sealed."""
    text = sealed_error(header)
    return {"header": header, "width": len(header), "text_header": text, "text_width": len(text)}


def _memory_values(session: Session, scope: Scope, row: Row) -> dict[str, Any]:
    [memory] = session.codec.memories(scope, [row])
    terms = bytes(session.codec.with_terms(scope, row)["postings"])
    touched = row["touched"]
    return session.codec.memory_values(scope, memory, Texts(), touched=touched, postings=terms)
