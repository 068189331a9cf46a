"""Receipts of forgotten memories: their content and chain, its checks, and its scripts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import NamedTuple

from ..records import Scope
from .codec import bounded, to_iso
from .sql.session import Part, Transaction, reading, writing

DIGEST_CHARS = 32
KEY_BYTES = 32
SEALED = ("number", "kind", "memories", "at", "who", "whose", "digests", "previous")
"""The fields of a receipt in the order in which its digest reads them, which never changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Proof that memories were erased, without anything of their content.

    Attributes:
        number: its number in the tenant's chain, from 1.
        kind: the verb that erased them: "forget" or "forget_tenant".
        memories: the number of erased memories.
        who: the name that the caller gave.
        whose: the keyed digest of their scope; the same in all receipts of a scope.
        digests: the keyed digests of the ids in order, 32 characters each.
        previous: the digest of the receipt before; empty for the first.
        digest: the digest of all the above.
    """

    number: int
    kind: str
    memories: int
    at: datetime
    who: str
    whose: str
    digests: str
    previous: str
    digest: str


class ReceiptChain(NamedTuple):
    """The number of receipts in a chain, and the digest of the last."""

    length: int
    head: str


def chain_id(tenant: str) -> str:
    """Return the id of a tenant's chain: the id of a scope without user and app, in hex digits."""
    return Scope(tenant, "", "").id.hex()


def keyed_digest(key: bytes, what: bytes) -> str:
    """Return a digest that reveals nothing without the key."""
    return hashlib.blake2b(what, key=key, digest_size=DIGEST_CHARS // 2).hexdigest()


def seal(receipt: Receipt) -> str:
    """Return the digest of a receipt's other fields."""
    text = json.dumps(
        [getattr(receipt, name) for name in SEALED], ensure_ascii=False, default=to_iso
    )
    return hashlib.sha256(text.encode()).hexdigest()


def problems(receipts: Sequence[Receipt], before: Receipt | None) -> Iterator[str]:
    """Yield the problems of consecutive receipts, given the one before them."""
    number, previous = (before.number, before.digest) if before else (0, "")
    for receipt in receipts:
        if (receipt.number, receipt.previous) != (number + 1, previous):
            yield f"receipt {receipt.number} does not follow from receipt {number}"
        if (
            seal(receipt) != receipt.digest
            or len(receipt.digests) != receipt.memories * DIGEST_CHARS
        ):
            yield f"receipt {receipt.number} was changed"
        number, previous = receipt.number, receipt.digest


def problem_at_end(chain: ReceiptChain | None, last: Receipt | None) -> str | None:
    """Report a problem of a chain's end, or None."""
    number, digest = (last.number, last.digest) if last else (0, "")
    if chain == (number, digest):
        return None
    noted = chain.length if chain else "no"
    return f"its record tells of {noted} receipts, which end otherwise than these {number}"


async def add_receipt(
    session: Transaction, kind: str, ids: Sequence[str], *, who: str, now: datetime
) -> None:
    """Append a receipt. Call it last: the rest of the transaction acts for the chain."""
    chain = chain_id(session.scope.tenant)
    await session.rows("act_for_chain", chain=chain)
    [row] = await session.rows("hold_chain", chain=chain, key=os.urandom(KEY_BYTES))
    key = bytes(row["key"])
    receipt = Receipt(
        number=row["length"] + 1,
        kind=kind,
        memories=len(ids),
        at=now,
        who=who,
        whose=keyed_digest(key, session.scope.id),
        digests="".join(keyed_digest(key, id.encode()) for id in sorted(ids)),
        previous=row["head"],
        digest="",
    )
    sealed = {**asdict(receipt), "chain": chain, "digest": seal(receipt)}
    await session.send("insert_receipt", **sealed)
    await session.send("move_chain", **sealed)


class ReceiptStore(Part):
    """The receipts of forgotten memories. The verbs cross scopes."""

    @writing
    async def add(
        self,
        session: Transaction,
        scope: Scope,
        kind: str,
        ids: Sequence[str],
        *,
        who: str,
        now: datetime,
    ) -> None:
        """Append a receipt to the chain of the scope's tenant. Concurrent calls are safe."""
        await add_receipt(session, kind, ids, who=who, now=now)

    @reading
    async def read(
        self, session: Transaction, chain: str, *, after: int = 0, limit: int = 1000
    ) -> Sequence[Receipt]:
        """Return the receipts of a chain with numbers above `after`, in order."""
        rows = await session.rows(
            "receipts", chain=chain, after=bounded(after), limit=bounded(limit)
        )
        return [Receipt(**row) for row in rows]

    @reading
    async def chain(self, session: Transaction, chain: str) -> ReceiptChain | None:
        """Return the length and head of a chain, or None if there is none."""
        row = await session.row("chain", chain=chain)
        return ReceiptChain(row["length"], row["head"]) if row else None

    @reading
    async def chains(self, session: Transaction) -> Sequence[str]:
        """Return the ids of all chains."""
        return [row["chain"] for row in await session.rows("chains")]
