"""Pages as HTTP answers: what a form may hold, and what is shown when there is much."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest

from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Scope, new_id
from kagent_memory.server.jobs import SHOWN
from kagent_memory.server.plots import nice_top
from kagent_memory.settings import MemorySettings
from kagent_memory.stores.base import Job

from .ground import Clock, client_of

SCOPE = Scope("", "ada", "demo")


async def sent(client: httpx.AsyncClient, path: str, **fields: str) -> httpx.Response:
    await client.get("/")
    return await client.post(path, data={"csrf": client.cookies["kagent_memory_csrf"], **fields})


@pytest.mark.parametrize("uri", ["http://[", "postgresql://[::1", "", "ftp://host", "memory.db"])
async def test_a_store_that_has_no_address_is_told_so_in_the_form(client: httpx.AsyncClient, uri: str):
    answer = await sent(client, "/connect", app="demo", uri=uri, ttl_days="15")
    assert answer.status_code == 400
    assert "address must start with" in answer.text


async def test_the_history_says_what_each_change_replaced(client: httpx.AsyncClient, memories: Memories):
    [id] = await memories.add(SCOPE, [Fact("Ada likes tea", topics=("tea",))])
    assert "Nothing has changed since" in (await client.get(f"/memories/{id}?app=demo&user=ada")).text
    await memories.edit(SCOPE, id, topics=["drinks", "tea"])
    await memories.edit(SCOPE, id, content="Ada likes green tea", importance=0.9)
    await memories.pin(SCOPE, id)
    text = (await client.get(f"/memories/{id}?app=demo&user=ada")).text.partition('<ol class="history">')[2]
    shown = re.findall(r"<dt>(.*?)</dt><dd[^>]*>(.*?)</dd>", text)
    assert shown == [("pinned", "no"), ("content", "Ada likes tea"), ("importance", "0.5"), ("topics", "tea")]


async def test_what_never_expires_and_what_failed_is_marked(client: httpx.AsyncClient, memories: Memories):
    await memories.add(SCOPE, [Fact("The API answered 503", ttl_days=0, is_error=True)])
    text = (await client.get("/memories?app=demo&user=ada")).text
    assert "about a failure" in text
    assert re.search(r'data-label="Expires"[^>]*>\s*never\s*<', text)


@pytest.mark.parametrize(("value", "top"), [(0, 4), (5, 6), (11, 20), (58, 60), (61, 80), (801, 1000), (1000, 1000)])
def test_a_scale_holds_its_values_and_its_middle_is_whole(value: int, top: int):
    assert nice_top(value) == top
    assert top % 2 == 0


async def test_a_long_queue_does_not_hide_dead_letters(client: httpx.AsyncClient, memories: Memories, clock: Clock):
    def job(session: str) -> Job:
        now = clock()
        return Job(id=new_id(now), scope=SCOPE, kind="transcript", session_id=session, run_after=now, created_at=now)

    await memories.store.enqueue([job("late")])
    claimed: Any = await memories.store.claim("tests", now=clock(), lease_seconds=5)
    clock.forward(seconds=-60)
    await memories.store.release(claimed, run_after=clock(), error="it failed", dead=True)
    await memories.store.enqueue([job(f"queued-{number}") for number in range(SHOWN + 1)])
    text = (await client.get("/jobs")).text
    assert text.index("it failed") < text.index("queued-0")
    assert "Only the first" in text


LINK = re.compile(r'(?:href|action)="(/[^"]*[?][^"]*)"')


async def test_links_and_forms_stay_in_the_empty_tenant_of_a_server_that_has_another(clock: Clock):
    acme = Scope("acme", "ada", "demo")
    settings = MemorySettings(tenant="acme")
    async with await Memories.open("libsql:///:memory:", settings=settings, clock=clock, worker=False) as memories:
        await memories.add(acme, ["Acme's own secret"])
        [id] = await memories.add(SCOPE, [Fact("Ada likes tea", topics=("tea",), tags=("food",))])
        async with client_of(memories, clock) as client:
            seen: set[str] = set()
            waiting = ["/"]
            while waiting:
                text = (await client.get(waiting.pop())).text
                for link in {html.unescape(link) for link in LINK.findall(text)}:
                    query = dict(parse_qsl(link.partition("?")[2], keep_blank_values=True))
                    if "app" in query:
                        assert "tenant" in query, link
                    if query.get("tenant") == "" and link not in seen and "confirm" not in link:
                        seen.add(link)
                        waiting.append(link)
                        answer = await client.get(link)
                        assert "Acme" not in answer.text, link
            assert any(link.startswith(f"/memories/{id}") for link in seen)
            assert 'name="tenant" value=""' in (await client.get("/memories?app=demo&user=ada&tenant=")).text
            answer = await sent(client, "/memories/delete-all?app=demo&user=ada&tenant=")
            assert answer.status_code == 303
            assert "tenant=" in answer.headers["location"]
        assert [one.content for one in (await memories.list(acme)).memories] == ["Acme's own secret"]
        assert not (await memories.list(SCOPE)).memories


async def test_what_is_about_to_be_deleted_is_named_with_its_tenant(client: httpx.AsyncClient):
    text = (await client.get("/memories/delete-all?app=demo&user=ada&tenant=acme")).text
    assert "in the tenant <bdi>acme</bdi>" in text
    assert "<bdi>demo</bdi> about <bdi>ada</bdi>" in text


@pytest.mark.parametrize("path", ["/static/icon.svg", "/favicon.ico"])
async def test_the_page_has_an_icon(client: httpx.AsyncClient, path: str):
    answer = await client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")
