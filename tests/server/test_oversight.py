"""The pages of quarantine, receipts and forgetting by conditions: what they show, do, and refuse."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from kagent_memory import Fact, Filter
from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.server.auth import Access
from kagent_memory.server.policies import MOST_LISTED, PARTS, REASONS, in_words
from kagent_memory.settings import MemorySettings

from .ground import Clock, client_of
from .test_pages import sent

SCOPE = Scope("", "ada", "demo")
HERE = "app=demo&user=ada"
EVIL = "<script>alert(1)</script> Xylophone"


@pytest.fixture
async def memories(clock: Clock):
    async with await Memories.open("libsql:///:memory:", clock=clock, worker=False, quarantine=["tool"]) as opened:
        yield opened


async def test_what_waits_is_confirmed_or_rejected_on_the_page(client: httpx.AsyncClient, memories: Memories):
    assert "Nothing waits" in (await client.get(f"/quarantine?{HERE}")).text
    first, second = await memories.add(SCOPE, [Fact(EVIL, origin="tool"), Fact("Two", origin="tool")])
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


async def test_memories_are_forgotten_by_conditions_after_a_look(client: httpx.AsyncClient, memories: Memories):
    await memories.add(SCOPE, [Fact("One", tags=("x",)), Fact("Two", tags=("x", EVIL)), "Three"])
    assert "Look" in (await client.get(f"/forget?{HERE}")).text
    text = (await sent(client, f"/forget/look?{HERE}", tag="x")).text
    assert "2 memories would go" in text
    assert (await memories.stats(SCOPE)).visible == 3
    assert "1 memory would go" in (await sent(client, f"/forget/look?{HERE}", tag=EVIL)).text
    assert "No memory meets" in (await sent(client, f"/forget/look?{HERE}", tag="x", before="2020-01-01")).text
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', text.partition("would go")[2]))
    assert (
        await sent(client, f"/forget?{HERE}", **{**hidden, "csrf": client.cookies["kagent_memory_csrf"]})
    ).status_code == 303
    assert [one.content for one in (await memories.list(SCOPE)).memories] == ["Three"]
    receipts = (await client.get(f"/receipts?{HERE}")).text
    assert "checked just now: whole" in receipts
    assert "page" in receipts


@pytest.mark.parametrize(
    "fields",
    [{}, {"before": "soon"}, {"after": "9999999-01-01"}, {"tag": "\0"}, {"after": "0001-01-01T00:00+14:00"}],
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
    for other in (Scope("acme", "ada", "demo"), Scope("", "ada", "other"), Scope("", "eve", "demo")):
        await memories.add(other, ["Theirs"])
    assert f'href="/export?{HERE.replace("&", "&amp;")}' in (await client.get(f"/memories?{HERE}")).text
    answer = await client.get(f"/export?{HERE}")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "Theirs" not in answer.text
    path = tmp_path / "memories.jsonl"
    path.write_bytes(answer.content)
    async with await Memories.open("libsql:///:memory:", clock=clock, worker=False, embedding=None) as second:
        assert (await second.import_(path)).added == 2
        stats = await second.stats(SCOPE)
        assert (stats.visible, stats.quarantined) == (1, 1)


async def test_broken_receipts_are_told(client: httpx.AsyncClient, memories: Memories, clock: Clock):
    await memories.store.add_receipt(SCOPE, "forget", ["01a20526-5a7b-7b4e-aa68-863bb7cf2dd3"], who=EVIL, now=clock())
    text = (await client.get(f"/receipts?{HERE}")).text
    assert "whole" in text
    assert "<script>alert" not in text
    store: Any = memories.store
    await store._database.write(_spoil)
    assert 'role="alert"' in (await client.get(f"/receipts?{HERE}")).text


async def _spoil(session: Any) -> None:
    session.connection.run("UPDATE receipt SET memories = 7", {})


@pytest.mark.parametrize(
    "path", ["/forget", "/forget/look", "/quarantine/{id}/confirm", "/quarantine/{id}/reject", "/policies/look"]
)
async def test_another_sites_form_does_nothing(client: httpx.AsyncClient, memories: Memories, path: str):
    [id] = await memories.add(SCOPE, [Fact("One", origin="tool", tags=("x",))])
    await client.get("/")
    answer = await client.post(f"{path.format(id=id)}?{HERE}", data={"csrf": "guessed", "tag": "x"})
    assert answer.status_code == 400
    assert "would go" not in answer.text
    assert len((await memories.list(SCOPE, filter=Filter(superseded="quarantined"))).memories) == 1


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


async def test_the_search_answers_as_of_a_time(client: httpx.AsyncClient, memories: Memories, clock: Clock):
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
    for wrong in ("<script>alert(1)</script>", "2999-01-01", "0001-01-01T00:00+14:00"):
        answer = await client.get("/memories", params={**asked, "as_of": wrong})
        assert answer.status_code == 400
        assert "<script>" not in answer.text


async def test_a_search_reads_several_scopes_and_shows_whose_each_hit_is(client: httpx.AsyncClient, memories: Memories):
    team, other = Scope("", "team <i>", "demo"), Scope("", "ada", "desk")
    for scope, text in ((SCOPE, "Oolong here."), (team, "Oolong of the team."), (other, "Oolong at the desk.")):
        await memories.add(scope, [text])
    await memories.add(Scope("else", "ada", "demo"), ["Oolong elsewhere."])
    asked = {"app": "demo", "user": "ada", "q": "oolong"}

    async def found(**more: str) -> set[str]:
        answer = await client.get("/memories", params={**asked, **more})
        assert answer.status_code == 200
        assert "elsewhere" not in answer.text
        assert "<i>" not in answer.text
        return set(re.findall(r"Oolong [\w ]+\.", answer.text))

    here, shared, desk = "Oolong here.", "Oolong of the team.", "Oolong at the desk."
    assert await found() == await found(width="nonsense") == {here}
    assert await found(also="team <i>") == {here, shared}
    assert await found(width="user") == {here, desk}
    assert await found(width="user", also="team <i>") == {here, desk, shared}
    assert await found(width="app") == {here, shared}
    shown = html.unescape((await client.get("/memories", params={**asked, "also": "team <i>"})).text)
    assert "<bdi>team <i></bdi>, <bdi>demo</bdi>" in shown
    [link] = re.findall(r'class="text"[^>]*href="([^"]+)">Oolong of', shown)
    assert "Oolong of the team." in (await client.get(link)).text
    for wrong in ("x" * 2000, "\0"):
        assert (await client.get("/memories", params={**asked, "also": wrong})).status_code == 400


async def test_a_search_of_several_scopes_is_bound_as_its_caller_is(memories: Memories, clock: Clock):
    for user in ("ada", "ben"):
        await memories.add(Scope("", user, "demo"), [f"Oolong of {user}."])
    secret, _ = await memories.tokens.create(tenant="", user="ada")
    async with client_of(memories, clock, Access(required=True)) as client:
        client.headers["authorization"] = f"Bearer {secret}"
        asked = {"app": "demo", "user": "ada", "q": "oolong"}
        assert "Oolong of ada." in (await client.get("/memories", params={**asked, "width": "user"})).text
        for more in ({"also": "ben"}, {"width": "app"}):
            answer = await client.get("/memories", params={**asked, **more})
            assert answer.status_code == 404
            assert "Oolong" not in answer.text


# -- how memories age --

WORDS = re.compile(
    r'<td data-label="In effect" class="name"><span><bdi>(.*?)</bdi>(?: <span class="hint">(.*?)</span>)?</span></td>'
    r'\s*<td data-label="Setting"><code>(.*?)</code>'
)


async def in_effect(client: httpx.AsyncClient, address: str = "/policies") -> dict[str, tuple[str, str]]:
    """By setting, what the page says of it: what is in effect, and what else would be."""
    text = (await client.get(address)).text
    assert "<script" not in text
    return {name: (html.unescape(words), html.unescape(usual)) for words, usual, name in WORDS.findall(text)}


async def test_the_page_says_how_memories_age(client: httpx.AsyncClient):
    for address in ("/policies", f"/policies?{HERE}"):
        said = await in_effect(client, address)
        assert list(said) == [part.setting for part in PARTS]
        assert said["ttl_days"] == ("15 days", "")
        assert said["half_life_days"] == ("nothing fades", "")
        assert said["quarantine"] == (
            "new memories of these origins wait to be confirmed: tool",
            "default: nothing waits",
        )
        assert 'href="/policies' in (await client.get(address.replace("policies", "jobs"))).text


async def test_what_is_set_beside_a_policy_is_told_apart_from_it(clock: Clock):
    options: Any = {"ttl_days": 1, "max_memories": 0, "importance_boost": 0.25, "prune_every_hours": 1.5}
    options |= {"ttl_days_by_type": {"episodic": 1, "procedural": 0}, "ttl_days_by_tag": {EVIL: 3650}}
    opened = await Memories.open("libsql:///:memory:", clock=clock, worker=False, policy="tiers", **options)
    async with opened as memories, client_of(memories, clock) as client:
        said = await in_effect(client)
        text = (await client.get("/policies")).text
    assert "<strong>tiers</strong>" in text
    assert "This server does not prune by itself" in text
    assert said["ttl_days"] == ("1 day", "default: 90 days")
    assert said["ttl_days_by_type"][0] == "episodic: 1 day; procedural: for ever"
    assert said["ttl_days_by_tag"][0] == f"{EVIL}: 3,650 days"
    assert said["max_memories"] == (
        "no bound",
        "default: 10,000 of one agent and user; of more, the least important go",
    )
    assert said["importance_boost"][0] == "boosts with a weight of 0.25"
    assert said["prune_every_hours"] == ("every 1.5 hours", "default: every 168 hours")
    assert said["short_term_hours"] == ("24 hours, in their session only", "")
    assert said["unimportant_after_days"][1] == ""


def test_every_part_of_every_policy_has_words():
    for policy in ("kagent", "archive", "tiers"):
        settings = MemorySettings(policy=policy)
        for part in PARTS:
            assert not set("{}[]'") & set(in_words(part, getattr(settings, part.setting))), (policy, part)
    one = {part.setting: in_words(part, 1) for part in PARTS if part.setting != "quarantine"}
    assert one["popular_after"].endswith("delivered 1 time or more")
    assert one["half_life_days"].startswith("importance is halved every 1 day without")


def listed(text: str) -> dict[str, str]:
    """The memories that the page says would go, each with its reason."""
    rows = re.findall(r'class="main">(.*?)</td>\s*<td data-label="Reason">(.*?)</td>', text)
    ids = [re.findall(r"<code>(.*?)</code>", cell) for cell, _ in rows]
    return {id: reason for [id], (_, reason) in zip(ids, rows, strict=True)}


async def test_a_look_lists_what_a_prune_would_erase_with_its_reasons(clock: Clock):
    theirs = Scope("acme & sons", "<b>eve</b>", "démo?&")
    options: Any = {"policy": "tiers", "max_memories": 1, "ttl_days": 0}
    opened = await Memories.open("libsql:///:memory:", clock=clock, worker=False, **options)
    async with opened as memories, client_of(memories, clock) as client:
        assert "Nothing would go." in (await sent(client, "/policies/look")).text
        [gossip] = await memories.add(theirs, [Fact(f"Bob has a new hat {EVIL}", importance=0.1)])
        [brief] = await memories.add(SCOPE, [Fact("Coffee is out", ttl_days=2)])
        clock.forward(days=40)
        first, second = await memories.add(SCOPE, ["Ada lives in Oslo", "Bo plays the cello"])
        answer = await sent(client, f"/policies/look?{HERE}")
        found = listed(answer.text)
        assert found.pop(gossip) == REASONS["faded"]
        assert found.pop(brief) == REASONS["expired"]
        [(evicted, reason)] = found.items()
        assert evicted in (first, second)
        assert reason == REASONS["capacity"]
        assert "3 memories would go: 1 expired, 1 faded, 0 unimportant, 1 for capacity." in answer.text
        assert "Xylophone" not in answer.text
        assert "<b>eve" not in answer.text
        links = [html.unescape(link) for link in re.findall(r'href="(/memories/[^"]*)"', answer.text)]
        assert len(links) == 2  # what has expired cannot be opened
        for link in links:
            assert (await client.get(link)).status_code == 200
        assert len((await memories.list(SCOPE)).memories) == 2  # a look erases nothing
        would = await memories.prune()
        assert {one.memory_id for one in would.gone} == {gossip, brief, evicted}


async def test_what_expired_popular_is_said_to_live_on(client: httpx.AsyncClient, memories: Memories, clock: Clock):
    [id] = await memories.add(SCOPE, [Fact("One", ttl_days=1)])
    for _ in range(memories.settings.popular_after):
        await memories.store.deliver(SCOPE, retrieved=[id], delivered=[id], now=clock())
    clock.forward(days=2)
    text = (await sent(client, "/policies/look")).text
    assert "Nothing would go." in text
    assert "1 expired, but popular, would live on." in text


async def test_a_long_list_is_cut_and_its_counts_are_whole(client: httpx.AsyncClient, memories: Memories, clock: Clock):
    await memories.add(SCOPE, [Fact(f"Number {number}", ttl_days=1) for number in range(MOST_LISTED + 1)])
    clock.forward(days=2)
    text = (await sent(client, "/policies/look")).text
    assert f"{MOST_LISTED + 1} memories would go: {MOST_LISTED + 1} expired" in text
    assert f"The first {MOST_LISTED} are listed." in text
    assert len(listed(text)) == MOST_LISTED


async def test_what_would_go_is_shown_to_those_who_may_prune(memories: Memories, clock: Clock):
    await memories.add(SCOPE, [Fact("One", ttl_days=1)])
    clock.forward(days=2)
    bound = [await memories.tokens.create(tenant="", user="ada"), await memories.tokens.create(tenant="")]
    operator, _ = await memories.tokens.create(is_operator=True)
    async with client_of(memories, clock, Access(required=True)) as client:
        assert (await client.get("/policies")).status_code in (303, 401)
        for secret, _ in bound:
            client.headers["authorization"] = f"Bearer {secret}"
            assert "What would a prune erase?" not in (await client.get(f"/policies?{HERE}")).text
            assert (await client.get("/policies")).status_code == 200
            answer = await sent(client, "/policies/look")
            assert answer.status_code == 404
            assert "would go" not in answer.text
        assert (await client.get("/policies?app=demo&user=ada&tenant=acme")).status_code == 404
        client.headers["authorization"] = f"Bearer {operator}"
        assert "What would a prune erase?" in (await client.get("/policies")).text
        assert "1 memory would go: 1 expired" in (await sent(client, "/policies/look")).text
