"""The server's tokens by the verbs of `Memories`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kagent_memory.errors import NotFound
from kagent_memory.memories import Memories

START = datetime(2026, 3, 1, tzinfo=UTC)


async def test_a_secret_proves_its_token_until_it_expires_or_is_revoked(store_uri: str) -> None:
    now = START
    async with await Memories.open(store_uri, llm=False, worker=False, tenant="acme", clock=lambda: now) as memories:
        kept, first = await memories.create_token(label="ci")
        bound, second = await memories.create_token(tenant="beta", user="ada", days=1, is_operator=False)
        assert (first.tenant, first.user, first.label, first.expires_at) == ("acme", None, "ci", None)
        assert (second.tenant, second.user, second.expires_at) == ("beta", "ada", START + timedelta(days=1))
        assert [token.id for token in await memories.tokens()] == [first.id, second.id]
        assert kept not in repr(await memories.tokens())
        assert await memories.authenticate(kept) == first
        assert await memories.authenticate(bound) == second
        for unknown in (
            "",
            "kmem_",
            first.digest,
            first.id,
            kept.removeprefix("kmem_"),
            kept[:-1],
            f"{kept} ",
            "kmem_é\ud83e",
        ):
            assert await memories.authenticate(unknown) is None
        now = START + timedelta(days=1)
        assert await memories.authenticate(bound) is None
        await memories.revoke_token(first.id)
        assert await memories.authenticate(kept) is None
        with pytest.raises(NotFound):
            await memories.revoke_token(first.id)
        assert [token.id for token in await memories.tokens()] == [second.id]
