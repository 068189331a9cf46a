"""Authentication, and the memories within reach of each caller."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from starlette.datastructures import Headers

from kagent_memory.concurrency import turn
from kagent_memory.errors import ConfigurationError
from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.server.app import create_app
from kagent_memory.server.auth import Access, Admission, check_binding
from kagent_memory.testing import FrozenClock
from kagent_memory.testing.fixtures import a_job

from .ground import bearing, client_of, item

GUARDED, PROXIED = Access(required=True), Access(trusted_proxy=True)
ADA, BOB = "?app=demo&user=ada", "?app=demo&user=bob"
INFO = "/api/v1/info"


# -- without auth


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])
def test_only_loopback_is_bound_without_auth(host: str):
    """An address that other machines reach is bound only if calls need auth."""
    with pytest.raises(ConfigurationError, match="exposes the server to other machines"):
        check_binding(host, Access())
    check_binding(host, GUARDED)
    check_binding(host, PROXIED)
    for own in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        check_binding(own, Access())


def called_from(memories: Memories, address: str) -> httpx.AsyncClient:
    app = create_app(memories, clock=lambda: datetime.now(UTC))
    transport = httpx.ASGITransport(app, client=(address, 50_000))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


@pytest.mark.parametrize(
    "address", ["10.0.0.7", "192.168.1.2", "::ffff:10.0.0.7", "2001:db8::1", "fe80::1"]
)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]"])
async def test_without_auth_another_machine_is_refused(memories: Memories, address: str, host: str):
    """Another machine is refused whatever host it names; its health checks are answered."""
    async with called_from(memories, address) as other:
        answer = await other.get(INFO, headers={"host": host})
        assert (answer.status_code, "its own machine" in answer.text) == (403, True)
        assert (await other.get("/healthz", headers={"host": "10.0.0.9"})).status_code == 200


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
async def test_without_auth_only_loopback_names_are_answered(memories: Memories, address: str):
    """Without auth, a web page cannot reach the server by a host name of its own."""
    async with called_from(memories, address) as own:
        assert (await own.get(INFO)).status_code == 200
        for host in ("evil.example", "localhost.evil.example", "", "[", "10.0.0.7"):
            assert (await own.get(INFO, headers={"host": host})).status_code == 403


# -- nobody


@pytest.mark.parametrize("headers", [{}, {"cookie": "kagent_memory_token=x"}])
async def test_a_guarded_server_answers_nobody_unknown(
    memories: Memories, clock: FrozenClock, headers: dict[str, str]
):
    """Without a valid token, a guarded server answers only health checks and the login."""
    async with client_of(memories, clock, GUARDED) as client:
        api = await client.get(f"/api/v1/memories{ADA}", headers=headers)
        assert (api.status_code, api.headers["www-authenticate"]) == (401, "Bearer")
        kagent = await client.get("/api/memories", headers=headers)
        assert (kagent.status_code, kagent.text) == (401, "Unauthorized\n")
        for path in (f"/memories{ADA}", "/login-elsewhere", "/login/memories", "/static"):
            page = await client.get(path, headers=headers)
            assert (page.status_code, page.headers["location"]) == (303, "/login")
        for path in ("/openapi.json", "/metrics"):
            assert (await client.get(path, headers=headers)).status_code == 401
        for path in ("/healthz", "/login", "/static/style.css"):
            assert (await client.get(path, headers=headers)).status_code == 200


# -- tokens


async def test_what_is_not_the_callers_is_404_at_every_route(
    memories: Memories, clock: FrozenClock
):
    """A user's token gets 404 for foreign scopes, from verbs and pages, and writes nothing."""
    [own] = await memories.add(Scope("", "ada", "demo"), ["a secret of ada"])
    [theirs] = await memories.add(Scope("", "bob", "demo"), ["a secret of bob"])
    csrf = {"csrf": "own"}
    pages = ("memories", "dashboard", "forget", "jobs", "memories/delete-all")
    async with client_of(memories, clock, GUARDED) as client:
        client.headers.update(await bearing(memories, user="ada"))
        client.cookies["kagent_memory_csrf"] = "own"
        for path in (f"/api/v1/memories{ADA}", *(f"/{name}{ADA}" for name in pages)):
            assert (await client.get(path)).status_code == 200, path
        more: dict[str, Any]
        for method, path, more in (
            *(("GET", f"/{name}{BOB}", {}) for name in pages),
            ("GET", f"/receipts{ADA}", {}),  # of the whole tenant
            ("GET", f"/memories{ADA}&q=secret&width=app", {}),
            ("GET", f"/memories/{theirs}{ADA}", {}),
            ("POST", f"/memories/act{BOB}", {"data": {**csrf, "do": "delete", "id": theirs}}),
            ("POST", f"/memories/act{ADA}", {"data": {**csrf, "do": "delete", "id": theirs}}),
            ("POST", f"/forget{BOB}", {"data": {**csrf, "do": "forget", "everything": "true"}}),
            ("GET", f"/api/v1/memories/{theirs}{ADA}", {}),
            ("POST", "/api/memories/search", {"json": item(user_id="bob")}),
            ("DELETE", "/api/memories?agent_name=demo&user_id=bob", {}),
        ):
            answer = await client.request(method, path, **more)
            assert (answer.status_code, "secret of bob" in answer.text) == (404, False), path
    for user, id in (("ada", own), ("bob", theirs)):
        [memory] = (await memories.list(Scope("", user, "demo"))).memories
        assert memory.id == id


async def test_a_bound_caller_finds_only_its_scopes_and_jobs(
    memories: Memories, clock: FrozenClock
):
    """A token sees only its own scopes and jobs, without payloads."""
    others = [Scope("", f"aaa {number}", "a") for number in range(20)]
    mine = [Scope("", "zoe", "z"), Scope("acme", "zoe", "a"), Scope("acme", "ada", "z")]
    heavy = {"messages": [{"text": "x" * 1000, "event_id": "e"}]}
    jobs = [a_job(scope, now=clock(), payload=heavy) for scope in (*others, *mine)]
    await memories.store.queue.enqueue(jobs)
    async with client_of(memories, clock, GUARDED) as client:
        for bound, own in (({"user": "zoe"}, mine[:1]), ({"tenant": "acme"}, mine[1:])):
            client.headers.update(await bearing(memories, **bound))
            scopes = (await client.get("/api/v1/scopes?limit=5")).json()
            visible = (await client.get("/api/v1/jobs?limit=5")).json()
            assert [Scope(**scope) for scope in scopes] == own
            assert [Scope(**job["scope"]) for job in visible] == own
            assert not any(job["payload"] for job in visible)
            for foreign in ("jobs?tenant=other", "scopes?user=aaa 1"):
                answer = await client.get(f"/api/v1/{foreign}")
                assert answer.status_code == 404 or answer.json() == []


async def test_only_an_operators_token_crosses_tenants(memories: Memories, clock: FrozenClock):
    """Only an operator's token opens every tenant and the verbs that cross tenants."""
    crossing = (
        ("POST", "/api/v1/prune", {}),
        ("GET", "/api/v1/check", None),
        ("POST", "/api/v1/tenants/forget", {"tenant": "acme"}),
        ("GET", f"/api/v1/memories{ADA}&tenant=other", None),
    )
    others: list[dict[str, Any]] = [{}, {"tenant": "acme"}, {"user": "ada"}]
    async with client_of(memories, clock, GUARDED) as client:
        for bound, status in [({"is_operator": True}, 200), *((other, 404) for other in others)]:
            client.headers.update(await bearing(memories, **bound))
            for method, path, body in crossing:
                answer = await client.request(method, path, json=body)
                assert answer.status_code == status, (bound, path)


async def test_every_scope_of_a_search_must_be_the_callers(memories: Memories, clock: FrozenClock):
    """A search with one foreign scope gets 404 and no hits."""
    own, shop, team = (
        Scope("acme", *names) for names in (("ada", "demo"), ("ada", "shop"), ("team", "demo"))
    )
    foreign = {"tenant": "rival", "user": "ada", "app": "demo"}
    for number, scope in enumerate((own, shop, team, Scope(**foreign))):
        await memories.add(scope, [f"the secret of box {number}"])
    user = await bearing(memories, user="ada", tenant="acme")
    tenant = await bearing(memories, tenant="acme")
    agent = {"x-agent-name": "demo", "x-tenant-id": "acme"}
    named = {"user": "ada", "app": "demo"}
    cases: list[tuple[dict[str, str], list[dict[str, Any]], int | set[Scope]]] = [
        (user, [{"user": "ada"}], {own, shop}),
        (tenant, [named, {"user": "team", "app": "demo"}], {own, team}),
        (agent, [{"app": "demo"}], {own, team}),
        (agent, [{"user": "ada"}], 404),
        (user, [named, {"user": "team", "app": "demo"}], 404),
        (user, [{}], 404),
        (tenant, [named, foreign], 404),
        (tenant, [{}] * 101, 400),
    ]
    async with client_of(memories, clock, Access(required=True, trusted_proxy=True)) as client:
        for headers, scopes, expected in cases:
            body = {"query": "secret", "scope": scopes}
            answer = await client.post("/api/v1/memories/search", json=body, headers=headers)
            if isinstance(expected, int):
                assert (answer.status_code, "secret" in answer.text) == (expected, False), scopes
            else:
                assert {Scope(**hit["scope"]) for hit in answer.json()["hits"]} == expected
        for path in ("/api/v1/receipts", "/api/v1/receipts/check"):  # they are of the whole tenant
            for headers, query, status in (
                *((agent, "", 404), (user, "", 404)),
                *((tenant, "", 200), (tenant, "?tenant=rival", 404)),
            ):
                assert (await client.get(path + query, headers=headers)).status_code == status


# -- a trusted proxy


async def test_headers_of_a_proxy_count_only_with_the_flag(memories: Memories, clock: FrozenClock):
    """A proxy's headers bind a caller to a user or agent, whose name has two spellings in kagent,
    if they are enabled.
    """
    listed = "/api/memories?agent_name={}&user_id=bob".format
    hyphens = {"x-agent-name": "my-agent"}
    cases = [
        ({}, f"/api/v1/memories{ADA}", 401),
        ({"x-user-id": "ada"}, f"/api/v1/memories{ADA}", 200),
        ({"x-user-id": "ada"}, f"/api/v1/memories{BOB}", 404),
        ({"x-agent-name": "demo", "authorization": "Bearer k8s"}, listed("demo"), 200),
        ({"x-agent-name": "demo", "authorization": "Bearer k8s"}, listed("other"), 404),
        (hyphens, listed("my_agent"), 200),
        ({"x-agent-name": "my_agent"}, listed("my-agent"), 404),
        (hyphens, "/api/v1/memories?app=my_agent&user=bob", 404),  # elsewhere it is compared whole
    ]
    async with client_of(memories, clock, PROXIED) as client:
        for headers, path, status in cases:
            assert (await client.get(path, headers=headers)).status_code == status, (headers, path)
        twice = [("x-user-id", "ada"), ("x-user-id", "bob")]
        assert (await client.get(INFO, headers=twice)).status_code == 401
    async with client_of(memories, clock) as client:
        unheard = await client.get(f"/api/v1/memories{BOB}", headers={"x-user-id": "ada"})
        assert unheard.status_code == 200


@pytest.mark.parametrize(
    ("name", "encoding"),
    [(name, "utf-8") for name in ("Zoë", "李小龙", "👩‍🔧", "a b", "ø" * 300)]
    + [(name, "latin-1") for name in ("Zoë", "ø" * 300)],
)
async def test_a_proxy_names_users_in_any_script(
    memories: Memories, clock: FrozenClock, name: str, encoding: str
):
    """A proxy's user name is read as UTF-8, else as Latin-1, and compared whole."""
    async with client_of(memories, clock, PROXIED) as proxy:
        headers = {b"x-user-id": name.encode(encoding)}
        for user, status in ((name, 200), (name + "x", 404)):
            params = {"app": "demo", "user": user}
            answer = await proxy.get("/api/v1/memories", params=params, headers=headers)
            assert answer.status_code == status


async def test_callers_of_one_address_are_looked_up_side_by_side(memories: Memories):
    """Behind a proxy all callers have one address, so none waits there for another's turn."""
    admission, headers = Admission(GUARDED, lambda: memories), await bearing(memories, user="ada")
    async with admission.turn("proxy"), turn.get(), asyncio.timeout(5):
        assert (await admission.caller(Headers(headers), {}, "proxy")).user == "ada"
