"""Who may call what: binding, tokens, trusted proxies, foreign sites, sizes and rates; and no
content in logs.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import httpx
import pytest

from kagent_memory.errors import ConfigurationError
from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.server.app import create_app
from kagent_memory.server.auth import Access, check_binding, is_loopback
from kagent_memory.testing.fixtures import a_job

from .ground import Clock, axis, client_of, item

GUARDED = Access(required=True)
ADA, BOB = "?app=demo&user=ada", "?app=demo&user=bob"


LISTED = "?agent_name=my-agent&user_id=bob"


def named(agent: str) -> dict[str, Any]:
    return {**item(), "agent_name": agent, "user_id": "bob"}


async def token(
    memories: Memories, clock: Clock, user: str | None = None, tenant: str = "", **more: Any
) -> dict[str, str]:
    secret, _ = await memories.tokens.create(tenant=tenant, user=user, label="test", **more)
    return {"authorization": f"Bearer {secret}"}


async def filled(memories: Memories) -> list[str]:
    ids: list[str] = []
    for user in ("ada", "bob"):
        ids += await memories.add(Scope("", user, "demo"), [f"a secret of {user}"])
    return ids


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])
def test_only_loopback_is_bound_without_auth(host: str):
    with pytest.raises(ConfigurationError, match="exposes the server to other machines"):
        check_binding(host, Access())
    check_binding(host, GUARDED)
    check_binding(host, Access(trusted_proxy=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_auth(host: str):
    assert is_loopback(host)
    check_binding(host, Access())


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer kmem_unknown"},
        {"authorization": "Basic x"},
        {"x-user-id": "ada"},
        {"cookie": "kagent_memory_token=x"},
    ],
)
async def test_a_guarded_server_answers_nobody_unknown(
    memories: Memories, clock: Clock, headers: dict[str, str]
):
    async with client_of(memories, clock, GUARDED) as client:
        api = await client.get(f"/api/v1/memories{ADA}", headers=headers)
        assert (api.status_code, api.headers["www-authenticate"]) == (401, "Bearer")
        kagent = await client.post("/api/memories/sessions", json=item(), headers=headers)
        assert (kagent.status_code, kagent.text) == (401, "Unauthorized\n")
        page = await client.get(f"/memories{ADA}", headers=headers)
        assert (page.status_code, page.headers["location"]) == (303, "/login")
        assert (await client.get("/openapi.json", headers=headers)).status_code == 401
        assert (await client.get("/healthz", headers=headers)).status_code == 200


@pytest.mark.parametrize("path", ["/login-elsewhere", "/login/memories", "/static"])
async def test_only_the_login_page_and_its_files_are_open(
    memories: Memories, clock: Clock, path: str
):
    """A path that only begins like an open one asks for credentials."""
    async with client_of(memories, clock, GUARDED) as client:
        assert (await client.get("/login")).status_code == 200
        assert (await client.get("/static/style.css")).status_code == 200
        refused = await client.get(path)
        assert (refused.status_code, refused.headers["location"]) == (303, "/login")


async def test_a_users_token_opens_their_memories_and_nobody_elses(
    memories: Memories, clock: Clock
):
    """A user's token is answered 404 for every other scope, at every route, and writes nothing."""
    _, theirs = await filled(memories)
    headers = await token(memories, clock, "ada")
    async with client_of(memories, clock, GUARDED) as client:
        assert (await client.get(f"/api/v1/memories{ADA}", headers=headers)).status_code == 200
        for method, path, body in (
            ("GET", f"/api/v1/memories{BOB}", None),
            ("GET", f"/api/v1/memories/{theirs}{BOB}", None),
            ("GET", f"/api/v1/memories/{theirs}{ADA}", None),
            ("POST", f"/api/v1/memories{BOB}", {"items": ["x"]}),
            ("POST", f"/api/v1/memories/search{BOB}", {"query": "secret"}),
            ("POST", f"/api/v1/memories/forget{BOB}", {"everything": True}),
            ("GET", f"/api/v1/memories{ADA}&tenant=other", None),
            ("GET", f"/memories{BOB}", None),
            ("POST", "/api/memories/sessions", item(user_id="bob")),
            ("POST", "/api/memories/search", item(user_id="bob")),
            ("GET", "/api/memories?agent_name=demo&user_id=bob", None),
            ("DELETE", "/api/memories?agent_name=demo&user_id=bob", None),
        ):
            answer = await client.request(method, path, json=body, headers=headers)
            assert (answer.status_code, "secret of bob" in answer.text) == (404, False), path
        assert (await client.get("/api/v1/scopes", headers=headers)).json() == [
            {"tenant": "", "user": "ada", "app": "demo"}
        ]
    assert [memory.id for memory in (await memories.list(Scope("", "bob", "demo"))).memories] == [
        theirs
    ]


async def test_a_tenants_token_opens_that_tenant_alone(memories: Memories, clock: Clock):
    await filled(memories)
    headers = await token(memories, clock, tenant="acme")
    async with client_of(memories, clock, GUARDED) as client:
        assert (
            await client.post(
                f"/api/v1/memories{BOB}", json={"items": ["of acme"]}, headers=headers
            )
        ).status_code == 200
        assert (await client.get("/api/v1/scopes", headers=headers)).json() == [
            {"tenant": "acme", "user": "bob", "app": "demo"}
        ]
        assert (
            await client.get(f"/api/v1/memories{BOB}&tenant=", headers=headers)
        ).status_code == 404
        assert (
            await client.post("/api/memories/sessions", json=item(), headers=headers)
        ).status_code == 201
    assert Scope("acme", "ada", item()["agent_name"]) in await memories.scopes()


async def test_a_bound_caller_finds_only_its_scopes_and_jobs(memories: Memories, clock: Clock):
    """Among scopes and jobs of many, a token sees those it is bound to, without payloads."""
    others = [Scope("", f"aaa {number}", "a") for number in range(20)]
    mine = [Scope("", "zoe", "z"), Scope("acme", "zoe", "a"), Scope("acme", "ada", "z")]
    heavy = {"messages": [{"text": "x" * 1000, "event_id": "e"}]}
    await memories.store.enqueue(
        [a_job(scope, now=clock(), payload=heavy) for scope in (*others, *mine)]
    )
    bindings: list[tuple[dict[str, Any], list[Scope]]] = [
        ({"user": "zoe"}, mine[:1]),
        ({"tenant": "acme"}, mine[1:]),
    ]
    async with client_of(memories, clock, GUARDED) as client:
        for bound, own in bindings:
            headers = await token(memories, clock, **bound)
            scopes = (await client.get("/api/v1/scopes?limit=5", headers=headers)).json()
            listed = (await client.get("/api/v1/jobs?limit=5", headers=headers)).json()
            assert scopes == [job["scope"] for job in listed] == list(map(as_json, own))
            assert all(job["payload"] == {} for job in listed)
            for foreign in ("tenant=other", "user=aaa 1", "app=nowhere"):
                for what in ("jobs", "scopes"):
                    answer = await client.get(f"/api/v1/{what}?{foreign}", headers=headers)
                    assert answer.status_code == 404 or answer.json() == []


def as_json(scope: Scope) -> dict[str, str]:
    return {"tenant": scope.tenant, "user": scope.user, "app": scope.app}


async def test_a_revoked_or_expired_token_holds_no_longer(memories: Memories, clock: Clock):
    headers = await token(memories, clock, days=1)
    async with client_of(memories, clock, GUARDED) as client:
        assert (await client.get("/api/v1/info", headers=headers)).status_code == 200
        clock.now += timedelta(days=1)
        assert (await client.get("/api/v1/info", headers=headers)).status_code == 401
        fresh = await token(memories, clock)
        [row] = [row for row in await memories.store.tokens.find() if row.expires_at is None]
        assert fresh["authorization"].removeprefix("Bearer ") not in repr(row)
        await memories.store.tokens.drop(row.id)
        assert (await client.get("/api/v1/info", headers=fresh)).status_code == 401


async def test_headers_of_a_proxy_count_only_with_the_flag(memories: Memories, clock: Clock):
    await filled(memories)
    ada = {"x-user-id": "ada"}
    agent = {"x-agent-name": "demo", "authorization": "Bearer k8s.service.account"}
    async with client_of(memories, clock, Access(trusted_proxy=True)) as client:
        assert (await client.get(f"/api/v1/memories{ADA}")).status_code == 401
        assert (await client.get(f"/api/v1/memories{ADA}", headers=ada)).status_code == 200
        assert (await client.get(f"/api/v1/memories{BOB}", headers=ada)).status_code == 404
        assert (
            await client.get("/api/memories?agent_name=demo&user_id=bob", headers=agent)
        ).status_code == 200
        assert (
            await client.get("/api/memories?agent_name=other&user_id=bob", headers=agent)
        ).status_code == 404
        # kagent's contract knows an agent by both its spellings
        hyphens = {"x-agent-name": "my-agent"}
        assert (
            await client.post("/api/memories/sessions", json=named("my-agent"), headers=hyphens)
        ).status_code == 201
        assert (await client.get(f"/api/memories{LISTED}", headers=hyphens)).status_code == 200
        underscored = await client.get(
            f"/api/memories{LISTED}", headers={"x-agent-name": "my_agent"}
        )
        assert underscored.status_code == 404
        own = await client.get("/api/v1/memories?app=my_agent&user=bob", headers=hyphens)
        assert own.status_code == 404  # elsewhere the name is compared whole
    # on loopback without auth the header means nothing
    async with client_of(memories, clock) as client:
        assert (await client.get(f"/api/v1/memories{BOB}", headers=ada)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
    ],
)
@pytest.mark.parametrize(
    "path", ["/api/memories/sessions", f"/api/v1/memories{ADA}", f"/memories/add{ADA}"]
)
async def test_another_site_can_write_nothing(
    client: httpx.AsyncClient, headers: dict[str, str], path: str
):
    body = '{"agent_name": "demo"}'
    answer = await client.post(
        path, content=body, headers={"content-type": "text/plain", **headers}
    )
    assert answer.status_code == 403


async def test_a_form_of_the_page_needs_the_secret_of_its_cookie(
    client: httpx.AsyncClient, memories: Memories
):
    path = f"/memories/add{ADA}"
    assert (await client.post(path, data={"content": "x"})).status_code == 400
    await client.get(f"/memories{ADA}")
    csrf = client.cookies["kagent_memory_csrf"]
    assert (await client.post(path, data={"content": "x", "csrf": "guess"})).status_code == 400
    assert (await client.post(path, data={"content": "x", "csrf": csrf})).status_code == 303
    cookie = (await client_first_cookie(client)).lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert len((await memories.list(Scope("", "ada", "demo"))).memories) == 1


async def client_first_cookie(client: httpx.AsyncClient) -> str:
    client.cookies.clear()
    return (await client.get("/")).headers["set-cookie"]


async def test_every_page_forbids_scripts_frames_and_caches(client: httpx.AsyncClient):
    headers = (await client.get("/")).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "script-src" not in policy
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")


@pytest.mark.parametrize(
    "path", ["/api/memories/sessions", f"/api/v1/memories{ADA}", f"/memories/add{ADA}"]
)
async def test_a_long_body_is_413_with_and_without_its_length(
    memories: Memories, clock: Clock, path: str
):
    async def pieces() -> Any:
        for _ in range(20):
            yield b"x" * 100

    async with client_of(memories, clock, Access(max_body_bytes=1000)) as client:
        form = {
            "content-type": "application/x-www-form-urlencoded"
            if path.startswith("/mem")
            else "application/json"
        }
        assert (await client.post(path, content=b"x" * 1001, headers=form)).status_code == 413
        assert (await client.post(path, content=pieces(), headers=form)).status_code == 413


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/api/memories/broken", "json"), ("/api/v1/broken", "problem"), ("/broken", "html")],
)
async def test_a_defect_is_a_500_whose_words_are_not_logged(
    memories: Memories, caplog: pytest.LogCaptureFixture, path: str, kind: str
):
    words = "the launch code is 0000"

    async def broken() -> None:
        raise RuntimeError(words)

    app = create_app(memories)
    app.add_api_route(path, broken)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://localhost"
    ) as client:
        answer = await client.get(path)
    assert (answer.status_code, kind in answer.headers["content-type"]) == (500, True)
    assert "content-security-policy" in answer.headers
    assert "launch" not in answer.text + caplog.text
    assert "RuntimeError" in caplog.text
    assert "test_auth.py" in caplog.text  # where it broke


async def test_logs_hold_no_content(client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    await client.post("/api/memories/sessions", json=item("the launch code is 0000"))
    await client.post("/api/memories/search", json={**item(), "vector": axis(0)})
    await client.post(f"/api/v1/memories{ADA}", json={"items": ["the launch code is 0000"]})
    await client.get(f"/memories{ADA}&q=launch code")
    await client.post(
        f"/api/v1/memories{ADA}", json={"items": [{"text": "launch code", "wrong": 1}]}
    )
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith("httpx")]
    assert not any("launch" in line for line in ours)


async def test_every_scope_of_a_search_must_be_the_callers(memories: Memories, clock: Clock):
    """A search of scopes of which one is not the caller's is answered with nothing but 404."""
    own, shop, team = (
        Scope("acme", *names) for names in (("ada", "demo"), ("ada", "shop"), ("team", "demo"))
    )
    foreign = {"tenant": "rival", "user": "ada", "app": "demo"}
    for number, scope in enumerate((own, shop, team, Scope(**foreign))):
        await memories.add(scope, [f"the secret of box {number}"])
    user = await token(memories, clock, "ada", tenant="acme")
    tenant = await token(memories, clock, tenant="acme")
    named = [{"user": scope.user, "app": scope.app} for scope in (own, shop, team)]
    agent = {"x-agent-name": "demo", "x-tenant-id": "acme"}
    cases: list[tuple[dict[str, str], list[dict[str, Any]], int | set[Scope]]] = [
        (user, [{"user": "ada"}], {own, shop}),
        (tenant, named, {own, shop, team}),
        (tenant, [{}], {own, shop, team}),
        (tenant, [{"app": "demo"}], {own, team}),
        (user, [named[0], named[2]], 404),
        (user, [{}], 404),
        (user, [{"app": "demo"}], 404),
        (tenant, [named[0], foreign], 404),
        (tenant, [{"tenant": "acme%"}], 404),
        (tenant, [], 400),
        (tenant, [{"user": "ada", "role": "x"}], 400),
        (tenant, [{}] * 101, 400),
        ({}, named[:1], 401),
        (agent, [{"app": "demo"}], {own, team}),
        (agent, [{"user": "ada"}], 404),
    ]
    proxied = Access(required=True, trusted_proxy=True)
    async with client_of(memories, clock, proxied) as client:
        for headers, scopes, expected in cases:
            body = {"query": "secret", "scope": scopes}
            answer = await client.post("/api/v1/memories/search", json=body, headers=headers)
            if isinstance(expected, int):
                assert answer.status_code == expected, scopes
                assert "secret" not in answer.text
            else:
                assert {Scope(**hit["scope"]) for hit in answer.json()["hits"]} == expected
        for path in ("/api/v1/receipts", "/api/v1/receipts/check"):  # they are of the whole tenant
            for headers in (agent, user):
                assert (await client.get(path, headers=headers)).status_code == 404
