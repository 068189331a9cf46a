"""Rules for every interface: the reachable memories, and messages of failures."""

from __future__ import annotations

from typing import Any

import pytest

from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.server.auth import Access
from kagent_memory.server.tokens import create_token

from .doors import DOORS, FAILED, FOREIGN, UNKNOWN, Refused, at_door
from .ground import bearing

pytestmark = pytest.mark.parametrize("door", DOORS)
WORDS = "the launch code is 0000"
AWAY = {
    "api": "urn:kagent-memory:store",
    "kagent": "failed to {} memor",
    "page": "The store is closed",
    "mcp": "memory unavailable",
    "grpc": "failed to {} memor",
}


async def refused(call: Any, why: str) -> str:
    """Return the message of an interface that refuses a call for this reason."""
    with pytest.raises(Refused) as refusal:
        await call
    assert refusal.value.why == why, refusal.value
    return str(refusal.value)


async def test_a_token_opens_its_own_memories_at_every_door(memories: Memories, door: str):
    """Every interface requires a valid token or a trusted proxy's header, and shows neither other
    users' memories nor those of the same names in another tenant.
    """
    secret, record = await create_token(memories)
    await memories.store.tokens.drop(record.id)
    ada, acme = await bearing(memories, user="ada"), await bearing(memories, tenant="acme")
    eve = Scope("", "eve", "demo")
    await memories.add(eve, ["Eve's secret"])
    async with at_door(door, memories, Access(required=True)) as use:
        for headers in ({}, {"authorization": f"Bearer {secret}"}, {"x-user-id": "ada"}):
            await refused(use(headers, text="of nobody"), UNKNOWN)
            await refused(use(headers), UNKNOWN)
        await use(ada, text="Ada's tea")
        await refused(use(ada, text="of Ada", user="eve"), FOREIGN)
        assert "secret" not in await refused(use(ada, user="eve"), FOREIGN)
        assert await use(acme) == []
        await use(acme, text="Acme's tea")
        assert await use(ada) == ["Ada's tea"]
        assert await use(acme) == ["Acme's tea"]
    async with at_door(door, memories, Access(trusted_proxy=True)) as use:
        assert await use({"x-user-id": "ada"}) == ["Ada's tea"]
    assert [memory.content for memory in (await memories.list(eve)).memories] == ["Eve's secret"]


async def test_a_store_that_is_away_is_told_at_every_door(memories: Memories, door: str):
    """An unavailable store is a server error, never an empty list."""
    async with at_door(door, memories) as use:
        await memories.store.close()
        for call, verb in ((use(text="tea"), "save"), (use(), "list")):
            assert AWAY[door].format(verb) in await refused(call, FAILED)


async def test_a_defect_is_told_without_what_somebody_wrote(
    memories: Memories, door: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """A defect is reported in the interface's format; the log has its place in the code, but no
    content.
    """

    async def broken(*args: Any, **options: Any) -> Any:
        raise RuntimeError(WORDS)

    monkeypatch.setattr(type(memories.store.memories), "apply", broken)
    async with at_door(door, memories) as use:
        message = await refused(use(text=WORDS), FAILED)
    assert WORDS not in message + caplog.text
    assert "RuntimeError" in caplog.text
    assert door == "mcp" or "test_doors.py" in caplog.text
