"""Pages as HTTP answers: what a form may hold, and what is shown when there is much."""

from __future__ import annotations

import html
import re
from urllib.parse import parse_qsl

import httpx
import pytest

from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Scope
from kagent_memory.server.jobs import SHOWN
from kagent_memory.settings import MemorySettings
from kagent_memory.testing.fixtures import a_job

from .ground import Clock, client_of, dead_letter

SCOPE = Scope("", "ada", "demo")


async def sent(client: httpx.AsyncClient, path: str, **fields: str) -> httpx.Response:
    await client.get("/")
    return await client.post(path, data={"csrf": client.cookies["kagent_memory_csrf"], **fields})


async def test_the_history_says_what_each_change_replaced(
    client: httpx.AsyncClient, memories: Memories
):
    [id] = await memories.add(SCOPE, [Fact("Ada likes tea", topics=("tea",))])
    assert (
        "Nothing has changed since" in (await client.get(f"/memories/{id}?app=demo&user=ada")).text
    )
    await memories.edit(SCOPE, id, topics=["drinks", "tea"])
    await memories.edit(SCOPE, id, content="Ada likes green tea", importance=0.9)
    await memories.pin(SCOPE, id)
    text = (await client.get(f"/memories/{id}?app=demo&user=ada")).text.partition(
        '<ol class="history">'
    )[2]
    shown = re.findall(r"<dt>(.*?)</dt><dd[^>]*>(.*?)</dd>", text)
    assert shown == [
        ("pinned", "no"),
        ("content", "Ada likes tea"),
        ("importance", "0.5"),
        ("topics", "tea"),
    ]


async def test_what_never_expires_and_what_failed_is_marked(
    client: httpx.AsyncClient, memories: Memories
):
    await memories.add(SCOPE, [Fact("The API answered 503", ttl_days=0, is_error=True)])
    text = (await client.get("/memories?app=demo&user=ada")).text
    assert "about a failure" in text
    assert re.search(r'data-label="Gone"[^>]*>\s*never\s*<', text)


async def test_a_long_queue_does_not_hide_dead_letters(
    client: httpx.AsyncClient, memories: Memories, clock: Clock
):
    await dead_letter(memories, SCOPE, clock())
    clock.forward(seconds=-60)
    waiting = [a_job(SCOPE, now=clock(), session_id=f"queued-{n}") for n in range(SHOWN + 1)]
    await memories.store.enqueue(waiting)
    text = (await client.get("/jobs")).text
    assert text.index("it failed") < text.index("queued-0")
    assert "Only the first" in text


LINK = re.compile(r'(?:href|action)="(/[^"]*[?][^"]*)"')


async def test_links_and_forms_stay_in_the_empty_tenant(clock: Clock):
    acme = Scope("acme", "ada", "demo")
    settings = MemorySettings(tenant="acme")
    async with await Memories.open(
        "libsql:///:memory:", settings=settings, clock=clock, worker=False
    ) as memories:
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
            assert (
                'name="tenant" value=""'
                in (await client.get("/memories?app=demo&user=ada&tenant=")).text
            )
            answer = await sent(client, "/memories/delete-all?app=demo&user=ada&tenant=")
            assert answer.status_code == 303
            assert "tenant=" in answer.headers["location"]
        assert [one.content for one in (await memories.list(acme)).memories] == [
            "Acme's own secret"
        ]
        assert not (await memories.list(SCOPE)).memories


async def test_what_is_about_to_be_deleted_is_named_with_its_tenant(client: httpx.AsyncClient):
    text = (await client.get("/memories/delete-all?app=demo&user=ada&tenant=acme")).text
    assert "in the tenant <bdi>acme</bdi>" in text
    assert "<bdi>demo</bdi> about <bdi>ada</bdi>" in text


# -- looking through many memories --

ADA = "app=demo&user=ada&tenant="


def contents(text: str) -> list[str]:
    return [
        html.unescape(found)
        for found in re.findall(r'<a class="text"[^>]*>(.*?)</a>', text, re.DOTALL)
    ]


def link_named(text: str, name: str) -> str:
    [found] = re.findall(rf'<a [^>]*href="([^"]*)"[^>]*>{name}</a>', text)
    return html.unescape(found)


async def test_pages_tell_their_total_and_lead_forward_and_back(
    client: httpx.AsyncClient, memories: Memories, clock: Clock
):
    for number in range(60):
        clock.forward(seconds=1)
        await memories.add(
            SCOPE, [Fact(f"fact {number:02}", tags=("even",) if number % 2 == 0 else ())]
        )
    wanted = [f"fact {number:02}" for number in range(59, -1, -1)]
    text = (await client.get(f"/memories?{ADA}")).text
    assert "1 to 25 of 60" in text
    assert "Previous page" not in text
    assert contents(text) == wanted[:25]
    for link, total, shown in (
        ("Next page", "26 to 50 of 60", wanted[25:50]),
        ("Next page", "51 to 60 of 60", wanted[50:]),
        ("Previous page", "26 to 50 of 60", wanted[25:50]),
        ("Previous page", "1 to 25 of 60", wanted[:25]),
    ):
        text = (await client.get(link_named(text, link))).text
        assert (total in text, contents(text)) == (True, shown)
        assert ("Next page" in text) is (shown != wanted[50:])
    filtered = (await client.get(f"/memories?{ADA}&tag=even&order=oldest")).text
    assert "1 to 25 of 30" in filtered
    beyond = (await client.get(link_named(filtered, "Next page"))).text
    assert contents(beyond) == [f"fact {number:02}" for number in range(50, 60, 2)]
    assert contents((await client.get(link_named(beyond, "Previous page"))).text) == contents(
        filtered
    )


async def test_replaced_memories_are_reached_from_the_list(
    client: httpx.AsyncClient, memories: Memories
):
    [old] = await memories.add(SCOPE, ["Ada likes tea"])
    text = (await client.get(f"/memories?{ADA}")).text
    assert "replaced</a>" not in text
    await memories.add(SCOPE, ["Ada likes coffee"], replaces=old)
    text = (await client.get(f"/memories?{ADA}")).text
    assert contents(text) == ["Ada likes coffee"]
    for start in (
        link_named(text, "1 replaced"),
        link_named((await client.get(f"/dashboard?{ADA}")).text, "1"),
    ):
        shown = (await client.get(start)).text
        assert ("Replaced memories" in shown, contents(shown)) == (True, ["Ada likes tea"])
        assert '<option value="replaced" selected>' in shown
    [there] = re.findall(rf'href="(/memories/{old}[^"#]*)"', shown)
    one = (await client.get(html.unescape(there))).text
    assert "the newer memory" in one
    assert (await sent(client, f"/memories/{old}/undo?{ADA}")).status_code == 303
    assert contents((await client.get(f"/memories?{ADA}")).text) == ["Ada likes tea"]


async def test_topics_and_tags_are_chosen_from_what_is_there(
    client: httpx.AsyncClient, memories: Memories
):
    label = 'a "b" <c>, & d'
    await memories.add(
        SCOPE, [Fact("one", topics=("tea", label), tags=("x",)), Fact("two", topics=("tea",))]
    )
    text = (await client.get(f"/memories?{ADA}")).text
    chosen = re.findall(r'<option value="([^"]*)"[^>]*>[^<]*\((\d+)\)</option>', text)
    assert [(html.unescape(name), count) for name, count in chosen] == [
        ("tea", "2"),
        (label, "1"),
        ("x", "1"),
    ]
    picked = await client.get("/memories", params={"app": "demo", "user": "ada", "topic": label})
    assert contents(picked.text) == ["one"]
    assert (
        f'<option value="{html.escape(label, quote=True).replace("&quot;", "&#34;")}" selected>'
        in picked.text
    )
    gone = (await client.get(f"/memories?{ADA}&tag=gone")).text
    assert '<option value="gone" selected>gone</option>' in gone
    assert "No memory fits these choices" in gone


# -- forms that fail --

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
    """What the edit form holds."""
    form = text[text.index('<h2 id="edit">') :]
    found = dict(re.findall(r'<input name="(\w+)"[^>]*? value="([^"]*)"', form))
    found["content"] = re.findall(r"<textarea[^>]*>(.*?)</textarea>", form, re.DOTALL)[
        0
    ].removeprefix("\n")
    found["type"] = re.findall(r'<option value="(\w+)" selected>', form)[0]
    return {name: html.unescape(value) for name, value in found.items()}


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"importance": "seven"}, 400, "importance: "),
        ({"importance": "7"}, 400, "between 0 and 1"),
        ({"ttl_days": "soon"}, 400, "ttl_days: "),
        ({"content": "x" * 20_000}, 400, "max_content_bytes"),
        ({"revision": "7"}, 409, "revision"),
        ({"content": "taken already"}, 409, ""),
    ],
)
async def test_a_failed_edit_keeps_what_was_typed(
    client: httpx.AsyncClient, memories: Memories, fields: dict[str, str], status: int, said: str
):
    [id, _] = await memories.add(SCOPE, ["stored", "taken already"])
    answer = await sent(
        client, f"/memories/{id}/edit?{ADA}", **{"revision": "1", **TYPED, **fields}
    )
    assert answer.status_code == status
    [wrong] = re.findall(r'role="alert">(.*?)</p>', answer.text, re.DOTALL)
    assert said in html.unescape(wrong)
    wanted = {**TYPED, **{name: value for name, value in fields.items() if name != "revision"}}
    assert {name: form_of(answer.text)[name] for name in wanted} == wanted
    assert (await memories.get(SCOPE, id)).content == "stored"
    again = await sent(client, f"/memories/{id}/edit?{ADA}", **{"revision": "1", **TYPED})
    assert again.status_code == 303
    assert (await memories.get(SCOPE, id)).content == TYPED["content"]


async def test_an_edit_of_what_is_gone_offers_the_text_as_a_new_memory(
    client: httpx.AsyncClient, memories: Memories
):
    """No form loses what was typed: neither an edit of what is gone nor a refused addition."""
    [id] = await memories.add(SCOPE, ["stored"])
    await memories.forget(SCOPE, id)
    answer = await sent(client, f"/memories/{id}/edit?{ADA}", revision="1", **TYPED)
    assert answer.status_code == 404
    assert html.escape(TYPED["content"]).replace("&quot;", "&#34;") in answer.text
    assert '<details class="panel write" open>' in answer.text
    answer = await sent(client, f"/memories/add?{ADA}", content="x" * 20_000)
    assert (answer.status_code, "max_content_bytes" in answer.text) == (400, True)
    assert "x" * 20_000 in answer.text


# -- dead letters --


async def test_all_dead_letters_of_a_scope_are_retried_at_once(
    client: httpx.AsyncClient, memories: Memories, clock: Clock
):
    other = Scope("", "bob", "demo")
    for scope in (SCOPE,) * 5 + (other,):
        await dead_letter(memories, scope, clock())
    assert (await client.get(f"/jobs?{ADA}")).text.count("Retry all dead letters") == 1
    answer = await sent(client, f"/jobs/retry-all?{ADA}")
    assert answer.status_code == 303
    assert (
        "All dead letters here are queued again."
        in (await client.get(answer.headers["location"])).text
    )
    assert [len(await memories.jobs(state="dead", scope=one)) for one in (SCOPE, other)] == [0, 1]
    assert (await client.post(f"/jobs/retry-all?{ADA}", data={})).status_code == 400
    await sent(client, "/jobs/retry-all")
    assert not await memories.jobs(state="dead")
    assert "Retry all" not in (await client.get("/jobs")).text
