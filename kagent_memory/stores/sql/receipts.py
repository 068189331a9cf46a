"""Receipts of what was forgotten: scripts that add to a chain, and read it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from ...records import Scope
from ..codec import bounded
from ..receipts import KEY_BYTES, Receipt, ReceiptChain, chain_id, next_receipt
from .session import Session


async def add(session: Session, scope: Scope, kind: str, ids: Sequence[str], *, who: str, now: datetime) -> None:
    """See `ReceiptStore.add_receipt`. The last thing that a transaction does: it acts for the chain afterwards."""
    whose = {"chain": chain_id(scope.tenant)}
    await session.rows("act_for_chain", whose)
    await session.run("hold_chain", {**whose, "key": os.urandom(KEY_BYTES)})
    [row] = await session.rows("chain", whose)
    chain = ReceiptChain(row["chain"], row["length"], row["head"])
    receipt = next_receipt(chain, bytes(row["key"]), scope, kind, ids, who=who, now=now)
    await session.run("insert_receipt", {**whose, **asdict(receipt)})
    await session.run("move_chain", {**whose, "number": receipt.number, "digest": receipt.digest})


async def find(session: Session, chain: str, *, after: int, limit: int) -> Sequence[Receipt]:
    """See `ReceiptStore.receipts`."""
    values = {"chain": chain, "after": bounded(after), "limit": bounded(limit)}
    return [Receipt(**row) for row in await session.rows("receipts", values)]


async def chain(session: Session, id: str) -> ReceiptChain | None:
    """See `ReceiptStore.chain`."""
    found = await session.rows("chain", {"chain": id})
    return ReceiptChain(id, found[0]["length"], found[0]["head"]) if found else None


async def chains(session: Session) -> Sequence[str]:
    """See `ReceiptStore.chains`."""
    return [row["chain"] for row in await session.rows("chains", {})]
