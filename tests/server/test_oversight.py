"""The pages of quarantine, receipts and forgetting by conditions: what they show, do, and
refuse.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

import httpx
import pytest

from kagent_memory import Fact
from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.server.auth import Access

from .ground import Clock, client_of
from .test_pages import sent

SCOPE = Scope("", "ada", "demo")
HERE = "app=demo&user=ada"
EVIL = "<script>alert(1)</script> Xylophone"


@pytest.fixture
async def memories(clock: Clock):
    async with await Memories.open(
        "libsql:///:memory:", clock=clock, worker=False, quarantine=["tool"]
    ) as opened:
        yield opened


async def test_what_waits_is_confirmed_or_rejected_on_the_page(
    client: httpx.AsyncClient, memories: Memories
):
    assert "Nothing waits" in (await client.get(f"/quarantine?{HERE}")).text
    first, second = await memories.add(
        SCOPE, [Fact(EVIL, origin="tool"), Fact("Two", origin="tool")]
    )
    text = (await client.get(f"/quarantine?{HERE}")).text
    assert "2 wait." in text
    assert "&lt;script&gt;" in text
    assert "<script>alert" not in text
    assert "Xylophone" not in (await client.get(f"/memories?{HERE}")).text
    assert (await sent(client, f"/quarantine/{first}/confirm?{HERE}")).status_code == 303
    assert (await sent(client, f"/quarantine/{second}/reject?{HERE}")).status_code == 303
    assert [one.id for one in (await memories.list(SCOPE)).memories] == [first]
    assert [one.who for one in await memories.history(SCOPE, first)] == ["page"]
    assert [one.memories for one in await memories.receipts()] == [1]
    for id in (second, "nonsense"):
        for verb in ("confirm", "reject"):
            assert (await sent(client, f"/quarantine/{id}/{verb}?{HERE}")).status_code == 404


async def test_memories_are_forgotten_by_conditions_after_a_look(
    client: httpx.AsyncClient, memories: Memories
):
    await memories.add(SCOPE, [Fact("One", tags=("x",)), Fact("Two", tags=("x", EVIL)), "Three"])
    assert "Look" in (await client.get(f"/forget?{HERE}")).text
    text = (await sent(client, f"/forget/look?{HERE}", tag="x")).text
    assert "2 memories would go" in text
    assert (await memories.stats(SCOPE)).visible == 3
    assert "1 memory would go" in (await sent(client, f"/forget/look?{HERE}", tag=EVIL)).text
    hidden = dict(
        re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', text.partition("would go")[2])
    )
    assert (
        await sent(
            client, f"/forget?{HERE}", **{**hidden, "csrf": client.cookies["kagent_memory_csrf"]}
        )
    ).status_code == 303
    assert [one.content for one in (await memories.list(SCOPE)).memories] == ["Three"]
    receipts = (await client.get(f"/receipts?{HERE}")).text
    assert "checked just now: whole" in receipts
    assert "page" in receipts


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"before": "soon"},
        {"after": "9999999-01-01"},
        {"tag": "\0"},
    ],
    ids=repr,
)
async def test_conditions_that_do_not_fit_are_told_and_nothing_goes(
    client: httpx.AsyncClient, memories: Memories, fields: dict[str, str]
):
    await memories.add(SCOPE, ["One"])
    for path in ("/forget/look", "/forget"):
        answer = await sent(client, f"{path}?{HERE}", **fields)
        assert answer.status_code == 400
        assert 'role="alert"' in answer.text
    assert (await memories.stats(SCOPE)).visible == 1


async def test_an_export_is_downloaded_and_holds_this_scope_alone(
    client: httpx.AsyncClient, memories: Memories, clock: Clock, tmp_path: Path
):
    await memories.add(SCOPE, [EVIL, Fact("Two", origin="tool")])
    for other in (
        Scope("acme", "ada", "demo"),
        Scope("", "ada", "other"),
        Scope("", "eve", "demo"),
    ):
        await memories.add(other, ["Theirs"])
    assert (
        f'href="/export?{HERE.replace("&", "&amp;")}'
        in (await client.get(f"/memories?{HERE}")).text
    )
    answer = await client.get(f"/export?{HERE}")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "Theirs" not in answer.text
    path = tmp_path / "memories.jsonl"
    path.write_bytes(answer.content)
    async with await Memories.open(
        "libsql:///:memory:", clock=clock, worker=False, embedding=None
    ) as second:
        assert (await second.import_(path)).added == 2
        stats = await second.stats(SCOPE)
        assert (stats.visible, stats.quarantined) == (1, 1)


async def test_pages_are_the_callers_own(memories: Memories, clock: Clock):
    [id] = await memories.add(SCOPE, [Fact("One", origin="tool", tags=("x",))])
    own, _ = await memories.tokens.create(tenant="", user="ada")
    theirs, _ = await memories.tokens.create(tenant="", user="eve")
    async with client_of(memories, clock, Access(required=True)) as client:
        for secret, status in ((theirs, 404), (own, 200)):
            client.headers["authorization"] = f"Bearer {secret}"
            assert (await client.get(f"/quarantine?{HERE}")).status_code == status
            assert (await client.get(f"/forget?{HERE}")).status_code == status
            assert (await client.get(f"/export?{HERE}")).status_code == status
            assert (await client.get(f"/receipts?{HERE}")).status_code == 404  # of the whole tenant
        client.headers["authorization"] = f"Bearer {theirs}"
        assert (await sent(client, f"/quarantine/{id}/confirm?{HERE}")).status_code == 404
        assert (await sent(client, f"/forget?{HERE}", tag="x")).status_code == 404
    assert (await memories.stats(SCOPE)).quarantined == 1


async def test_the_search_answers_as_of_a_time(
    client: httpx.AsyncClient, memories: Memories, clock: Clock
):
    [id] = await memories.add(Scope("", "ada", "demo"), ["Ada's favourite tea is oolong."])
    clock.forward(days=1)
    await memories.edit(Scope("", "ada", "demo"), id, content="Ada's favourite tea is sencha.")
    clock.forward(days=1)
    asked = {"app": "demo", "user": "ada", "q": "favourite tea"}
    assert "sencha" in (await client.get("/memories", params=asked)).text
    shown = (await client.get("/memories", params={**asked, "as_of": "2026-03-01T18:00"})).text
    assert "oolong" in shown
    assert "sencha" not in shown
    assert "As of" in shown
    for wrong in ("<script>alert(1)</script>", "2999-01-01"):
        answer = await client.get("/memories", params={**asked, "as_of": wrong})
        assert answer.status_code == 400
        assert "<script>" not in answer.text


async def test_a_search_of_scopes_shows_whose_each_hit_is(
    client: httpx.AsyncClient, memories: Memories
):
    team, other = Scope("", "team <i>", "demo"), Scope("", "ada", "desk")
    for scope, text in (
        (SCOPE, "Oolong here."),
        (team, "Oolong of the team."),
        (other, "Oolong at the desk."),
    ):
        await memories.add(scope, [text])
    await memories.add(Scope("else", "ada", "demo"), ["Oolong elsewhere."])
    asked = {"app": "demo", "user": "ada", "q": "oolong"}

    async def found(**more: str) -> set[str]:
        answer = await client.get("/memories", params={**asked, **more})
        assert answer.status_code == 200
        assert "elsewhere" not in answer.text
        assert "<i>" not in answer.text
        return set(re.findall(r"Oolong [\w ]+\.", re.sub("</?mark>", "", answer.text)))

    here, shared, desk = "Oolong here.", "Oolong of the team.", "Oolong at the desk."
    assert await found() == await found(width="nonsense") == {here}
    assert await found(width="user", also="team <i>") == {here, desk, shared}
    assert await found(width="app") == {here, shared}
    shown = html.unescape(
        (await client.get("/memories", params={**asked, "also": "team <i>"})).text
    )
    assert "<bdi>team <i></bdi>, <bdi>demo</bdi>" in shown
    [link] = re.findall(r'class="text"[^>]*href="([^"]+)"><mark>Oolong</mark> of', shown)
    assert "Oolong of the team." in (await client.get(link)).text
    for wrong in ("x" * 2000, "\0"):
        assert (await client.get("/memories", params={**asked, "also": wrong})).status_code == 400
