"""Receipts of what was forgotten: scripts that add to a chain, and read it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from ...records import Scope
from ..codec import bounded
from ..receipts import KEY_BYTES, Receipt, ReceiptChain, chain_id, next_receipt
from .scripts import reading, writing
from .session import Database, Session


async def add_receipt(
    session: Session, scope: Scope, kind: str, ids: Sequence[str], *, who: str, now: datetime
) -> None:
    """Add a receipt, the last thing that a transaction does: it acts for the chain afterwards."""
    whose = {"chain": chain_id(scope.tenant)}
    await session.rows("act_for_chain", whose)
    await session.run("hold_chain", {**whose, "key": os.urandom(KEY_BYTES)})
    [row] = await session.rows("chain", whose)
    chain = ReceiptChain(row["chain"], row["length"], row["head"])
    receipt = next_receipt(chain, bytes(row["key"]), scope, kind, ids, who=who, now=now)
    await session.run("insert_receipt", {**whose, **asdict(receipt)})
    await session.run("move_chain", {**whose, "number": receipt.number, "digest": receipt.digest})


class ReceiptStore:
    """The receipts of what was forgotten. The verbs cross scopes."""

    def __init__(self, database: Database) -> None:
        self.database = self.reads = database

    @writing
    async def add(
        self,
        session: Session,
        scope: Scope,
        kind: str,
        ids: Sequence[str],
        *,
        who: str,
        now: datetime,
    ) -> None:
        """Add a receipt to the chain of the scope's tenant. Safe with two at once."""
        await add_receipt(session, scope, kind, ids, who=who, now=now)

    @reading
    async def read(
        self, session: Session, chain: str, *, after: int = 0, limit: int = 1000
    ) -> Sequence[Receipt]:
        """Return the receipts of a chain after this number, in order."""
        values = {"chain": chain, "after": bounded(after), "limit": bounded(limit)}
        return [Receipt(**row) for row in await session.rows("receipts", values)]

    @reading
    async def chain(self, session: Session, chain: str) -> ReceiptChain | None:
        """Return how a chain stands."""
        found = await session.rows("chain", {"chain": chain})
        return ReceiptChain(chain, found[0]["length"], found[0]["head"]) if found else None

    @reading
    async def chains(self, session: Session) -> Sequence[str]:
        """Return the ids of all chains."""
        return [row["chain"] for row in await session.rows("chains", {})]
