"""Receipts of forgotten memories: scripts that append to a chain and read it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from ...records import Scope
from ..codec import bounded
from ..receipts import KEY_BYTES, Receipt, ReceiptChain, chain_id, keyed_digest, seal
from .session import Part, Transaction, reading, writing


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
