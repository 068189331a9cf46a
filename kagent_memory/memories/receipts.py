"""Receipts of what was forgotten: listed, and each chain checked link by link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..stores import ReceiptStore
from ..stores.receipts import Receipt, chain_id, problem_at_end, problems

PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptCheck:
    """Result of a check of receipts.

    Attributes:
        chains: how many tenants have receipts.
        receipts: how many there are.
        problems: chain → what is wrong with it; empty when all are whole.
        heads: chain → the digest of its last receipt. Kept elsewhere, it also tells of a chain made
            anew as a whole.
    """

    chains: int = 0
    receipts: int = 0
    problems: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    heads: Mapping[str, str] = field(default_factory=dict[str, str])


async def check_receipts(store: ReceiptStore, tenant: str | None) -> ReceiptCheck:
    """See `Memories.check_receipts`."""
    ids = await store.chains() if tenant is None else [chain_id(tenant)]
    count, wrong_chains, heads = 0, dict[str, Sequence[str]](), dict[str, str]()
    for id in ids:
        wrong, last = await _check_chain(store, id)
        count += last.number if last else 0
        if last:
            heads[id] = last.digest
        if wrong:
            wrong_chains[id] = wrong
    return ReceiptCheck(
        chains=len({*heads, *wrong_chains}), receipts=count, problems=wrong_chains, heads=heads
    )


async def _check_chain(store: ReceiptStore, id: str) -> tuple[Sequence[str], Receipt | None]:
    wrong: list[str] = []
    last: Receipt | None = None
    while True:
        # The chain first: whoever forgets meanwhile adds to both, and what it says then is there to
        # be read.
        chain = await store.chain(id)
        while page := await store.read(id, after=last.number if last else 0, limit=PAGE):
            wrong += problems(page, last)
            last = page[-1]
        if await store.chain(id) == chain:
            break
    if chain is None and last is None:
        return [], None
    end = problem_at_end(chain, last)
    return [*wrong, *([end] if end else [])], last
