"""The verbs through a server: the same arguments, answers and errors; and a KagentMemoryService on
top.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import numpy as np
import pytest

from kagent_memory.errors import ConfigurationError, Conflict, InvalidInput, NotFound, StoreError
from kagent_memory.memories import Memories
from kagent_memory.memories.audit import DEFECTS
from kagent_memory.records import Fact, Filter, Message, Scope
from kagent_memory.remote import RemoteMemories, open_memories
from kagent_memory.server.app import create_app
from kagent_memory.server.auth import Access
from kagent_memory.server.tokens import create_token
from kagent_memory.settings import MemorySettings

from .ground import axis, in_memory, served

SCOPE = Scope("", "ada", "demo/with ünïcode")


@pytest.fixture
def address() -> Iterator[str]:
    with served(in_memory) as base:
        yield base


@pytest.fixture
async def remote(memories: Memories) -> AsyncIterator[RemoteMemories]:
    transport = httpx.ASGITransport(create_app(memories))
    async with await RemoteMemories.open("http://localhost", transport=transport) as opened:
        yield opened


async def test_every_verb_gives_what_the_store_would(remote: RemoteMemories, memories: Memories):
    """A verb's arguments and answers cross the wire unchanged, with the same effect as on the store
    itself.
    """
    fields: dict[str, Any] = {
        "topics": ("tea",),
        "metadata": {"n": 1, "deep": json.loads("[" * 99 + "]" * 99)},
        "happened_at": datetime(2026, 1, 2, tzinfo=UTC),
        "author": "Ada",
        "category": "%",
        "ttl_days": 3,
    }
    vector = np.asarray(axis(0), dtype=np.float32)
    [old] = await remote.add(SCOPE, [Fact("Ada likes tea", **fields)], who="me")
    memory = await memories.get(SCOPE, old)
    assert (memory.content, {name: getattr(memory, name) for name in fields}) == (
        "Ada likes tea",
        fields,
    )
    assert (await remote.edit(SCOPE, old, content="Ada likes green tea")).revision == 2
    await remote.add(SCOPE, ["Ada likes coffee"], replaces=old)
    [new] = await remote.add(SCOPE, ["near"], embedding=[vector])
    with pytest.raises(InvalidInput, match="multiple of 64"):
        await remote.add(SCOPE, ["far"], embedding=[vector[:65]])
    messages = [Message(text="I moved to Rome", event_id="e")]
    job = await remote.remember(SCOPE, messages, "s")
    only = {"filter": Filter(topics=("tea",), author="Ada", category="%")}
    page: dict[str, Any] = {"limit": 1, "order": "oldest"}
    page["cursor"] = (await memories.list(SCOPE, **page)).cursor
    for verb, arguments, options in (
        ("get", (SCOPE, old), {"superseded": True}),
        ("history", (SCOPE, old), {}),
        ("list", (SCOPE,), {"filter": Filter(metadata={"n": 1}, superseded=True)}),
        ("list", (SCOPE,), page),
        ("recall", ([SCOPE, replace(SCOPE, user="eve")], "coffee?"), {"deliver": False}),
        ("recall", (SCOPE, "tea?"), {"as_of": memories.clock(), "deliver": False}),
        ("recall", (SCOPE, "coffee?"), {"gate": True}),
        ("recall", (SCOPE, ""), {"embedding": vector, "deliver": False}),
        ("forget", (SCOPE,), {**only, "dry_run": True}),
        ("prune", (), {"dry_run": True}),
        ("facets", (SCOPE,), {"filter": Filter(types=("semantic",))}),
        ("stats", (SCOPE,), {}),
        ("jobs", (), {"id": job}),
        ("scopes", (), {}),
        ("receipts", (), {}),
    ):
        expected, answer = [
            await getattr(door, verb)(*arguments, **options) for door in (memories, remote)
        ]
        assert answer == expected, verb
    server, *findings = await remote.check()
    assert (server.part, server.state) == ("server", "ok")
    assert findings == await memories.check()
    with pytest.raises(NotFound):
        await remote.get(SCOPE, old)
    assert (await remote.undo(SCOPE, old))[0].content == "Ada likes green tea"
    assert (await remote.pin(SCOPE, old)).pinned
    await remote.feedback(SCOPE, old, success=True)
    await memories.work(until_idle=True)
    assert await remote.drain(60)
    await remote.end_session(SCOPE, "s")
    assert new in await remote.forget(SCOPE, new)
    await remote.forget(SCOPE, everything=True)
    assert not (await memories.list(SCOPE)).memories


async def test_errors_cross_the_wire_as_themselves(remote: RemoteMemories):
    """The client raises a server's error as the same class."""
    [id] = await remote.add(SCOPE, ["x"])
    with pytest.raises(NotFound):
        await remote.get(SCOPE, "../../info")
    with pytest.raises(Conflict):
        await remote.edit(SCOPE, id, content="y", revision=7)
    with pytest.raises(InvalidInput):
        await remote.add(SCOPE, [" "])
    for odd in (json.loads("[" * 900 + "]" * 900), object(), math.nan, "half of \ud83e"):
        for call in (
            remote.add(SCOPE, [Fact("x", metadata={"a": odd})]),
            remote.edit(SCOPE, id, metadata={"a": odd}),
        ):
            with pytest.raises(InvalidInput):
                await call
    with pytest.raises(StoreError, match="cannot be reached"):
        await RemoteMemories.open("http://127.0.0.1:9")
    for uri in ("http://[", "http://host:port"):
        with pytest.raises(ConfigurationError, match=r"Invalid (server )?URI"):
            await open_memories(uri)


async def test_a_setting_of_the_server_is_refused(address: str, monkeypatch: pytest.MonkeyPatch):
    """The client refuses an argument that is a server's setting, and ignores it in the
    environment.
    """
    cases: list[tuple[str, dict[str, Any]]] = [
        ("", {"search_limit": 5}),
        ("", {"pool": object()}),
        ("", {"llm": "openai/any"}),
        ("?ttl_days=3", {}),
        ("", {"settings": MemorySettings(min_score=0.3, tenant="acme")}),
    ]
    for query, options in cases:
        with pytest.raises(ConfigurationError, match="set this where the server") as refused:
            await RemoteMemories.open(address.replace("//", "//ada:secret@") + query, **options)
        assert "secret" not in str(refused.value)
    own = MemorySettings(tenant="acme", llm=False)
    monkeypatch.setenv("KAGENT_MEMORY_TENANT", "shop")
    async with await RemoteMemories.open(address, settings=own) as memories:
        assert memories.settings.tenant == "acme"
    monkeypatch.setenv("KAGENT_MEMORY_SEARCH_LIMIT", "3")
    async with await RemoteMemories.open(address) as memories:
        assert memories.settings == MemorySettings(tenant="shop")


@pytest.mark.parametrize("text", ["<!doctype html>", '{"other": "service"}', "[]", '"ok"'])
async def test_another_server_at_that_address_is_a_clear_error(text: str):
    """A foreign server at the address is a clear error."""
    transport = httpx.MockTransport(lambda request: httpx.Response(200, text=text))
    with pytest.raises(StoreError, match="is not a kagent-memory server"):
        await RemoteMemories.open("http://127.0.0.1:9", transport=transport)


async def test_versions_beside_each_other_understand_each_other():
    """A client sends no defaults, ignores unknown fields, and asks an audit only for defects that
    it knows.
    """
    sent: list[httpx.Request] = []

    answers: dict[str, Any] = {
        "info": {"mode": "keyword", "models": [], "colour": "red"},
        "stats": {"visible": 2, "dreams": {"a": 1}},
        "audit": {"memories": 2},
    }

    def newer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json=answers.get(request.url.path.rpartition("/")[2], ["an id"]))

    async with await RemoteMemories.open(
        "http://127.0.0.1", transport=httpx.MockTransport(newer)
    ) as memories:
        assert (await memories.stats(SCOPE)).visible == 2
        assert (await memories.audit(SCOPE)).memories == 2
        assert json.loads(sent[-1].url.params["defects"]) == [*DEFECTS]
        assert await memories.add(SCOPE, ["x", Fact("y", tags=("z",))], replaces=None, who="") == [
            "an id"
        ]
    assert json.loads(sent[-1].content) == {"items": ["x", {"text": "y", "tags": ["z"]}]}
    assert dict(sent[-1].url.params) == {"app": SCOPE.app, "user": SCOPE.user}


async def test_callers_may_only_name_models_on_the_list():
    """A model that the operator does not offer is refused; a client does not name it."""
    message = [Message(text="I moved to Rome", event_id="e")]

    with served(in_memory, Access(models=frozenset({"openai/offered"}))) as address:
        async with await RemoteMemories.open(address) as memories:
            for number, name in enumerate(("openai/offered", "openai/costly")):
                await memories.remember(SCOPE, message, f"s{number}", llm=name)
            assert {job.model for job in await memories.jobs()} == {"openai/offered", ""}
        body = {"messages": [], "session_id": "u", "llm": "openai/costly"}
        query = {"app": "demo", "user": "ada"}
        async with httpx.AsyncClient(base_url=address) as client:
            refused = await client.post("/api/v1/sessions", params=query, json=body)
        assert (refused.status_code, "llm" in refused.json()["detail"]) == (400, True)


async def test_a_token_travels_in_the_header_and_never_in_the_location(
    monkeypatch: pytest.MonkeyPatch,
):
    """A token is sent and never shown, and binds the caller to its tenant."""
    secret = ""

    async def guarded() -> Memories:
        nonlocal secret
        memories = await in_memory()
        secret, _ = await create_token(memories, tenant="acme")
        return memories

    with served(guarded, Access(required=True)) as address:
        with pytest.raises(ConfigurationError, match="token"):
            await RemoteMemories.open(address)
        monkeypatch.setenv("KAGENT_MEMORY_TOKEN", secret)
        async with await RemoteMemories.open(address) as memories:
            assert secret not in memories.location + repr(memories.settings)
            await memories.add(SCOPE, ["x"])
            assert [scope.tenant for scope in await memories.scopes()] == ["acme"]
