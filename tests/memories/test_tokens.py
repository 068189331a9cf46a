"""The server's tokens by the verbs of `Memories`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kagent_memory.errors import NotFound
from memories.opening import opened

START = datetime(2026, 3, 1, tzinfo=UTC)


async def test_a_secret_proves_its_token_until_its_end(store_uri: str) -> None:
    """A secret proves its token until it expires or is revoked."""
    now = START
    async with await opened(store_uri, tenant="acme", clock=lambda: now) as memories:
        tokens = memories.tokens
        kept, first = await tokens.create(label="ci")
        bound, second = await tokens.create(tenant="beta", user="ada", days=1, is_operator=False)
        assert (first.tenant, first.user, first.expires_at) == ("acme", None, None)
        assert (second.tenant, second.user) == ("beta", "ada")
        assert [token.id for token in await tokens.list()] == [first.id, second.id]
        assert kept not in repr(await tokens.list())
        assert await tokens.authenticate(kept) == first
        assert await tokens.authenticate(bound) == second
        for unknown in ("", first.digest, first.id, kept[:-1], f"{kept} ", "kmem_é\ud83e"):
            assert await tokens.authenticate(unknown) is None
        now = START + timedelta(days=1)
        assert await tokens.authenticate(bound) is None
        await tokens.revoke(first.id)
        assert await tokens.authenticate(kept) is None
        with pytest.raises(NotFound):
            await tokens.revoke(first.id)
        assert [token.id for token in await tokens.list()] == [second.id]
