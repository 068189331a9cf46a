"""Receipts of what was forgotten: without content, one chain a tenant, and whatever is done to one
is found; and the server's tokens.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kagent_memory import Fact, Memories, Message, Scope
from kagent_memory.cli import main
from kagent_memory.errors import NotFound
from kagent_memory.server.tokens import create_token, find_token
from kagent_memory.stores.receipts import SEALED, Receipt, seal
from kagent_memory.testing import FrozenClock
from memories.opening import CANARY, GRACE, execute, opened

SCOPE = Scope("acme", CANARY, "notes")
OTHER = Scope("", "ada", "notes")


async def forget_four(memories: Memories) -> list[str]:
    """Four receipts of one tenant, and one of another."""
    ids = await memories.add(
        SCOPE, [Fact(f"{CANARY} {number}", tags=(CANARY,)) for number in range(5)]
    )
    await memories.forget(SCOPE, ids[:2], who="ops")
    await memories.forget(SCOPE, ids[2])
    await memories.add(GRACE, ["Grace skis"])
    await memories.forget(GRACE, everything=True, who="ops")
    await memories.forget(SCOPE, tag=CANARY, who="ops")
    await memories.add(OTHER, ["Ada skis"])
    await memories.forget(OTHER, everything=True)
    return ids


async def test_every_forgetting_leaves_a_receipt_without_its_content(uri):
    """Each call of `forget` that erases adds one receipt, which tells no name and no content."""
    async with await opened(uri) as memories:
        ids = await forget_four(memories)
        await memories.forget(SCOPE, tag="nothing has it")
        await memories.forget(SCOPE, everything=True, dry_run=True)
        receipts = await memories.receipts(tenant="acme")
        assert [(receipt.number, receipt.memories, receipt.who) for receipt in receipts] == [
            (1, 2, "ops"),
            (2, 1, ""),
            (3, 1, "ops"),
            (4, 2, "ops"),
        ]
        assert len({receipt.whose for receipt in receipts}) == 2
        assert receipts[0].whose == receipts[1].whose == receipts[3].whose
        digests = "".join(receipt.digests for receipt in receipts)
        assert len({digests[start : start + 32] for start in range(0, len(digests), 32)}) == 6
        assert [
            receipt.number for receipt in await memories.receipts(tenant="acme", after=2, limit=1)
        ] == [3]
        assert len(await memories.receipts()) == 1  # of the setting's tenant
        checked = await memories.check_receipts()
        assert (checked.chains, checked.receipts, checked.problems) == (2, 5, {})
        assert receipts[-1].digest in checked.heads.values()
        everything = repr(execute(uri, "SELECT * FROM receipt")) + repr(
            execute(uri, "SELECT * FROM receipt_chain")
        )
    assert not [
        id for id in (CANARY, *ids, "acme") if id in everything or id.encode().hex() in everything
    ]


async def test_a_tenant_that_is_erased_leaves_its_receipts(uri):
    """Receipts outlive the tenant, and its chain goes on."""
    async with await opened(uri) as memories:
        await memories.add(SCOPE, ["One", "Two"])
        await memories.add(GRACE, ["Three"])
        assert (await memories.forget_tenant("acme", who="ops")).memories == 3
        receipts = await memories.receipts(tenant="acme")
        assert sorted((receipt.kind, receipt.memories, receipt.who) for receipt in receipts) == [
            ("forget_tenant", 1, "ops"),
            ("forget_tenant", 2, "ops"),
        ]
        await memories.add(SCOPE, ["Four"])
        await memories.forget(SCOPE, everything=True)
        assert [receipt.number for receipt in await memories.receipts(tenant="acme")] == [1, 2, 3]
        assert not (await memories.check_receipts(tenant="acme")).problems


def test_digests_of_receipts_that_exist_stay_valid():
    """A receipt's digest depends on its fields alone, read in an order that never changes."""
    names: Any = {name: name for name in SEALED}
    assert seal(Receipt(**names, digest="")).startswith("3df649978f62")


async def test_what_was_only_queued_leaves_a_receipt_too():
    """Messages withdrawn from the queue leave a receipt."""
    async with await opened() as memories:
        await memories.remember(SCOPE, [Message(text=f"{CANARY} waits", event_id="e")], "s")
        assert (await memories.forget(SCOPE, session_id="s")).ids == ()
        assert [receipt.memories for receipt in await memories.receipts(tenant="acme")] == [0]


@pytest.mark.parametrize(
    ("edit", "finding"),
    [
        ("UPDATE receipt SET memories = 3 WHERE number = 2 AND {chain}", "receipt 2 was changed"),
        (
            "UPDATE receipt SET whose = digests WHERE number = 3 AND {chain}",
            "receipt 3 was changed",
        ),
        (
            "UPDATE receipt SET digest = previous WHERE number = 4 AND {chain}",
            "receipt 4 was changed",
        ),
        (
            "UPDATE receipt SET previous = digest WHERE number = 2 AND {chain}",
            "receipt 2 does not follow",
        ),
        (
            "DELETE FROM receipt WHERE number = 2 AND {chain}",
            "receipt 3 does not follow from receipt 1",
        ),
        (
            "DELETE FROM receipt WHERE number = 1 AND {chain}",
            "receipt 2 does not follow from receipt 0",
        ),
        (
            "DELETE FROM receipt WHERE number >= 3 AND {chain}",
            "tells of 4 receipts, which end otherwise than these 2",
        ),
        (
            "DELETE FROM receipt WHERE {chain}",
            "tells of 4 receipts, which end otherwise than these 0",
        ),
        ("DELETE FROM receipt_chain WHERE {chain}", "tells of no receipts"),
        (
            "UPDATE receipt_chain SET length = 3 WHERE {chain}",
            "tells of 3 receipts, which end otherwise than these 4",
        ),
        (
            "UPDATE receipt_chain SET head = '' WHERE {chain}",
            "tells of 4 receipts, which end otherwise than these 4",
        ),
        (
            "UPDATE receipt SET number = 9 WHERE number = 2 AND {chain};"
            "UPDATE receipt SET number = 2 WHERE number = 3 AND {chain};"
            "UPDATE receipt SET number = 3 WHERE number = 9 AND {chain}",
            "receipt 2 was changed",
        ),
    ],
)
async def test_whatever_is_done_to_a_receipt_is_found(edit, finding, tmp_path, capsys):
    """An edited, removed, added or reordered receipt is named, on the command line too."""
    uri = f"libsql:///{tmp_path}/memory.db"
    async with await opened(uri) as memories:
        await forget_four(memories)
        assert not (await memories.check_receipts()).problems
        chain = f"scope_id = x'{Scope('acme', '', '').id.hex()}'"
        execute(uri, *edit.format(chain=chain).split(";"))
        [wrong] = (await memories.check_receipts()).problems.values()
        assert any(finding in receipt for receipt in wrong), wrong
    assert await asyncio.to_thread(main, ["receipts", "--check", "--uri", uri]) == 1
    assert finding in capsys.readouterr().out


async def test_two_who_forget_at_once_keep_one_chain(uri):
    """Two processes that forget at once write one whole chain."""
    async with await opened(uri) as first, await opened(uri) as second:
        scopes = [Scope("acme", f"user {number}", "notes") for number in range(6)]
        for scope in scopes:
            await first.add(scope, [f"Fact number {number}" for number in range(4)])

        async def forget_all(memories: Memories, scope: Scope) -> None:
            for memory in (await memories.list(scope)).memories:
                await memories.forget(scope, memory.id)

        await asyncio.gather(
            *(forget_all((first, second)[place % 2], scope) for place, scope in enumerate(scopes))
        )
        assert [receipt.number for receipt in await first.receipts(tenant="acme")] == [
            *range(1, 25)
        ]
        checked = await second.check_receipts(tenant="acme")
        assert (checked.receipts, checked.problems) == (24, {})


async def test_a_forgetting_that_fails_leaves_no_receipt(monkeypatch):
    """A receipt and what it proves are one transaction."""
    from kagent_memory.stores import receipts

    async with await opened() as memories:
        (id,) = await memories.add(SCOPE, ["One"])

        def fails(*_args: Any, **_more: Any) -> Any:
            raise ConnectionError("the cable")

        monkeypatch.setattr(receipts, "seal", fails)
        with pytest.raises(ConnectionError):
            await memories.forget(SCOPE, id)
        monkeypatch.undo()
        assert (await memories.get(SCOPE, id)).content == "One"
        assert await memories.receipts(tenant="acme") == []
        assert (await memories.check_receipts()).chains == 0


async def test_a_secret_proves_its_token_until_its_end():
    """A secret, whole, proves its token until that expires or is revoked."""
    clock = FrozenClock()
    async with await opened(tenant="acme", clock=clock) as memories:
        kept, first = await create_token(memories, label="ci")
        brief, second = await create_token(memories, tenant="beta", user="ada", days=1)
        assert (first.tenant, first.user, second.tenant, second.user) == (
            *("acme", None),
            *("beta", "ada"),
        )
        assert [await find_token(memories, secret) for secret in (kept, brief)] == [first, second]
        for unknown in ("", first.digest, first.id, kept[:-1], f"{kept} ", "kmem_é\ud83e"):
            assert await find_token(memories, unknown) is None
        clock.advance(days=1)
        await memories.store.tokens.drop(first.id)
        assert [await find_token(memories, secret) for secret in (kept, brief)] == [None, None]
        with pytest.raises(NotFound):
            await memories.store.tokens.drop(first.id)
