"""The page over HTTP: its content, the effect of its forms, and refusals."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest

from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Scope
from kagent_memory.server.auth import Access
from kagent_memory.server.tokens import create_token
from kagent_memory.settings import MemorySettings
from kagent_memory.stores.values import Batch
from kagent_memory.testing import FrozenClock
from kagent_memory.testing.fixtures import a_memory, adding

from .doors import contents
from .ground import client_of, dead_letter

SCOPE = Scope("", "ada", "demo")
ADA = "app=demo&user=ada&tenant="
EVIL = "<script>alert(1)</script> Xylophone"


@pytest.fixture
async def memories(clock: FrozenClock):
    async with await Memories.open(
        "libsql:///:memory:", clock=clock, worker=False, quarantine=["tool"]
    ) as opened:
        yield opened


async def sent(client: httpx.AsyncClient, path: str, **fields: Any) -> httpx.Response:
    """Send a form of the page, with the secret of its cookie."""
    await client.get("/")
    return await client.post(path, data={"csrf": client.cookies["kagent_memory_csrf"], **fields})


def link_named(text: str, name: str) -> str:
    [link] = re.findall(rf'<a [^>]*href="([^"]*)"[^>]*>{name}</a>', text)
    return html.unescape(link)


# -- the list


async def test_pages_tell_their_total_and_lead_on_and_back(
    client: httpx.AsyncClient, memories: Memories, clock: FrozenClock
):
    """A page of the list shows 25 memories, with links to the next and first page that keep the
    filter.
    """
    for number in range(60):
        clock.advance(seconds=1)
        await memories.add(
            SCOPE, [Fact(f"fact {number:02}", tags=("even",) if number % 2 == 0 else ())]
        )
    expected = [f"fact {number:02}" for number in range(59, -1, -1)]
    text = (await client.get(f"/memories?{ADA}")).text
    assert ("60 memories" in text, "First page" in text) == (True, False)
    assert contents(text) == expected[:25]
    for shown in (expected[25:50], expected[50:]):
        text = (await client.get(link_named(text, "Next page"))).text
        assert contents(text) == shown
    assert "Next page" not in text
    assert contents((await client.get(link_named(text, "First page"))).text) == expected[:25]
    filtered = (await client.get(f"/memories?{ADA}&tag=even&order=oldest")).text
    assert "30 memories" in filtered
    beyond = (await client.get(link_named(filtered, "Next page"))).text
    assert contents(beyond) == [f"fact {number:02}" for number in range(50, 60, 2)]


async def test_replaced_memories_are_reached_from_the_list(
    client: httpx.AsyncClient, memories: Memories
):
    """List and dashboard link to superseded memories, which can be restored."""
    [old] = await memories.add(SCOPE, ["Ada likes tea"])
    assert "replaced</a>" not in (await client.get(f"/memories?{ADA}")).text
    await memories.add(SCOPE, ["Ada likes coffee"], replaces=old)
    text = (await client.get(f"/memories?{ADA}")).text
    assert contents(text) == ["Ada likes coffee"]
    dashboard = (await client.get(f"/dashboard?{ADA}")).text
    for start in (link_named(text, "1 replaced"), link_named(dashboard, "1")):
        shown = (await client.get(start)).text
        assert ("Replaced memories" in shown, contents(shown)) == (True, ["Ada likes tea"])
    page = (await client.get(f"/memories/{old}?{ADA}")).text
    assert "the newer memory" in page
    undone = await sent(client, f"/memories/act?{ADA}&open=1", do="undo", id=old)
    assert undone.headers["location"].startswith(f"/memories/{old}?")
    assert contents((await client.get(f"/memories?{ADA}")).text) == ["Ada likes tea"]


async def test_topics_and_tags_are_chosen_from_what_is_there(
    client: httpx.AsyncClient, memories: Memories
):
    """The filters offer the labels of the scope with their counts, and keep the selection."""
    label = 'a "b" <c>, & d'
    await memories.add(
        SCOPE, [Fact("one", topics=("tea", label), tags=("x",)), Fact("two", topics=("tea",))]
    )
    text = (await client.get(f"/memories?{ADA}")).text
    chosen = re.findall(r'<option value="([^"]*)"[^>]*>[^<]*\((\d+)\)</option>', text)
    offered = [(html.unescape(name), count) for name, count in chosen]
    assert offered == [("tea", "2"), (label, "1"), ("x", "1")]
    picked = await client.get("/memories", params={"app": "demo", "user": "ada", "topic": label})
    assert contents(picked.text) == ["one"]
    page = (await client.get(f"/memories?{ADA}&tag=gone")).text
    assert '<option value="gone" selected>gone</option>' in page
    assert "No memory fits these choices" in page


async def test_a_search_of_scopes_shows_whose_each_hit_is(
    client: httpx.AsyncClient, memories: Memories
):
    """A wider search names the scope of each hit and never leaves the tenant."""
    team, other = Scope("", "team <i>", "demo"), Scope("", "ada", "desk")
    own, shared, desk = "Oolong here.", "Oolong of the team.", "Oolong at the desk."
    for scope, text in ((SCOPE, own), (team, shared), (other, desk)):
        await memories.add(scope, [text])
    await memories.add(Scope("else", "ada", "demo"), ["Oolong elsewhere."])
    query = {"app": "demo", "user": "ada", "q": "oolong"}

    async def search(**more: str) -> set[str]:
        answer = await client.get("/memories", params={**query, **more})
        assert (answer.status_code, "<i>" in answer.text) == (200, False)
        return set(contents(answer.text))

    assert await search() == await search(width="nonsense") == {own}
    assert await search(width="user") == {own, desk}
    assert await search(width="app") == {own, shared}
    text = (await client.get("/memories", params={**query, "width": "app"})).text
    assert "<bdi>team <i></bdi>, <bdi>demo</bdi>" in html.unescape(text)
    assert re.search(r'class="text"[^>]*user=team', text)


# -- one memory


async def test_a_memory_names_what_agrees_with_it_and_what_contradicts_it(
    client: httpx.AsyncClient, memories: Memories, clock: FrozenClock
):
    """Linked memories stand below a heading of their kind."""
    [saved] = await memories.add(SCOPE, ["Ada lives in Oslo"])
    now = clock.advance(days=1)
    same, other = (
        a_memory(text, now=now, links=(saved,), valid_from=valid_from)
        for text, valid_from in (("Ada's home is Oslo", None), ("Ada lives in Lima", now))
    )
    await memories.store.apply(SCOPE, Batch(changes=adding(same, other)), now=now)
    for memory, heading in ((same, "Also said as"), (other, "Said otherwise")):
        text = (await client.get(f"/memories/{memory.id}?{ADA}")).text
        assert re.search(rf"<dt>{heading}</dt><dd><a [^>]*/memories/{saved}", text)


TYPED = {
    "content": 'typed "text" </textarea>&',
    "type": "episodic",
    "importance": "0.75",
    "ttl_days": "8",
    "topics": "a, b",
    "tags": "c",
    "why": "because <b>",
}


def form_of(text: str) -> dict[str, str]:
    """Return the values of the edit form."""
    form = text[text.index('<h2 id="edit">') :]
    values = dict(re.findall(r'<input name="(\w+)"[^>]*? value="([^"]*)"', form))
    [content] = re.findall(r"<textarea[^>]*>(.*?)</textarea>", form, re.DOTALL)
    values["content"] = content.removeprefix("\n")
    [values["type"]] = re.findall(r'<option value="(\w+)" selected>', form)
    return {name: html.unescape(value) for name, value in values.items()}


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"importance": "7"}, 400, "less than or equal to 1"),
        ({"ttl_days": "soon"}, 400, "ttl_days: "),
        ({"content": "x" * 20_000}, 400, "max_content_bytes"),
        ({"revision": "7"}, 409, "revision"),
        ({"content": "taken already"}, 409, ""),
    ],
)
async def test_a_failed_edit_keeps_what_was_typed(
    client: httpx.AsyncClient, memories: Memories, fields: dict[str, str], status: int, message: str
):
    """An invalid edit changes nothing, gives the reason, and keeps the form as typed."""
    [id, _] = await memories.add(SCOPE, ["stored", "taken already"])
    edit = {"revision": "1", **TYPED}
    answer = await sent(client, f"/memories/{id}/edit?{ADA}", **{**edit, **fields})
    assert answer.status_code == status
    [wrong] = re.findall(r'role="alert">(.*?)</p>', answer.text, re.DOTALL)
    assert message in html.unescape(wrong)
    expected = {**TYPED, **{name: value for name, value in fields.items() if name != "revision"}}
    assert {name: form_of(answer.text)[name] for name in expected} == expected
    assert (await memories.get(SCOPE, id)).content == "stored"
    assert (await sent(client, f"/memories/{id}/edit?{ADA}", **edit)).status_code == 303
    assert (await memories.get(SCOPE, id)).content == TYPED["content"]


# -- what waits for approval


async def test_what_waits_is_confirmed_or_rejected_on_the_page(
    client: httpx.AsyncClient, memories: Memories
):
    """Quarantined memories have a list of their own until they are confirmed or rejected."""
    path = f"/memories?{ADA}&show=waiting"
    first, second = await memories.add(
        SCOPE, [Fact(EVIL, origin="tool"), Fact("Two", origin="tool")]
    )
    text = (await client.get(path)).text
    assert ("2 wait." in text, EVIL in contents(text), EVIL in text) == (True, True, False)
    assert "Xylophone" not in (await client.get(f"/memories?{ADA}")).text
    assert 'value="confirm"' in (await client.get(f"/memories/{first}?{ADA}")).text
    act = f"/memories/act?{ADA}&show=waiting"
    for do, id in (("confirm", first), ("reject", second)):
        answer = await sent(client, act, do=do, id=id)
        assert "show=waiting" in answer.headers["location"]
    assert [memory.id for memory in (await memories.list(SCOPE)).memories] == [first]
    assert [revision.who for revision in await memories.history(SCOPE, first)] == ["page"]
    assert (await sent(client, act, do="confirm", id=second)).status_code == 404


# -- forgetting


async def test_memories_are_forgotten_by_conditions_after_a_look(
    client: httpx.AsyncClient, memories: Memories
):
    """A preview shows the memories that match; only the form below it deletes them."""
    await memories.add(SCOPE, [Fact("One", tags=("x",)), Fact("Two", tags=("x", EVIL)), "Three"])
    assert "Look" in (await client.get(f"/forget?{ADA}")).text
    wrong = await sent(client, f"/forget?{ADA}", do="forget", before="soon")
    assert (wrong.status_code, 'role="alert"' in wrong.text) == (400, True)
    text = (await sent(client, f"/forget?{ADA}", tag="x", after="2026-03-01")).text.partition(
        "2 memories would be erased"
    )[2]
    assert (await memories.stats(SCOPE)).visible == 3
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', text))
    response = await client.post(f"/forget?{ADA}", data={**hidden, "do": "forget"})
    assert response.status_code == 303
    assert [memory.content for memory in (await memories.list(SCOPE)).memories] == ["Three"]
    receipts = (await client.get(f"/receipts?{ADA}")).text
    assert "checked just now: whole" in receipts
    assert "page" in receipts


# -- scopes


LINK = re.compile(r'(?:href|action)="(/[^"]*[?][^"]*)"')


async def test_links_and_forms_stay_in_the_empty_tenant(clock: FrozenClock):
    """Every link and form of a page names its tenant, also the empty one."""
    acme = Scope("acme", "ada", "demo")
    settings = MemorySettings(tenant="acme")
    async with await Memories.open(
        "libsql:///:memory:", settings=settings, clock=clock, worker=False
    ) as memories:
        await memories.add(acme, ["Acme's own secret"])
        [id] = await memories.add(SCOPE, [Fact("Ada likes tea", topics=("tea",), tags=("food",))])
        async with client_of(memories, clock) as client:
            links: set[str] = set()
            queue = ["/"]
            while queue:
                text = (await client.get(queue.pop())).text
                for link in {html.unescape(link) for link in LINK.findall(text)}:
                    query = dict(parse_qsl(link.partition("?")[2], keep_blank_values=True))
                    assert "app" not in query or "tenant" in query, link
                    if query.get("tenant") == "" and link not in links:
                        links.add(link)
                        queue.append(link)
                        assert "Acme" not in (await client.get(link)).text, link
            assert any(link.startswith(f"/memories/{id}") for link in links)
            form = (await client.get(f"/memories?{ADA}")).text
            assert 'name="tenant" value=""' in form
            answer = await sent(client, f"/forget?{ADA}", everything="true", do="forget")
            assert (answer.status_code, "tenant=" in answer.headers["location"]) == (303, True)
        assert [memory.content for memory in (await memories.list(acme)).memories] == [
            "Acme's own secret"
        ]
        assert not (await memories.list(SCOPE)).memories


async def test_delete_all_asks_first_in_the_words_of_kagents_dialog(
    client: httpx.AsyncClient, memories: Memories
):
    """Delete all requires a confirmation that names the user, the agent and the tenant."""
    await memories.add(Scope("acme", "ada", "demo"), ["One"])
    text = (await client.get("/memories/delete-all?app=demo&user=ada&tenant=acme")).text
    assert "<bdi>ada</bdi> with the agent <bdi>demo</bdi> in the tenant <bdi>acme</bdi>" in text
    assert "This will remove all memories for this agent. This action cannot be undone." in text
    [action] = re.findall(r'<form[^>]*action="([^"]*forget[^"]*)"', text)
    fields = dict(re.findall(r'name="(do|everything)" value="([^"]*)"', text))
    response = await sent(client, html.unescape(action), **fields)
    assert (
        "No memories found for this agent." in (await client.get(response.headers["location"])).text
    )
    assert not await memories.scopes()


async def test_a_token_logs_in_and_out_of_a_guarded_server(memories: Memories, clock: FrozenClock):
    """A valid token opens the page to its own memories until the user logs out."""
    secret, _ = await create_token(memories, user="ada")
    await memories.add(SCOPE, ["mine"])
    async with client_of(memories, clock, Access(required=True)) as client:
        await client.get("/login")
        client.cookies["kagent_memory_csrf"] = "own"
        wrong = await client.post("/login", data={"csrf": "own", "token": "kmem_wrong"})
        assert (wrong.status_code, "is not valid" in wrong.text) == (401, True)
        opened = await client.post("/login", data={"csrf": "own", "token": secret})
        assert "httponly" in opened.headers["set-cookie"].lower()
        assert contents((await client.get(f"/memories?{ADA}")).text) == ["mine"]
        assert (await client.post("/logout", data={"csrf": "own"})).status_code == 303
        assert (await client.get("/")).headers["location"] == "/login"


# -- the queue


async def test_dead_letters_are_dropped_and_retried(
    client: httpx.AsyncClient, memories: Memories, clock: FrozenClock
):
    """A dead letter is dropped singly; those of a scope, or all, are retried together."""
    other = Scope("", "bob", "demo")
    first, *_ = [await dead_letter(memories, scope, clock()) for scope in (SCOPE,) * 5 + (other,)]
    for status in (303, 404):
        answer = await sent(client, f"/jobs?{ADA}", do="drop", id=first)
        assert answer.status_code == status
    assert (await client.get(f"/jobs?{ADA}")).text.count("Retry all dead letters") == 1
    answer = await sent(client, f"/jobs?{ADA}", do="retry-all")
    page = (await client.get(answer.headers["location"])).text
    assert "The dead letters here are queued again" in page
    assert [len(await memories.jobs(state="dead", scope=scope)) for scope in (SCOPE, other)] == [
        0,
        1,
    ]
    assert (await client.post(f"/jobs?{ADA}", data={"do": "retry-all"})).status_code == 400
    await sent(client, "/jobs", do="retry-all")
    assert not await memories.jobs(state="dead")
