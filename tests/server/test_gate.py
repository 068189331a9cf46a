"""Who passes the door: by address, host, token, proxy and rate."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from kagent_memory.memories import Memories
from kagent_memory.server.app import create_app
from kagent_memory.server.auth import Access

from .ground import Clock

INFO = "/api/v1/info"


def caller(
    memories: Memories, access: Access, address: str = "127.0.0.1", clock: Any = None
) -> httpx.AsyncClient:
    app = create_app(memories, access, clock=clock or (lambda: datetime.now(UTC)))
    return client(app, address)


def client(app: Any, address: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, client=(address, 50_000))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


@pytest.mark.parametrize(
    "address", ["10.0.0.7", "192.168.1.2", "::ffff:10.0.0.7", "2001:db8::1", "fe80::1"]
)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]"])
async def test_without_auth_another_machine_is_refused(memories: Memories, address: str, host: str):
    async with caller(memories, Access(), address) as other:
        answer = await other.get(INFO, headers={"host": host})
        assert (answer.status_code, "its own machine" in answer.text) == (403, True)
        assert (await other.get("/healthz", headers={"host": "10.0.0.9"})).status_code == 200


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
async def test_without_auth_only_loopback_names_are_answered(memories: Memories, address: str):
    async with caller(memories, Access(), address) as own:
        assert (await own.get(INFO)).status_code == 200
        for host in ("evil.example", "localhost.evil.example", "", "[", "10.0.0.7"):
            assert (await own.get(INFO, headers={"host": host})).status_code == 403


@pytest.mark.parametrize(
    ("name", "encoding"),
    [(name, "utf-8") for name in ("Zoë", "Łukasz", "李小龙", "משה", "👩‍🔧", "a b", "ø" * 300)]
    + [(name, "latin-1") for name in ("Zoë", "a b", "ø" * 300)],
)
async def test_a_proxy_names_users_in_any_script(memories: Memories, name: str, encoding: str):
    async with caller(memories, Access(trusted_proxy=True)) as proxy:
        scope = {"app": "demo", "user": name}
        headers = {b"x-user-id": name.encode(encoding)}
        added = await proxy.post(
            "/api/v1/memories", params=scope, json={"items": ["likes tea"]}, headers=headers
        )
        assert added.status_code == 200
        listed = await proxy.get("/api/v1/memories", params=scope, headers=headers)
        assert [one["content"] for one in listed.json()["memories"]] == ["likes tea"]
        other = await proxy.get(
            "/api/v1/memories", params={"app": "demo", "user": name + "x"}, headers=headers
        )
        assert other.status_code == 404


async def test_a_name_that_comes_twice_is_nobodys(memories: Memories):
    async with caller(memories, Access(trusted_proxy=True)) as proxy:
        twice = [("x-user-id", "ada"), ("x-user-id", "bob")]
        assert (await proxy.get(INFO, headers=twice)).status_code == 401


def bearing(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


# -- what crosses tenants


@pytest.mark.parametrize(
    ("path", "method"),
    [("/api/v1/prune", "POST"), ("/api/v1/check", "GET"), ("/api/v1/tenants/forget", "POST")],
    ids=["prune", "check", "forget a tenant"],
)
async def test_only_an_operators_token_opens_what_crosses_tenants(
    memories: Memories, clock: Clock, path: str, method: str
):
    async def allowed(**bound: Any) -> int:
        secret, _ = await memories.tokens.create(**bound)
        body = ({"tenant": "acme"} if "tenants" in path else {}) if method == "POST" else None
        return (await there.request(method, path, json=body, headers=bearing(secret))).status_code

    async with caller(memories, Access(required=True), "10.0.0.7", clock) as there:
        assert await allowed(is_operator=True) == 200
        assert await allowed() in (403, 404)
        assert await allowed(tenant="acme") in (403, 404)
        assert await allowed(user="ada") in (403, 404)


async def test_an_operators_token_opens_every_tenant(memories: Memories, clock: Clock):
    secret, _ = await memories.tokens.create(days=1, is_operator=True)
    async with caller(memories, Access(required=True), "10.0.0.7", clock) as there:
        for tenant in ("", "acme"):
            scope = {"app": "demo", "user": "ada", "tenant": tenant}
            answer = await there.get("/api/v1/memories", params=scope, headers=bearing(secret))
            assert answer.status_code == 200
        clock.forward(days=2)
        assert (await there.get("/api/v1/check", headers=bearing(secret))).status_code == 401
