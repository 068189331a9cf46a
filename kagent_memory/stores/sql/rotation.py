"""Encrypting anew what the current key did not seal, be it plain or sealed by an older key."""

from __future__ import annotations

from collections.abc import Sequence

from ...records import Scope
from .decoding import to_scope
from .queue import touch
from .sealing import sealed_error
from .session import Session

KINDS = ("memory", "revision", "job")
_PLURALS = ("memories", "revisions", "jobs")


async def next_scopes(
    session: Session, header: bytes, *, after: Scope | None, limit: int
) -> Sequence[tuple[Scope, bool]]:
    """The next scopes, each with whether it holds anything to encrypt anew: so many at a time,
    however few do.
    """
    values = {"scope_id": after and after.id, "limit": limit, **_marks(header)}
    found = await session.rows("next_scopes", values)
    return [(to_scope(row), bool(row["stale"])) for row in found]


async def reseal(session: Session, scope: Scope, header: bytes, *, limit: int) -> int:
    """Encrypts so many rows of a scope anew, first its salt; gives how many, 0 when none was left.

    A row is read and written like any other: the session opens it with the key that it was sealed
    by, and seals it with the current one.
    """
    await touch(session, scope, 0)
    which = {"scope_id": scope.id, "limit": limit, **_marks(header)}
    done = 0
    if await session.rows("stale_salt", which):
        [row] = await session.rows("scope_row", {"scope_id": scope.id})
        # A plain salt means plain hashes of contents; from now on it keys all of them.
        hashes = await session.rows("content_hashes", which) if row["key"] == row["salt"] else ()
        await session.run_many("replace_salt", [{"scope_id": scope.id, "salt": row["key"]}])
        if hashes:
            await session.run_many(
                "replace_hash", [{**one, "scope_id": scope.id} for one in hashes]
            )
        done = 1
    for kind, plural in zip(KINDS, _PLURALS, strict=True):
        found = await session.rows(f"stale_{plural}", which)
        if found:
            await session.run_many(
                f"reseal_{kind}", [{**row, "scope_id": scope.id} for row in found]
            )
        done += len(found)
    if done:  # another one is packed when it is asked for
        await session.run_many("erase_scope_index", [{"scope_id": scope.id}])
    return done


def _marks(header: bytes) -> dict[str, object]:
    """Return the first bytes of values and of error texts that the current key sealed."""
    text = sealed_error(header)
    return {"header": header, "width": len(header), "text_header": text, "text_width": len(text)}
